"""Read lines of benchmarks/results, and put tables between the marks of pages of the docs."""

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parent / "results"
DOCS = Path(__file__).resolve().parent.parent / "docs"


class Table(NamedTuple):
    """A table that stands on a page between <!-- mark --> and <!-- end -->."""

    page: str
    mark: str
    text: str


def read(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def last(name: str, *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the last line for each combination of the values of some keys."""
    return {tuple(line.get(key) for key in keys): line for line in read(name)}


def markdown(header: Iterable[str], rows: Iterable[Iterable[str]], *, n_texts: int = 1) -> str:
    """Make a table whose first `n_texts` columns are texts, and whose others are numbers."""
    titles = list(header)
    line = "|" + "---|" * n_texts + "---:|" * (len(titles) - n_texts)
    return "\n".join([f"| {' | '.join(titles)} |", line, *(f"| {' | '.join(row)} |" for row in rows)])


def main(doc: str | None, tables: Iterable[Table]) -> None:
    """Write the tables, or with --check exit with 1 if a page is out of date."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a page is out of date")
    check = parser.parse_args().check
    for page, mark, text in tables:
        old = (DOCS / page).read_text(encoding="utf-8")
        pattern = re.compile(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", re.DOTALL)
        new, n_found = pattern.subn(lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}", old)
        if n_found != 1:
            sys.exit(f"{DOCS / page} must have one place for a table, <!-- {mark} -->, got {n_found}")
        if check and new != old:
            sys.exit(f"{DOCS / page} is out of date; run python {sys.argv[0]}")
        if new != old:
            (DOCS / page).write_text(new, encoding="utf-8")
