"""Write docs/results/reproduce.md and its figures from benchmarks/results/reproduce.jsonl.

python benchmarks/write_reproduce.py           write them; figures of the data themselves need --data
python benchmarks/write_reproduce.py --check   exit with 1 if the page is out of date

The results come from `longtail reproduce PAPER --results benchmarks/results/reproduce.jsonl`.
"""

import argparse
import os
import sys
from pathlib import Path

from longtail import reproduce
from longtail.bench.plots import slug
from longtail.bench.results import read_results
from longtail.reproduce.compare import Lines, good_lines

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "reproduce.jsonl"
PAGE, FIGURES = ROOT / "docs" / "results" / "reproduce.md", ROOT / "docs" / "results" / "reproduce"

HEAD = """# The papers' tables, reproduced

<!-- Written by benchmarks/write_reproduce.py from benchmarks/results/reproduce.jsonl; do not edit. -->

`longtail reproduce` runs the tables and figures of the papers again ([how to](../reproduce.md)). This page shows what
was run so far; some training times were taken beside other jobs. """


def page(lines: Lines) -> str:
    papers = [reproduce.read_paper(key) for key in reproduce.paper_keys()]
    parts = [HEAD + reproduce.LEGEND + "\n", overview(papers, lines)]
    for paper in papers:
        parts.append(f"## {paper.title}\n\n{paper.source}. {paper.note}\n")
        for item in paper.items:
            if not item.blocks:
                continue
            parts.append(reproduce.render_item(paper, item, lines, heading="###"))
            name = f"{slug(f'{paper.key} {item.name}')}.svg"
            if item.draw and (FIGURES / name).exists():
                parts.append(f"![{paper.key}, {item.name}](reproduce/{name})\n")
    return "\n".join(parts)


def overview(papers: list[reproduce.Paper], lines: Lines) -> str:
    """List every table and figure with what was reproduced of it, or why it cannot be."""
    table = ["| paper | | | rows measured |", "|---|---|---|---|"]
    for paper in papers:
        for item in paper.items:
            state = f"no: {item.why_not}" if item.why_not else measured(item, lines)
            table.append(f"| {paper.key} | {item.name} | {item.caption} | {state} |")
    return "\n".join(table) + "\n"


def measured(item: reproduce.Item, lines: Lines) -> str:
    """Count the rows that were measured, of those that can be; data sets without any result are not at hand."""
    at_hand = {line["dataset"] for line in lines.values()}
    rows = [(block, row) for block in item.blocks for row in block.rows if row.declared.system is not None]
    if not rows:
        return "drawn from the data"
    ours = [(block, row) for block, row in rows if block.data_name in at_hand]
    n_found = sum(bool(good_lines(item, block, row, lines)) for block, row in ours)
    missing = sorted({block.data_name for block, _ in rows} - at_hand)
    return f"{n_found} of {len(ours)}" + (f"; {', '.join(missing)} not at hand" if missing else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("LONGTAIL_DATA", "../shared/data")))
    options = parser.parse_args()
    lines = reproduce.by_key(read_results(RESULTS))
    if not options.check:
        for key in reproduce.paper_keys():
            for item in reproduce.read_paper(key).items:
                reproduce.draw_item(reproduce.read_paper(key), item, lines, FIGURES, options.data)
        PAGE.write_text(page(lines), encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page(lines):
        sys.exit(f"{PAGE} is out of date: run benchmarks/write_reproduce.py and commit it")


if __name__ == "__main__":
    main()
