"""Tables of a paper as Markdown: its figures and ours side by side."""

from __future__ import annotations

from typing import Any

from longtail.bench.tables import number
from longtail.reproduce.compare import Lines, Measured, compare_row, failure, good_lines, is_cost
from longtail.reproduce.paper import Block, Item, Paper, Row

MARK = "**"
LEGEND = (
    "Paper / ours (difference). A difference in bold is more than noise: two standard deviations, from the paper's "
    "deviation over splits (or, without one, the standard error over the test rows) and ours over seeds. "
    "Times and sizes are not compared."
)
_HEADS = {
    "train_wall_seconds": "training, s",
    "train_cpu_seconds": "training, CPU s",
    "predict_wall_seconds": "test set, s",
    "model_mb": "model, MB",
    "leaf_balance_": "balance by leaves",
    "balance_": "balance",
    "labels_per_leaf_": "labels per leaf",
    "root_objectives_": "objective at the root",
    "root_rounds_": "rounds until the update",
    "binary_precision": "precision",
    "binary_recall": "recall",
}


def render_item(paper: Paper, item: Item, lines: Lines, *, heading: str = "##") -> str:
    """Render a table or figure of a paper with what was measured so far."""
    parts = [f"{heading} {item.name.capitalize()}: {item.caption}\n"]
    for text in (item.why_not and f"Not reproduced: {item.why_not}.", item.note):
        if text:
            parts.append(f"{text}\n")
    for block in item.blocks:
        parts.append(_render_block(item, block, lines))
    return "\n".join(parts)


def item_records(paper: Paper, item: Item, lines: Lines) -> list[dict[str, Any]]:
    """Return every comparison of an item as a plain dict, for machines."""
    records = []
    for block in item.blocks:
        for row in block.rows:
            base: dict[str, Any] = {
                "paper": paper.key,
                "item": item.name,
                "dataset": block.data_name,
                "system": row.declared.name,
            }
            if block.stands_for:
                base["stands_for"] = block.stands_for
            if block.data is not None and block.data.missing:
                base |= {"missing": block.data.missing}
            if block.data is not None and block.data.sample_labels:
                base |= {"sample_labels": block.data.sample_labels}
            for found in compare_row(item, block, row, lines):
                record: dict[str, Any] = base | {"metric": found.metric}
                if found.published is not None:
                    record |= {"paper_value": found.published.value, "paper_deviation": found.published.deviation}
                record |= {"value": found.value, "deviation": found.deviation, "n_seeds": found.n_seeds}
                record |= {"difference": found.difference, "noise": found.noise, "marked": found.is_marked}
                records.append(record)
    return records


def _render_block(item: Item, block: Block, lines: Lines) -> str:
    title = f"**{block.data_name}**"
    if block.data is not None and block.data.missing:
        title += f", labels missing by A = {block.data.missing['a']:g}"
    if block.data is not None and block.data.sample_labels:
        title += f", a random sample of {block.data.sample_labels} labels"
    if block.stands_for:
        title += f", in place of {block.stands_for}: values are not comparable"
    if block.why_not:
        return f"{title}: not reproduced, {block.why_not}.\n"
    if not block.rows:
        return f"{title}\n"
    if item.draw == "trees":
        return f"{title}\n\n{_sweep_table(item, block, lines)}\n"
    if item.draw == "incomplete":
        return f"{title}\n\n{_incomplete_table(item, block, lines)}\n"
    if not item.metrics:
        rows = [f"| {row.declared.title} | {_seeds_or_failure(item, block, row, lines)} |" for row in block.rows]
        return "\n".join([title, "", "| system | seeds |", "|---|---|", *rows, ""])
    heads = [_HEADS.get(metric, metric) for metric in item.metrics]
    if item.ratio_to:
        heads.append(f"faster than {item.ratio_to}: paper / ours")
    table = [f"| system | seeds | {' | '.join(heads)} |", "|---|---:" + "|---:" * len(heads) + "|"]
    base = next((row for row in block.rows if row.declared.name == item.ratio_to), None)
    for row in block.rows:
        found = compare_row(item, block, row, lines)
        cells = [_cell(measured) for measured in found]
        if item.ratio_to and base is not None:
            cells.append(_ratio(compare_row(item, block, base, lines)[0], found[0]))
        table.append(f"| {row.declared.title} | {_seeds_or_failure(item, block, row, lines)} | {' | '.join(cells)} |")
    return "\n".join([title, "", *table, ""])


def _seeds_or_failure(item: Item, block: Block, row: Row, lines: Lines) -> str:
    n_seeds = len(good_lines(item, block, row, lines))
    return str(n_seeds) if n_seeds else f"*{failure(item, block, row, lines)}*"


def _cell(found: Measured) -> str:
    """Write "63.26 ± 0.84 / 63.51 (+0.25)"."""
    theirs = "–" if found.published is None else _number(found.published.value, found.metric)
    if found.published is not None and found.published.deviation is not None:
        theirs += f" ± {found.published.deviation:g}"
    if found.value is None:
        return theirs
    text = f"{theirs} / {_number(found.value, found.metric)}"
    if found.difference is None:
        return text
    difference = f"{found.difference:+.2f}"
    return f"{text} ({MARK}{difference}{MARK})" if found.is_marked else f"{text} ({difference})"


def _number(value: float, metric: str) -> str:
    return number(value, 4) if is_cost(metric) else f"{value:.2f}"


def _ratio(base: Measured, found: Measured) -> str:
    def faster(theirs: float | None, own: float | None) -> str:
        return "–" if not theirs or not own else f"{theirs / own:.1f}"

    published = faster(
        base.published.value if base.published else None, found.published.value if found.published else None
    )
    return f"{published} / {faster(base.value, found.value)}"


def _incomplete_table(item: Item, block: Block, lines: Lines) -> str:
    """Write the gains of one ranking on incomplete truths."""
    (row,) = block.rows
    found = good_lines(item, block, row, lines)
    if not found:
        return f"*{failure(item, block, row, lines)}*"
    table = ["| A | missing, % | complete truth | plain | scored by propensity |", "|---|---:|---:|---:|---:|"]
    for point in found[0]["incomplete"]:
        means = [f"{point[name]:.2f} ± {point[f'{name}_error']:.2f}" for name in ("plain", "scored")]
        table.append(f"| {point['a']:g} | {point['missing']} | {point['complete']:.2f} | {' | '.join(means)} |")
    return "\n".join(table)


def _sweep_table(item: Item, block: Block, lines: Lines) -> str:
    """Write the values of a figure over the number of trees: one line for each order."""
    (row,) = block.rows
    found = good_lines(item, block, row, lines)
    if not found:
        return f"*{failure(item, block, row, lines)}*"
    points = found[0]["sweep"]
    counts = list(dict.fromkeys(point["n_trees"] for point in points))
    metric = item.metrics[0]
    table = [f"| {metric}, trees | {' | '.join(map(str, counts))} |", "|---" + "|---:" * len(counts) + "|"]
    for order in dict.fromkeys(point["order"] for point in points):
        values = [f"{point[metric]:.2f}" for point in points if point["order"] == order]
        table.append(f"| {order} order | {' | '.join(values)} |")
    return "\n".join(table)
