"""longtail report"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from longtail.cli import options


@click.command()
@options.model_argument
@options.data_argument
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="HTML file to write.",
)
@click.option("--title", default="Evaluation report", show_default=True)
@click.option(
    "--propensity",
    type=click.Choice(["default", "wikipedia", "amazon"]),
    default="default",
    show_default=True,
    help="How likely a relevant label is to be in the truth.",
)
@click.option("--top-k", type=click.IntRange(1, 100), default=5, show_default=True)
@options.language_option
@options.reading_options
@options.n_jobs_option
@options.verify_option
@options.overwrite_option
def report(
    model: Path,
    data: Path,
    output: Path,
    title: str,
    propensity: str,
    top_k: int,
    language: str | None,
    reading: dict[str, Any],
    n_jobs: int | None,
    verify: bool,
    overwrite: bool,
) -> None:
    """Measure MODEL on labelled DATA and write a report: one HTML file with plots, for screen and paper.

    \b
    Example:
      longtail report tags.model test.jsonl.gz -o report.html
    """
    options.check_output(output, overwrite=overwrite)
    try:
        from longtail import report as reports
    except ImportError as error:
        raise ImportError(
            f"longtail report needs more packages ({error.name}): pip install 'longtail[report]'"
        ) from None

    begin = time.perf_counter()
    loaded = options.load_model(model, n_jobs, verify=verify)
    load_seconds = time.perf_counter() - begin
    rows, labels = options.read_inputs(data, loaded, reading)
    findings = reports.examine(
        loaded,
        rows,
        labels,
        propensity=propensity,
        top_k=top_k,
        name_of=options.namer(model, loaded, language),
        load_seconds=load_seconds,
        size_bytes=sum(path.stat().st_size for path in model.rglob("*") if path.is_file()),
    )
    html = reports.render(findings, title=title, model=model.name, data=data.name)
    beside = output.with_name(f".{output.name}.tmp")
    try:
        beside.write_text(html, encoding="utf-8")
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)
    click.echo(f"{output}: {len(html.encode()) / 1e3:.0f} kB", err=True)
