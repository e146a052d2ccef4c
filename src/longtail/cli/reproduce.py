"""longtail reproduce"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail._words import counted
from longtail.cli import options

if TYPE_CHECKING:
    from longtail.reproduce import Item, Paper


@click.command()
@click.argument("paper", required=False)
@click.option("--table", "tables", multiple=True, metavar="NUMBER", help="Only this table; may be repeated.")
@click.option("--figure", "figures", multiple=True, metavar="NUMBER", help="Only this figure; may be repeated.")
@click.option("-d", "--data", "datasets", multiple=True, metavar="NAME", help="Only these data sets.")
@click.option("-s", "--system", "systems", multiple=True, metavar="NAME", help="Only these systems of the paper.")
@click.option("--seeds", type=click.IntRange(1), help="Models per row of a table; default: as declared.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("reproduce.jsonl"),
    show_default=True,
    help="Lines are appended here; cells that have one are skipped.",
)
@click.option(
    "-o", "--output", type=click.Path(file_okay=False, path_type=Path), help="Directory for the figures as SVG files."
)
@click.option("--data-folder", type=click.Path(path_type=Path), help="Of the data; default: $LONGTAIL_DATA or here.")
@click.option("--limit-seconds", type=float, default=3600, show_default=True, help="For one model.")
@click.option("--timeout-seconds", type=float, help="Start no model after this time; run again to continue.")
@click.option("--retry-failed", is_flag=True, help="Train models that failed again.")
@click.option("--render", "only_render", is_flag=True, help="Train nothing; show stored results.")
@click.option("--list", "only_list", is_flag=True, help="Train nothing; list tables and figures with estimated times.")
@options.json_option
def reproduce(
    paper: str | None,
    tables: tuple[str, ...],
    figures: tuple[str, ...],
    datasets: tuple[str, ...],
    systems: tuple[str, ...],
    seeds: int | None,
    results: Path,
    output: Path | None,
    data_folder: Path | None,
    limit_seconds: float,
    timeout_seconds: float | None,
    retry_failed: bool,
    only_render: bool,
    only_list: bool,
    as_json: bool,
) -> None:
    """Run a paper's tables and figures again and print its numbers and ours side by side.

    PAPER is fastxml, pfastrexml, gbdt-sparse, msi-dismec or fastxml-slides. Models that have a stored result are not
    trained again, so the same command continues a run that was stopped.

    \b
    Example:
      longtail reproduce --list
      longtail reproduce fastxml --table 2 --data Bibtex
      longtail reproduce msi-dismec --figure 7 -o figures
    """
    from longtail import bench as benches
    from longtail import reproduce as papers

    if paper is None and not only_list:
        raise click.UsageError(f"give a PAPER ({', '.join(papers.paper_keys())}), or --list")
    if paper is None and (tables or figures):
        raise click.UsageError("--table and --figure need a PAPER")
    read = [papers.read_paper(key) for key in ([paper] if paper else papers.paper_keys())]
    papers.check_names(read, datasets, systems)
    chosen = [(one, item.only(datasets, systems)) for one in read for item in _chosen(one, tables, figures, seeds)]
    if datasets or systems:
        chosen = [(one, item) for one, item in chosen if item.blocks]
        if not chosen:
            raise click.UsageError("none of these tables and figures has these data sets and systems")
    folder = data_folder or Path(os.environ.get("LONGTAIL_DATA", ""))
    lines = papers.by_key(benches.read_results(results))
    if only_list:
        _list(chosen, lines, folder, as_json=as_json)
        return
    if output is not None:
        benches.check_matplotlib()
    n_unread = 0
    if not only_render:
        n_unread = _run(chosen, results, folder, limit_seconds, timeout_seconds, retry_failed)
        lines = papers.by_key(benches.read_results(results))
    for one, item in chosen:
        if as_json:
            for record in papers.item_records(one, item, lines):
                click.echo(json.dumps(record))
        else:
            click.echo(papers.render_item(one, item, lines))
        if output is not None:
            for path in papers.draw_item(one, item, lines, output, folder):
                click.echo(str(path), err=True)
    if not as_json:
        click.echo(papers.LEGEND)
        if read[0].note:
            click.echo(f"\n{read[0].note}")
    if n_unread:
        raise ValueError(f"{counted(n_unread, 'model')} not trained: the data could not be read, see above")


def _chosen(paper: Paper, tables: tuple[str, ...], figures: tuple[str, ...], seeds: int | None) -> list[Item]:
    items = [paper.find("table", number) for number in tables] + [paper.find("figure", number) for number in figures]
    items = items or list(paper.items)
    return items if seeds is None else [item.with_seeds(seeds) for item in items]


def _run(
    chosen: list[tuple[Paper, Item]],
    results: Path,
    folder: Path,
    limit_seconds: float,
    timeout_seconds: float | None,
    retry_failed: bool,
) -> int:
    """Train what is not stored yet; return the number of cells whose data could not be read."""
    from longtail import reproduce as papers
    from longtail.bench import read_results
    from longtail.cli.bench import run_cells

    lines = papers.by_key(read_results(results))
    plan = papers.join_plans(papers.plan_item(item, lines, folder, limit_seconds=limit_seconds) for _, item in chosen)
    if plan.missing and not plan.cells:
        raise ValueError("\n".join(plan.missing))
    for text in plan.missing:
        click.echo(text, err=True)
    if not plan.cells and not plan.missing and not plan.unavailable:
        return 0
    if plan.seconds:
        n_left = counted(len(plan.seconds), "model")
        click.echo(f"{n_left} to train, about {_minutes(plan.minutes)} on one core, the shortest first", err=True)
    return run_cells(
        plan.cells,
        results,
        data_folder=folder,
        retry_failed=retry_failed,
        timeout_seconds=timeout_seconds,
    )


def _list(chosen: list[tuple[Paper, Item]], lines: dict[str, Any], folder: Path, *, as_json: bool) -> None:
    from longtail import reproduce as papers

    before = ""
    how_to_get: dict[str, str] = {}  # once for each data set, below the list
    for paper, item in chosen:
        found = papers.describe_item(paper, item, lines, folder)
        if as_json:
            click.echo(json.dumps(found))
            continue
        if paper.key != before:
            click.echo(f"{paper.key}: {paper.title} ({paper.source})")
            before = paper.key
        click.echo(f"  {item.name:<10} {item.caption}")
        names, notes = ", ".join(found["data"]), list(found["unavailable"])
        if found["missing"]:
            notes.insert(0, f"missing data: {', '.join(found['missing'])}")
            how_to_get |= found["missing"]
        if found["n_cells"]:
            n_left = found["n_cells"] - found["n_done"]
            left = f"{n_left} left, about {_minutes(found['minutes'])}" if n_left else "all done"
            click.echo(f"{'':13}{names}; {counted(found['n_cells'], 'model')}, {left}")
        elif found["data"] and not found["missing"]:
            click.echo(f"{'':13}{names}; nothing to train")
        for text in notes:
            click.echo(f"{'':13}- {text}")
    for text in how_to_get.values():
        click.echo(f"\n{text}")


def _minutes(minutes: float) -> str:
    return "a minute" if minutes < 1.5 else f"{minutes:.0f} minutes"
