"""Write docs/benchmarks.md, its plots and the tables of README and algorithm pages from benchmarks/results.

With --check, exit with 1 if one of them is out of date. Published figures are in benchmarks/published.toml, the section
on weaknesses in benchmarks/where_we_lose.md.
"""

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

# The data set and the systems whose figures an algorithm's page shows.
ALGORITHMS = {
    "dismec": ("EURLex-4K", ("DiSMEC", "DiSMEC int8")),
    "fastxml": ("EURLex-4K", ("FastXML",)),
    "pfastrexml": ("EURLex-4K", ("PfastXML", "PfastreXML")),
    "gbdt": ("Mediamill", ("GBDTSparse",)),
}

HEAD = """# Benchmarks

<!-- Written by scripts/write_benchmarks.py from benchmarks/results/systems.jsonl; do not edit. -->

longtail's systems are in bold. `make bench` runs all measurements again, as declared in `benchmarks/matrix.toml`;
[Measuring it yourself](bench.md) describes how to run them on your own data.

- **Setting.** Each system runs in its own process, pinned to as many cores as it has threads, on an otherwise idle
  machine. XGBoost on Mediamill shared the machine and would be faster alone. EURLex-4K was measured again for 0.2.0,
  without one-vs-rest of scikit-learn (1,006 s on the machine of 0.1.0), that of napkinXC (775 s) and XGBoost (out of
  memory).
- **Parameters** are the defaults, with these exceptions: Parabel and Bonsai have three trees, Bonsai has
  `collapse_every_n_layers=5`, PECOS one-vs-rest drops weights below 0.01, and XGBoost has 30 rounds of multi-output
  trees.
- **Rows** have length 1, except on Mediamill and where a table says otherwise. On Bibtex, Delicious and Mediamill this
  choice was made after both variants had been tried on the test rows with some of longtail's systems.
- **Time** is wall time in seconds: the median, with the least and the greatest run in brackets. Data is in memory and
  libraries are imported before the clock starts. Prediction uses the model as loaded from its files. "one row" is a
  call with a single row; Omikuji offers only that.
- **Memory and size.** "peak" is the largest resident memory of the process until the end of training, data included.
  Model sizes are those of the files.
- **Metrics** (P, nDCG, coverage, and PSP, the propensity-scored precision with A = 0.55 and B = 1.5) are computed by
  the same code for all systems, in %. All test rows count, including those without labels.
- **Published figures** are in italics and were not measured here. The splits of Bibtex, Delicious and Mediamill differ
  from the repository's random ones, so differences of a point are not meaningful there.
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
    parts += [
        "## Where other libraries are better\n",
        (ROOT / "benchmarks" / "where_we_lose.md").read_text(encoding="utf-8"),
    ]
    return "\n".join(parts)


def single_thread(lines: list[dict[str, Any]]) -> list[Summary]:
    return [row for row in summarise(lines) if row.failed is None and row.first["threads"] == 1]


def machines(lines: list[dict[str, Any]]) -> str:
    """List where each data set was measured, with which versions and commits."""
    sets: dict[str, list[str]] = {}
    commits: dict[str, list[str]] = {}
    for line in lines:
        m = line["machine"]
        place = f"{m['cpu']}, {m['cores']} cores, {m['isa']}, Python {m['python']}, longtail {m['longtail']}"
        sets.setdefault(place, []).append(line["dataset"])
        commits.setdefault(place, []).append(m["commit"])
    parts = [
        f"- {', '.join(dict.fromkeys(sets[place]))}: {place}, commits {', '.join(dict.fromkeys(commits[place]))}"
        for place in sets
    ]
    versions = {name: version for line in lines for name, version in line.get("versions", {}).items()}
    words = ", ".join(f"{name} {versions[name]}" for name in sorted(versions) if name not in ("python", "longtail"))
    return "Measured on:\n\n" + "\n".join(parts) + f"\n\nVersions: {words}.\n"


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
    parts = []
    rows = [row for row in single_thread(lines) if row.first["dataset"] == "EURLex-4K"]
    if rows:
        rows.sort(key=lambda row: -(row.median("P@1") or 0))
        parts += [systems_table("EURLex-4K", rows), ""]
    reading = {line["system"]: line["wall_seconds"] for line in stored("parse") if is_plain_eurlex(line)}
    starts = {line["system"]: line["first_answer_seconds"] for line in stored("serving") if line["part"] == "start"}
    systems = list(dict.fromkeys([*reading, *starts]))
    parts += [f"| | {' | '.join(systems)} |", "|---" + "|---:" * len(systems) + "|"]
    for title, values in (
        ("read EURLex-4K (49 MB of text), s", reading),
        ("start a service, until its first answer, s", starts),
    ):
        parts.append(f"| {title} | {' | '.join(number(values.get(name), 2) for name in systems)} |")
    return "\n".join(parts) + "\n"


def algorithm_part(name: str, lines: list[dict[str, Any]]) -> str:
    """Write the table of an algorithm's page."""
    dataset, systems = ALGORITHMS[name]
    cells = {row.first["system"]: row for row in single_thread(lines) if row.first["dataset"] == dataset}
    return systems_table(dataset, [cells[system] for system in systems if system in cells]) + "\n"


def label_tree_part(lines: list[dict[str, Any]]) -> str:
    """Write the tables of docs/results/label_tree.md: every set, then the cost of a label as labels grow."""
    parts = [machines(lines)] if lines else []
    parts.append(render_tables([line for line in lines if not line["dataset"].startswith("titles ")]))
    rows = [row for row in summarise(lines) if row.failed is None and row.first["dataset"].startswith("titles ")]
    if rows:
        names = ("labels", "rows", "train, s", "train, s of CPU", "CPU ms per label", "predict, ms/row", "load, s")
        parts += ["## From ten thousand to a million labels\n", f"| {' | '.join(names)} |", "|---:" * len(names) + "|"]
    for row in sorted(rows, key=lambda row: row.first["n_labels"]):
        first, cpu = row.first, row.median("train_cpu_seconds") or 0
        values = [number(row.median("train_wall_seconds"), 3), number(cpu, 3), number(1e3 * cpu / first["n_labels"], 3)]
        values += [number(row.median("predict_ms_per_row"), 2), number(row.median("load_seconds"), 2)]
        parts.append(f"| {first['n_labels']:,} | {first['n_rows']:,} | {' | '.join(values)} |")
    return "\n".join(parts).rstrip("\n") + "\n"


def systems_table(dataset: str, rows: list[Summary]) -> str:
    columns = {
        "train, s": ("train_wall_seconds", 3),
        "predict, ms/row": ("predict_ms_per_row", 2),
        "model, MB": ("model_mb", 3),
    }
    metrics = ("P@1", "P@5", "PSP@1", "PSP@5")
    names = [f"{dataset}, one thread", *columns, *metrics]
    parts = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    for row in rows:
        title = f"**{row.first['title']}**" if row.first["ours"] else row.first["title"]
        numbers = [number(row.median(name), digits) for name, digits in columns.values()]
        accuracy = [f"{row.median(name) or 0:.2f}" for name in metrics]
        parts.append(f"| {' | '.join([title, *numbers, *accuracy])} |")
    return "\n".join(parts)


def is_plain_eurlex(line: dict[str, Any]) -> bool:
    """Select the lines about reading uncompressed text with one thread."""
    is_reader = line["system"] in ("longtail", "scikit-learn", "napkinXC")
    is_plain = line.get("input", "plain.txt") == "plain.txt"
    return is_reader and is_plain and line["threads"] == 1 and line["dataset"].startswith("eurlex")


def stored(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def between_marks(path: Path, part: str) -> str:
    head, rest = path.read_text(encoding="utf-8").split(BEGIN)
    return head + BEGIN + part + END + rest.split(END)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if a page is out of date")
    options = parser.parse_args()
    lines = read_results(RESULTS / "systems.jsonl")
    made = {PAGE: page(lines), README: between_marks(README, readme_part(lines))}
    for name in ALGORITHMS:
        path = ROOT / "docs" / f"{name}.md"
        made[path] = between_marks(path, algorithm_part(name, lines))
    path = ROOT / "docs" / "results" / "label_tree.md"
    made[path] = between_marks(path, label_tree_part(read_results(RESULTS / "label_trees.jsonl")))
    for path, text in made.items():
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            sys.exit(f"{path} is out of date: run `make benchmark-docs` and commit it")
    if not options.check and lines:
        draw_plots(lines, PLOTS)


if __name__ == "__main__":
    main()
