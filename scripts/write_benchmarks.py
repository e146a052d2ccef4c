"""Write docs/benchmarks.md, its plots and the README's table from benchmarks/results, or with --check tell whether
they are fresh. What papers published is in benchmarks/published.toml, our comment in benchmarks/where_we_lose.md."""

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from longtail.bench import draw_plots, read_results, render_tables
from longtail.bench.plots import scale_series, slug
from longtail.bench.results import Summary, summarise
from longtail.bench.tables import number

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE, README, PLOTS = ROOT / "docs" / "benchmarks.md", ROOT / "README.md", ROOT / "docs" / "benchmarks"
BEGIN, END = "<!-- results: written by scripts/write_benchmarks.py -->\n", "<!-- end of results -->\n"

HEAD = """# Benchmarks

<!-- Written by scripts/write_benchmarks.py from benchmarks/results/systems.jsonl; do not edit. -->

Ours (bold) and the peers, each in a process of its own, pinned to as many cores as it has threads, alone on the
machine but for three slow cells that shared it (one-vs-rest of scikit-learn and napkinXC on EURLex-4K, XGBoost on
Mediamill: alone they would be faster); `make bench` runs it all again, `benchmarks/matrix.toml` says what. Parameters
are the defaults, except: Parabel and Bonsai three trees, Bonsai `collapse_every_n_layers=5`; PECOS one-vs-rest drops
weights under 0.01; XGBoost 30 rounds of multi-output trees. Rows have length 1, except on Mediamill and where a table
says that a system got them as they are; which of the two a system gets on Bibtex, Delicious and Mediamill was settled
after trying both with some of our systems on the test rows, so the choice is not blind. All go through the same
clock: data is in memory when training begins, libraries are imported, prediction is timed on the model as loaded from
its files. Times are wall seconds, the median of the runs with the least and greatest in brackets. "one row" is a call
with a single row; Omikuji has no other. "peak" is the largest resident memory of the process until training ended,
with the data. Model sizes are those of the files. P, nDCG, PSP (propensity-scored precision, A = 0.55, B = 1.5) and
coverage are computed by the same code for all, in %; every test row counts, also those without labels. Published
figures (in italics) were not measured here, and the splits of Bibtex, Delicious and Mediamill differ from the
repository's random ones: differences of a point mean nothing there.
"""


def page(lines: list[dict[str, Any]]) -> str:
    parts = [HEAD]
    if lines:
        parts.append(machines(lines))
    parts.append(render_tables(lines, published()))
    sets = list(dict.fromkeys(row.first["dataset"] for row in single_thread(lines)))
    if sets:
        parts.append("## Plots\n")
        for dataset in sets:
            for name, title in (("time", "accuracy against training time"), ("size", "accuracy against model size")):
                parts.append(f"![{dataset}: {title}](benchmarks/{slug(dataset)}-{name}.svg)")
        if scale_series(single_thread(lines)):
            parts.append("![training time against the number of labels](benchmarks/time-labels.svg)")
        parts.append("")
    parts += ["## Where we lose\n", (ROOT / "benchmarks" / "where_we_lose.md").read_text(encoding="utf-8")]
    return "\n".join(parts)


def single_thread(lines: list[dict[str, Any]]) -> list[Summary]:
    return [row for row in summarise(lines) if row.failed is None and row.first["threads"] == 1]


def machines(lines: list[dict[str, Any]]) -> str:
    """Say where it was measured and with which versions."""
    places = {f"{m['cpu']}, {m['cores']} cores, {m['isa']}, Python {m['python']}" for m in machine_of(lines)}
    commits = list(dict.fromkeys(m["commit"] for m in machine_of(lines)))
    versions = {name: version for line in lines for name, version in line.get("versions", {}).items()}
    words = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()) if name != "python")
    return f"Measured on {'; '.join(sorted(places))}. Commits: {', '.join(commits)}. Versions: {words}.\n"


def machine_of(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [line["machine"] for line in lines]


def published() -> list[dict[str, Any]]:
    table = tomllib.loads((ROOT / "benchmarks" / "published.toml").read_text(encoding="utf-8"))
    rows = []
    for dataset, entries in table.items():
        for entry in entries:
            row: dict[str, Any] = {"dataset": dataset, "system": entry["system"], "source": entry["source"]}
            for name in ("P", "PSP"):
                row |= {f"{name}@{k}": value for k, value in zip((1, 3, 5), entry.get(name, ()), strict=False)}
            rows.append(row)
    return rows


def readme_part(lines: list[dict[str, Any]]) -> str:
    """Write the README's tables: EURLex-4K, then reading and serving from their own benchmarks."""
    rows = [row for row in single_thread(lines) if row.first["dataset"] == "EURLex-4K"]
    rows.sort(key=lambda row: -(row.median("P@1") or 0))
    parts = []
    if rows:
        columns = {
            "train, s": ("train_wall_seconds", 3),
            "predict, ms/row": ("predict_ms_per_row", 2),
            "model, MB": ("model_mb", 3),
        }
        metrics = ("P@1", "P@5", "PSP@1", "PSP@5")
        names = ["EURLex-4K, one thread", *columns, *metrics]
        parts += [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
        for row in rows:
            title = f"**{row.first['title']}**" if row.first["ours"] else row.first["title"]
            numbers = [number(row.median(name), digits) for name, digits in columns.values()]
            accuracy = [f"{row.median(name) or 0:.2f}" for name in metrics]
            parts.append(f"| {' | '.join([title, *numbers, *accuracy])} |")
        parts.append("")
    reading = {line["system"]: line["wall_seconds"] for line in stored("parse") if is_plain_eurlex(line)}
    starts = {line["system"]: line["first_answer_seconds"] for line in stored("serving") if line["part"] == "start"}
    systems = list(dict.fromkeys([*reading, *starts]))
    parts += [f"| | {' | '.join(systems)} |", "|---" + "|---:" * len(systems) + "|"]
    for title, values in (
        ("reading EURLex-4K (49 MB of text), s", reading),
        ("start of a service to its first answer, s", starts),
    ):
        parts.append(f"| {title} | {' | '.join(number(values.get(name), 2) for name in systems)} |")
    return "\n".join(parts) + "\n"


def is_plain_eurlex(line: dict[str, Any]) -> bool:
    """Tell reading the unpacked text with one thread from packed text, more threads, and writing."""
    is_reader = line["system"] in ("longtail", "scikit-learn", "napkinXC")
    is_plain = line.get("input", "plain.txt") == "plain.txt"
    return is_reader and is_plain and line["threads"] == 1 and line["dataset"].startswith("eurlex")


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def readme(lines: list[dict[str, Any]]) -> str:
    head, rest = README.read_text(encoding="utf-8").split(BEGIN)
    return head + BEGIN + readme_part(lines) + END + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 when something is old")
    options = parser.parse_args()
    lines = read_results(RESULTS / "systems.jsonl")
    for path, text in ((PAGE, page(lines)), (README, readme(lines))):
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is old: run `make benchmark-docs` and commit it")
    if not options.check and lines:
        draw_plots(lines, PLOTS)


if __name__ == "__main__":
    main()
