"""The `annif` command of an environment of its own, and a small corpus cut from the shipped sample."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import longtail as lt

# Annif pins versions that do not fit this environment: `make clients-test` sets the path of its command.
ANNIF = os.environ.get("LONGTAIL_ANNIF") or shutil.which("annif")
_COMMANDS = Path(__file__).with_name("annif_commands.py")


def command(*arguments: str, text: str | None = None) -> dict:
    """Describe a command of Annif for `run_annif`."""
    return {"arguments": list(arguments), "input": text}


def run_annif(folder: Path, *commands: dict) -> list[dict]:
    """Run commands one after the other in a folder; return the code, output and errors of each."""
    environment = os.environ | {"ANNIF_CONFIG": "longtail_annif.Config", "FLASK_RUN_FROM_CLI": "true"}
    python = Path(str(ANNIF)).with_name("python")
    done = subprocess.run(
        [str(python), str(_COMMANDS)],
        cwd=folder,
        env=environment,
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def uri(name: str) -> str:
    return f"http://example.org/debtags/{name}"


def write_corpus(folder: Path, *, n_train: int, n_test: int) -> None:
    """Write ``train.tsv``, ``test.tsv`` and ``vocab.tsv`` as Annif reads them."""
    sample = lt.datasets.load_sample()
    write_documents(folder / "train.tsv", sample.train_texts[:n_train], sample.train_labels[:n_train])
    write_documents(folder / "test.tsv", sample.test_texts[:n_test], sample.test_labels[:n_test])
    names = sorted({name for labels in (*sample.train_labels, *sample.test_labels) for name in labels})
    (folder / "vocab.tsv").write_text("".join(f"<{uri(name)}>\t{name}\n" for name in names))


def write_documents(path: Path, texts: list[str], labels: list[list[str]]) -> None:
    rows = zip(texts, labels, strict=True)
    lines = (" ".join(text.split()) + "\t" + " ".join(f"<{uri(name)}>" for name in names) for text, names in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_metrics(output: str) -> dict[str, float]:
    """Read what `annif eval` prints."""
    pairs = (line.partition(":") for line in output.splitlines())
    return {name.strip(): float(value) for name, _, value in pairs if value.strip()}
