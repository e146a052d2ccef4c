"""Shorten the Debian package texts for the sample that ships with longtail: at most 4 MB, all rows kept."""

import argparse
from pathlib import Path

from longtail.datasets import read_text, write_jsonl

MAX_CHARACTERS = 1200  # longer texts (one in fifty) lose their last lines


def cut(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return text[:MAX_CHARACTERS].rpartition("\n")[0] or text[:MAX_CHARACTERS]


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("source", type=Path, help="folder with debtags_train.jsonl.gz and debtags_test.jsonl.gz")
source = parser.parse_args().source
target = Path(__file__).parent.parent / "src" / "longtail" / "datasets" / "debtags"
for part in ("train", "test"):
    texts, labels = read_text(source / f"debtags_{part}.jsonl.gz")
    write_jsonl(target / f"{part}.jsonl.gz", [cut(text) for text in texts], labels, overwrite=True)
size_bytes = sum(path.stat().st_size for path in target.glob("*.gz"))
print(f"{size_bytes:,} bytes in {target}")
