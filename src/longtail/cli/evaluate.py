"""longtail evaluate"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from longtail._words import counted
from longtail.cli import options


@click.command()
@options.model_argument
@options.data_argument
@click.option("--propensity", default="default", show_default=True, help="default, wikipedia, amazon, or none.")
@click.option("--all", "show_all", is_flag=True, help="Print every measure, not only those that people quote.")
@options.utility_options
@options.reading_options
@options.n_jobs_option
@options.verify_option
@options.json_option
def evaluate(
    model: Path,
    data: Path,
    propensity: str,
    show_all: bool,
    ranking: dict[str, Any],
    reading: dict[str, Any],
    n_jobs: int | None,
    verify: bool,
    as_json: bool,
) -> None:
    """Measure a model on labelled DATA: precision, nDCG, recall, coverage, plain and propensity-scored.

    \b
    Example:
      longtail evaluate eurlex.model eurlex_test.txt.gz
    """
    from longtail import metrics
    from longtail import propensity as propensities

    loaded = options.load_model(model, n_jobs, verify=verify)
    options.check_ranking(model, loaded, ranking)
    inputs, labels = options.read_inputs(data, loaded, reading)
    Y, n_unknown = loaded.encode(labels)
    begin = time.perf_counter()
    top = loaded.predict_top_k(inputs, top_k=5, **ranking)
    seconds = time.perf_counter() - begin
    if Y.nnz == 0:
        raise ValueError(f"{data}: no row has a label that the model knows: there is nothing to measure")
    known = None
    if propensity != "none":
        known = propensities.from_counts(loaded.label_counts_, loaded.n_rows_, preset=propensity)
    result = metrics.evaluate(top, Y, propensity=known)
    if as_json:
        click.echo(result.to_json())
        return
    click.echo(str(result) if show_all else result.as_text())
    if n_unknown:
        click.echo(f"unknown to the model, so not counted: {counted(n_unknown, 'label')} of the data", err=True)
    click.echo(f"{counted(Y.shape[0], 'row')}, {1000 * seconds / max(Y.shape[0], 1):.3f} ms per row", err=True)
