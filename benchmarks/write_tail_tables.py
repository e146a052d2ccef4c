"""Write the tables of docs/results/tail.md, and a sentence of docs/tail.md, from benchmarks/results/tail.jsonl.

python benchmarks/write_tail_tables.py           write them between the marks of the pages
python benchmarks/write_tail_tables.py --check   exit with 1 if a page is out of date

Means are over the seeds that were run; the last line of a set, system and seed counts. Where there are lines since the
last change of the calibration (and of the parts of Blend), earlier ones do not count; cells with only earlier ones are
marked.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results" / "tail.jsonl"
DOCS = Path(__file__).resolve().parent.parent / "docs"
SETS = {"bibtex": "Bibtex", "delicious": "Delicious", "mediamill": "Mediamill", "eurlex": "EURLex-4K"}
SYSTEMS = ("DiSMEC", "LabelTree", "FastXML", "Blend")
UTILITIES = {
    "score": '`"score"`',
    "precision": '`"precision"`',
    "balanced": '`"balanced"`',
    "psp": '`"psp"`',
    "macro-f1": '`"macro-f1"`',
    "macro-f1, max_loss": '`"macro-f1"`, `max_loss=0.25`',
}

# Marks what was measured before the calibration last changed, and the commit that the first line after that names.
EARLIER = " †"
LAST_CHANGE = "5309670"

Cell = dict[str, Any]


def read_lines() -> list[Cell]:
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()] if RESULTS.exists() else []


def cells_of(lines: list[Cell]) -> dict[tuple[str, str], list[Cell]]:
    """Return the lines of all seeds by set and system."""
    first = last_change(lines)
    measured = {(line["dataset"], line["system"]) for line in lines[first:] if "system" in line}
    last = {}
    for at, line in enumerate(lines):
        if "system" in line and (at >= first or (line["dataset"], line["system"]) not in measured):
            last[line["dataset"], line["system"], line["seed"]] = line
    cells: dict[tuple[str, str], list[Cell]] = {}
    for (dataset, system, _), line in last.items():
        cells.setdefault((dataset, system), []).append(line)
    return cells


def last_change(lines: list[Cell]) -> int:
    """Return the place of the first line since the last change."""
    return next((at for at, line in enumerate(lines) if commit_of(line).startswith(LAST_CHANGE)), 0)


def mean(lines: list[Cell], utility: str, measure: str) -> float:
    return sum(line["utilities"][utility][measure] for line in lines) / len(lines)


def summary(lines: list[Cell]) -> str:
    """Say in one sentence what utilities buy and cost with DiSMEC on the set with the longest tail."""
    cells = cells_of(lines)
    name = next((name for name in ("eurlex", "bibtex") if (name, "DiSMEC") in cells), None)
    if name is None:
        return "There are no results yet."

    def three(measure: str) -> str:
        found = [f"{mean(cells[name, 'DiSMEC'], utility, measure):.1f}" for utility in ("score", "balanced", "psp")]
        return f"{found[0]}, {found[1]} and {found[2]}"

    return (
        f'DiSMEC on {SETS[name]} has a PSP@1 of {three("PSP@1")} by score, in the default ranking and with `"psp"`,\n'
        f"and a P@1 of {three('P@1')}. The [results](results/tail.md) have all figures."
    )


def tables(lines: list[Cell]) -> str:
    """Return all tables, or a line that says that there are none."""
    cells = cells_of(lines)
    if not cells:
        return "No results yet."
    current = {id(line) for line in lines[last_change(lines) :]}
    parts = []
    for name, title in SETS.items():
        by_system = {system: cells[name, system] for system in SYSTEMS if (name, system) in cells}
        if by_system:
            parts.append(f"## {title}\n\n{rankings(by_system, current)}")
    parts.append("## Probabilities and cost\n\n" + costs(cells, current))
    if any(EARLIER in part for part in parts):
        parts.append(f"{EARLIER.strip()}: measured with an earlier calibration, not yet repeated.")
    kernels = {line["kernel"]: line for line in lines if "kernel" in line}
    if kernels:
        found = ", ".join(f"{line['cpu_seconds']:.2f} CPU seconds for {name}" for name, line in kernels.items())
        parts.append(f"The choice of five labels for 100,000 rows with 100 candidates each takes {found}.")
    return "\n\n".join(parts)


def shown_name(system: str, lines: list[Cell], current: set[int]) -> str:
    """Return the name of a system, with a mark if one of its lines is not current."""
    return system if all(id(line) in current for line in lines) else system + EARLIER


def commit_of(line: Cell) -> str:
    return str(line["machine"]["commit"]).rstrip("+")


def rankings(by_system: dict[str, list[Cell]], current: set[int]) -> str:
    """Return one row for each system and utility."""
    rows = ["| system | utility | seeds | P@1 / 3 / 5 | PSP@1 / 3 / 5 | macro-F1@5 |", "|---|---|---|---|---|---|"]
    for system, lines in by_system.items():
        for name, shown in UTILITIES.items():
            three = [" / ".join(f"{mean(lines, name, f'{kind}@{k}'):.1f}" for k in (1, 3, 5)) for kind in ("P", "PSP")]
            macro = mean(lines, name, "macro-F1@5")
            label = shown_name(system, lines, current)
            rows.append(f"| {label} | {shown} | {len(lines)} | {three[0]} | {three[1]} | {macro:.1f} |")
    return "\n".join(rows)


def costs(cells: dict[tuple[str, str], list[Cell]], current: set[int]) -> str:
    """Return calibration errors and costs, one row for each set and system."""
    rows = [
        '| set | system | ECE, % | calibration / fit | `"balanced"` / `"score"` | `"psp"` / `"score"` |',
        "|---|---|---|---|---|---|",
    ]
    for name, title in SETS.items():
        for system in SYSTEMS:
            lines = cells.get((name, system), [])
            if not lines:
                continue
            error = sum(line["ece_points"] for line in lines) / len(lines)
            fits = [
                line["fit_and_calibrate_cpu_seconds"] / line["fit_cpu_seconds"] - 1
                for line in lines
                if "fit_cpu_seconds" in line
            ]
            fit = f"{sum(fits) / len(fits):.2f}" if fits else "included"
            times = [line["predict_us_per_row"] for line in lines]
            ratios = [sum(each[u] / each["score"] for each in times) / len(times) for u in ("balanced", "psp")]
            label = shown_name(system, lines, current)
            rows.append(f"| {title} | {label} | {error:.2f} | {fit} | {ratios[0]:.2f} | {ratios[1]:.2f} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    pattern = re.compile(r"(<!-- tail -->\n).*?(<!-- end -->)", re.DOTALL)
    lines = read_lines()
    for page, text in ((DOCS / "results" / "tail.md", tables(lines)), (DOCS / "tail.md", summary(lines))):
        old = page.read_text(encoding="utf-8")
        new = pattern.sub(lambda match, text=text: f"{match[1]}\n{text}\n\n{match[2]}", old)  # type: ignore[misc]
        if check and new != old:
            sys.exit(f"{page} is out of date; run python benchmarks/write_tail_tables.py")
        page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
