"""longtail evaluate"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail._words import counted
from longtail.cli import options

if TYPE_CHECKING:
    from longtail.metrics import Evaluation


@click.command()
@options.model_argument
@options.data_argument
@click.option("--propensity", default="default", show_default=True, help="default, wikipedia, amazon, or none.")
@click.option("--all", "show_all", is_flag=True, help="Print every measure, not only those that people quote.")
@click.option("--tail", is_flag=True, help="Also measure labels by frequency, with 95 % confidence intervals.")
@click.option(
    "--labels",
    "label_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write counts, precision, recall and F1 of each label to this .csv or .json file.",
)
@options.utility_options
@click.option("--card/--no-card", "has_card", default=True, help="Write the measures into the model card (default).")
@options.reading_options
@options.n_jobs_option
@options.verify_option
@options.overwrite_option
@options.json_option
def evaluate(
    model: Path,
    data: Path,
    propensity: str,
    show_all: bool,
    tail: bool,
    label_file: Path | None,
    has_card: bool,
    ranking: dict[str, Any],
    reading: dict[str, Any],
    n_jobs: int | None,
    verify: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Measure a model on labelled DATA: precision, nDCG, recall, coverage, plain and propensity-scored.

    The measures, the name of DATA and its rows go into the model card, which `longtail info` and the service show.

    \b
    Example:
      longtail evaluate eurlex.model eurlex_test.txt.gz
      longtail evaluate eurlex.model eurlex_test.txt.gz --utility psp --tail --labels labels.csv
    """
    if label_file is not None:
        _check_label_file(label_file, overwrite=overwrite)
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
    if label_file is not None:
        table = metrics.label_table(top, Y, 5)
        write = table.to_json if label_file.suffix == ".json" else table.to_csv
        label_file.write_text(write(loaded.label_names_ or None), encoding="utf-8")
    rare = metrics.evaluate_tail(top, Y, loaded.label_counts_, 5, propensity=known) if tail else None
    if has_card and not any(ranking.values()):  # the card is about the model's own ranking
        _record(model, data, result)
    if as_json:
        click.echo(json.dumps(result.to_dict() | ({} if rare is None else {"tail": rare.to_dict()})))
        return
    click.echo(str(result) if show_all else result.as_text())
    if rare is not None:
        click.echo(f"\n{rare}")
    if n_unknown:
        click.echo(f"unknown to the model, so not counted: {counted(n_unknown, 'label')} of the data", err=True)
    click.echo(f"{counted(Y.shape[0], 'row')}, {1000 * seconds / max(Y.shape[0], 1):.3f} ms per row", err=True)


def _check_label_file(path: Path, *, overwrite: bool) -> None:
    if path.suffix not in (".csv", ".json"):
        raise ValueError(f"--labels must end in .csv or .json, got {path.name}")
    options.check_output(path, overwrite=overwrite)


def _record(model: Path, data: Path, result: Evaluation) -> None:
    """Write the card; a model that cannot be written to is measured all the same."""
    from longtail.saving import record_evaluation

    try:
        record_evaluation(model, result, n_rows=result.n_rows, data="standard input" if str(data) == "-" else data.name)
    except OSError as error:
        click.echo(f"the model card is not updated: {error}", err=True)
