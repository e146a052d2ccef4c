"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longtail._words import counted
from longtail.bench.results import Summary, summarise

_COLUMNS = {
    "train, s": ("train_wall_seconds", 3),
    "predict, ms/row": ("predict_ms_per_row", 2),
    "one row, ms": ("predict_ms_single_row", 2),
    "model, MB": ("model_mb", 3),
    "load, s": ("load_seconds", 2),
    "peak, MB": ("peak_memory_mb", 3),
}
_METRICS = ("P@1", "P@3", "P@5", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "coverage@5")
# Columns of results of version 0.2 and later; left out of tables where no line has them.
_NEWER_METRICS = ("macro-F1@5",)


def render_tables(
    lines: list[dict[str, Any]], published: Sequence[Mapping[str, Any]] = (), *, heading: str = "##"
) -> str:
    """Render one Markdown table for each data set and number of threads.

    Parameters
    ----------
    lines : list of dict
        As `read_results` gives them.
    published : sequence of mappings
        Figures from papers, with "dataset", "system", "source" and metrics; they follow the measured ones.
    heading : str
        What a heading begins with.
    """
    summaries = summarise(lines)
    parts = []
    for dataset in dict.fromkeys(summary.first["dataset"] for summary in summaries):
        of_set = [summary for summary in summaries if summary.first["dataset"] == dataset]
        for n_threads in sorted({summary.first["threads"] for summary in of_set}):
            rows = [summary for summary in of_set if summary.first["threads"] == n_threads]
            figures = [row for row in published if row["dataset"] == dataset] if n_threads == 1 else []
            threads = "1 thread" if n_threads == 1 else f"{n_threads} threads"
            parts.append(f"{heading} {dataset}, {threads}\n\n{_sizes(rows)}{render_table(rows, figures)}")
    return "\n\n".join(parts) + "\n" if parts else "No results yet.\n"


def render_table(rows: Sequence[Summary], published: Sequence[Mapping[str, Any]] = ()) -> str:
    """Render summaries of one data set: ours first, then peers, then published figures."""
    measures = [*_METRICS, *(name for name in _NEWER_METRICS if any(row.median(name) is not None for row in rows))]
    names = ["system", *_COLUMNS, *measures]
    table = [f"| {' | '.join(names)} |", "|---" + "|---:" * (len(names) - 1) + "|"]
    mixed = len({bool(row.first["data"].get("unit_rows")) for row in rows}) > 1
    for row in sorted(rows, key=lambda row: not row.first["ours"]):
        note = " (rows as they are)" if mixed and not row.first["data"].get("unit_rows") else ""
        table.append(f"| {' | '.join(_cells(row, note, measures))} |")
    for figures in published:
        title = f"*{figures['system']}, {figures['source']}*"
        values = [number(figures.get(name), 4) for name in (*_COLUMNS, *measures)]
        table.append(f"| {' | '.join([title, *values])} |")
    return "\n".join(table)


def number(value: float | None, digits: int) -> str:
    """Write a number with the given number of significant digits, but never with an exponent."""
    if value is None:
        return ""
    text = f"{value:.{digits}g}"
    return f"{value:,.0f}" if "e+" in text else f"{value:.6f}".rstrip("0") if "e-" in text else text


def _cells(row: Summary, note: str, measures: Sequence[str]) -> list[str]:
    name = str(row.first["title"]).replace("|", "/")
    title = (f"**{name}**" if row.first["ours"] else name) + note
    n_values = len(_COLUMNS) + len(measures)
    if row.failed is not None:
        reason = row.failed.replace("|", "/").replace("\n", " ")
        return [title, f"*{reason}*", *[""] * (n_values - 1)]
    cells = [title]
    for name, digits in _COLUMNS.values():
        spread = row.spread(name) if name == "train_wall_seconds" else None
        cells.append(number(row.median(name), digits))
        if spread is not None:
            cells[-1] += f" ({number(spread[0], digits)}–{number(spread[1], digits)})"
    for name in measures:
        value = row.median(name)
        cells.append("" if value is None else f"{value:.2f}")
    return cells


def _sizes(rows: Sequence[Summary]) -> str:
    for row in rows:
        if "n_rows" in row.first:
            line = row.first
            return (
                f"{counted(line['n_rows'], 'row')} to train on and {line['n_test_rows']:,} to test on, "
                f"{counted(line['n_features'], 'feature')}, {counted(line['n_labels'], 'label')}.\n\n"
            )
    return ""
