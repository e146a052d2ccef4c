"""Write the table of docs/clients/annif.md from benchmarks/results/annif.jsonl: the last line of a backend counts.

python benchmarks/write_annif_table.py           write it between the marks of the page
python benchmarks/write_annif_table.py --check   exit with 1 if the page is out of date
"""

import argparse
import json
import re
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results" / "annif.jsonl"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "clients" / "annif.md"
ROWS = {
    "F1@5": ("f1_at_5", "{:.4f}"),
    "nDCG": ("ndcg", "{:.4f}"),
    "precision@1": ("precision_at_1", "{:.4f}"),
    "train, s": ("train_cpu_seconds", "{:.1f}"),
    "suggest, s": ("suggest_cpu_seconds", "{:.1f}"),
}


def table() -> str:
    """Return the table, with the machine below it."""
    records = [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]
    found = {record["system"]: record for record in records}
    last = {name: found[name] for name in ("longtail", "omikuji", "svc") if name in found}
    lines = ["| | " + " | ".join(f"`{name}`" for name in last) + " |", "|---" * (len(last) + 1) + "|"]
    for title, (key, form) in ROWS.items():
        lines.append(f"| {title} | " + " | ".join(form.format(record[key]) for record in last.values()) + " |")
    one = last["longtail"]
    about = f"{one['n_train']:,} documents to train on, {one['n_test']:,} to test; {one['machine']['cpu']}."
    return "\n".join([*lines, "", about])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    old = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(r"(<!-- annif -->\n).*?(<!-- end -->)", re.DOTALL)
    new = pattern.sub(lambda match: f"{match[1]}\n{table()}\n\n{match[2]}", old)
    if check and new != old:
        sys.exit(f"{PAGE} is out of date; run python benchmarks/write_annif_table.py")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
