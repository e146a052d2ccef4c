"""longtail train"""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail._words import counted
from longtail.cli import options
from longtail.cli.completing import complete_estimators
from longtail.cli.vectors import read_vectors

if TYPE_CHECKING:
    from longtail._estimate import Estimate


@click.command()
@options.data_argument
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Directory of the new model.")
@click.option(
    "-e",
    "--estimator",
    default=None,
    shell_complete=complete_estimators,
    help="Name of the estimator, e.g. LabelTree; default: auto.",
)
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter of the estimator.")
@click.option(
    "-t",
    "--text-param",
    "text_params",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the TextVectorizer, for texts, e.g. max_ngram=2.",
)
@click.option(
    "--block", "blocked", multiple=True, metavar="LABEL", help="A label that is never given; may be repeated."
)
@click.option(
    "--unit-rows",
    is_flag=True,
    help="Scale rows of vectors to length 1; kept in the model (short for -p unit_rows=true).",
)
@click.option(
    "--calibrate",
    is_flag=True,
    help="Also learn probabilities, for --threshold and --utility: trains a second model on 3/5 to 4/5 of the data and "
    "a third on a quarter of these.",
)
@click.option(
    "--estimate",
    "only_estimate",
    is_flag=True,
    help="Print the expected time (of texts, without vectorizing them) and memory, and save nothing.",
)
@click.option("--random-state", type=int, default=0, show_default=True, help="Same seed, same model.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Directory that makes the run resumable.")
@options.reading_options
@options.on_option
@options.n_jobs_option
@options.overwrite_option
@options.json_option
def train(
    data: Path,
    output: Path | None,
    estimator: str | None,
    params: tuple[str, ...],
    text_params: tuple[str, ...],
    blocked: tuple[str, ...],
    reading: dict[str, Any],
    unit_rows: bool,
    calibrate: bool,
    only_estimate: bool,
    random_state: int,
    checkpoint: Path | None,
    on: str | None,
    n_jobs: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Train a model on DATA and save it.

    Texts with label names become a Tagger that answers with names. Without an estimator, or with -e auto, one is chosen
    that suits the data; -p max_seconds=60 limits the time that it may take. -e blend trains DiSMEC and FastXML and adds
    up their scores; `longtail tune --blend` finds a better blend, which takes longer to train.

    \b
    Example:
      longtail train eurlex_train.txt.gz -o eurlex.model --unit-rows
    """
    from longtail._array_files import check_target

    if output is not None:
        check_target(output, overwrite=overwrite)
    elif not only_estimate:
        raise click.UsageError("Missing option '-o' / '--output'.")
    has_texts = options.is_text(data, reading)
    if not has_texts:
        for option, given in (("--text-param", text_params), ("--block", blocked)):
            if given:
                raise click.UsageError(f"{option} is for texts, but {data} holds vectors")
    import longtail

    settings = {"random_state": random_state, "n_jobs": n_jobs, "unit_rows": unit_rows} | options.parse_params(params)
    model = options.make_estimator(estimator, settings)
    begin = time.perf_counter()
    learner: Any
    rows: tuple[Any, ...]
    try:
        with options.printed_choice():
            if has_texts:
                texts = options.read_texts(data, reading)  # with the columns they come from, which the model keeps
                n_rows, rows = len(texts.texts), (texts,)
                learner = longtail.Tagger(model, options.make_vectorizer(text_params), blocked=blocked)
            else:
                rows = X, _ = read_vectors(data)
                n_rows, learner = X.shape[0], model.resolve(*rows)
            if calibrate:
                _say_cost(model, n_rows)
            if output is None or only_estimate:
                _print_estimate(learner.estimate(*rows, calibrate=calibrate), as_json=as_json)
                return
            trained = learner.fit(*rows, calibrate=calibrate, executor=on, checkpoint=checkpoint, progress="bar")
    except KeyboardInterrupt:
        if only_estimate:
            raise
        way = (
            "run the same command again to go on" if checkpoint else "with --checkpoint DIRECTORY a run can be resumed"
        )
        raise KeyboardInterrupt(f"stopped; {way}") from None
    seconds = time.perf_counter() - begin
    for name in sorted(set(blocked) - set(trained.label_names_)):
        click.echo(f"--block {options.printable(name)}: the data has no such label", err=True)
    longtail.save(trained, output, overwrite=overwrite)
    size_bytes = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    name = trained.card()["estimator"]
    result = {
        "model": str(output),
        "estimator": name,
        "n_rows": trained.n_rows_,
        "n_features": trained.n_features_in_,
        "n_labels": trained.n_labels_,
        "seconds": round(seconds, 3),
        "size_bytes": size_bytes,
    }
    if as_json:
        click.echo(json.dumps(result))
    else:
        click.echo(
            f"{name} trained on {counted(trained.n_rows_, 'row')}, "
            f"{counted(trained.n_features_in_, 'feature')} and {counted(trained.n_labels_, 'label')} "
            f"in {seconds:.1f} s; "
            f"saved as {output} ({size_bytes / 1e6:.1f} MB)"
        )


def _print_estimate(found: Estimate, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    times = "less than 0.1 s"
    if found.cpu_seconds >= 0.1:
        times = f"about {found.seconds:.1f} s ({found.cpu_seconds:.1f} s of CPU)"
    click.echo(
        f"{times} and {_size(found.memory_bytes)} of memory besides the data, with the model of "
        f"{_size(found.model_bytes)}; usually right within a factor of two"
    )


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


def _say_cost(model: Any, n_rows: int) -> None:
    """Print what --calibrate costs."""
    from longtail.calibration import further_fits, held_out_share

    if model._always_calibrates:
        click.echo(f"--calibrate adds nothing: a {type(model).__name__} is always calibrated", err=True)
        return
    share = 1 - held_out_share(n_rows)
    click.echo(
        f"--calibrate trains a second model on {100 * share:.0f} % of the rows and a third on a quarter of these: "
        f"about {1 + further_fits(n_rows):.2f} times the time of one fit",
        err=True,
    )
