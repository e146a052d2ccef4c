"""longtail tune"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

import click

from longtail._words import counted
from longtail.cli import options
from longtail.cli.completing import complete_estimators
from longtail.cli.vectors import read_vectors

if TYPE_CHECKING:
    from longtail._base import XMCClassifier
    from longtail.tuning import Range, Tuning


@click.command()
@options.data_argument
@click.option(
    "-e", "--estimator", default=None, shell_complete=complete_estimators, help="Name of the estimator, e.g. FastXML."
)
@click.option("-p", "--param", "params", multiple=True, metavar="NAME=VALUE", help="A parameter that stays as given.")
@click.option(
    "-r",
    "--range",
    "ranges",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="Where to look, e.g. cost=0.1:10:log or n_trees=10,50,100; default: the estimator's own ranges.",
)
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    help="Search for this long, text parameters too; bad trials are stopped early. Not with --n-trials and --log.",
)
@click.option(
    "--blend",
    is_flag=True,
    help="Best quality: tune DiSMEC, FastXML, GBDTSparse and SLEEC in --minutes, and check whether a blend is better.",
)
@click.option("--n-trials", type=click.IntRange(1), default=None, help="The first one is as given; default: 30.")
@click.option("--measure", default="P@5", show_default=True, help="Metric to maximise; PSP@5 favours the tail.")
@click.option("--search", type=click.Choice(["tpe", "random"]), default="tpe", show_default=True)
@click.option("--validation-share", type=float, default=0.2, show_default=True, help="Share of the rows held out.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="File of trials; a rerun continues it.")
@click.option("--timeout-seconds", type=float, help="Begin no trial after this time.")
@click.option("--random-state", type=click.IntRange(0), default=0, show_default=True)
@options.reading_options
@options.n_jobs_option
@options.json_option
def tune(
    data: Path,
    estimator: str | None,
    params: tuple[str, ...],
    ranges: tuple[str, ...],
    minutes: float | None,
    blend: bool,
    n_trials: int | None,
    measure: str,
    search: str,
    validation_share: float,
    log: Path | None,
    timeout_seconds: float | None,
    random_state: int,
    reading: dict[str, Any],
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """Search for good parameters on a held-out part of DATA.

    Prints the best parameters and the command that trains with them. With --log, a stopped search goes on where it was.
    With --minutes, many settings are tried on a few rows and only the best of them on all; the winner is compared with
    the defaults on rows of its own, and the defaults are kept if it is not better. With --blend, four estimators get a
    fifth of the minutes each; in the last fifth a blend of them is compared with the best of them. An estimator that
    cannot be trained in its share, or in the memory that is free, is left out. The command that is printed trains the
    blend.

    \b
    Example, "FastXML-T" of the FastXML paper (table 2):
      longtail tune bibtex_train.txt.gz -e FastXML --measure P@1 --n-trials 40 --log bibtex.jsonl
    """
    import longtail
    from longtail.saving import make_estimator

    fixed = options.parse_params(params)
    if blend:
        if minutes is None:
            raise click.UsageError("--blend needs --minutes")
        given = {"-e": estimator, "-p": params, "-r": ranges, "--n-trials": n_trials, "--log": log}
        for option, value in given.items():
            if value:
                raise click.UsageError(f"{option} does not go with --blend")
        _tune_blend(data, reading, minutes, measure, n_jobs, random_state, as_json=as_json)
        return
    model = make_estimator(estimator, {"n_jobs": n_jobs} | fixed)
    if minutes is not None:
        for option, other in (("--n-trials", n_trials), ("--log", log), ("--timeout-seconds", timeout_seconds)):
            if other is not None:
                raise click.UsageError(f"{option} does not go with --minutes")
        settings = {"measure": measure, "validation_share": validation_share, "random_state": random_state}
        budget = _Budget(data, minutes, parse_ranges(ranges) if ranges else None, settings)
        _tune_within(budget, model, fixed, reading, as_json=as_json)
        return
    if options.is_text(data, reading):
        from longtail.tagging.label_names import encode_labels

        texts, labels = options.read_texts(data, reading)
        X, Y = longtail.TextVectorizer().fit(texts).transform(texts, n_jobs=n_jobs), encode_labels(labels)[1]
    else:
        X, Y = read_vectors(data)
    found = longtail.tune(
        model,
        X,
        Y,
        ranges=parse_ranges(ranges) if ranges else None,
        n_trials=30 if n_trials is None else n_trials,
        measure=measure,
        search=cast(Literal["tpe", "random"], search),
        validation_share=validation_share,
        log=log,
        timeout_seconds=timeout_seconds,
        random_state=random_state,
        progress="bar",
    )
    if as_json:
        click.echo(json.dumps(_result(found)))
        return
    for name, value in found.best_params.items():
        click.echo(f"{name} = {json.dumps(value)}")
    first = found.trials[0].score
    click.echo(f"{measure} {found.best_score:.2f} on held-out rows", nl=False, err=True)
    click.echo(f" ({first:.2f} with the parameters as given)" if first is not None else "", err=True)
    words = _train_words(data, reading, type(model).__name__)
    for name, value in (options.parse_params(params) | found.best_params).items():
        words += ["-p", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    click.echo(shlex.join(words), err=True)


class _Budget(NamedTuple):
    data: Path
    minutes: float
    ranges: dict[str, Range] | None
    settings: dict[str, Any]


def _tune_within(
    budget: _Budget, model: XMCClassifier, fixed: dict[str, Any], reading: dict[str, Any], *, as_json: bool
) -> None:
    """Search for some minutes; texts get a Tagger, whose text parameters are searched too."""
    import longtail

    tuned: Any = model
    if options.is_text(budget.data, reading):
        inputs, labels = options.read_texts(budget.data, reading)
        tuned = longtail.Tagger(model)
    else:
        inputs, labels = read_vectors(budget.data)
    found = longtail.autotune(
        tuned, inputs, labels, minutes=budget.minutes, ranges=budget.ranges, progress="bar", **budget.settings
    )
    if as_json:
        names = ("best_params", "measure", "best_score", "default_score", "is_better")
        result = {name: getattr(found, name) for name in names}
        click.echo(json.dumps(result | {"n_trials": len(found.trials)}))
        return
    for name, value in found.best_params.items():
        click.echo(f"{name} = {json.dumps(value)}")
    n_trials = counted(len(found.trials), "trial")
    if not found.is_better:
        click.echo(
            f"{n_trials}: nothing beat the parameters as given "
            f"({found.measure} {found.default_score:.2f} on held-out rows)",
            err=True,
        )
        return
    click.echo(
        f"{n_trials}: {found.measure} {found.best_score:.2f} on held-out rows, "
        f"{found.default_score:.2f} with the parameters as given",
        err=True,
    )
    words = _train_words(budget.data, reading, type(model).__name__)
    for name, value in (fixed | found.best_params).items():
        part, _, own = name.rpartition("__")
        shown = value if isinstance(value, str) else json.dumps(value)
        words += ["-t" if part == "vectorizer" else "-p", f"{own}={shown}"]
    click.echo(shlex.join(words), err=True)


def _tune_blend(
    data: Path,
    reading: dict[str, Any],
    minutes: float,
    measure: str,
    n_jobs: int | None,
    random_state: int,
    *,
    as_json: bool,
) -> None:
    """Search for the estimators of a blend; print the command that trains it, and what that costs."""
    import longtail
    from longtail.tuning import autotune_blend
    from longtail.tuning.budget import TOO_LATE

    is_text = options.is_text(data, reading)
    inputs, labels = options.read_texts(data, reading) if is_text else read_vectors(data)
    found = autotune_blend(
        inputs,
        labels,
        minutes=minutes,
        measure=measure,
        tagger=longtail.Tagger() if is_text else None,
        n_jobs=n_jobs,
        random_state=random_state,
        progress="bar",
    )
    if as_json:
        scores = {"best_score": found.best_score, "blend_score": found.blend_score, "is_better": found.is_better}
        about = {
            "measure": measure,
            **scores,
            "blend_error": found.blend_error,
            "fit_seconds": round(found.fit_seconds, 1),
        }
        click.echo(json.dumps({"params": found.params, "left_out": found.left_out} | about))
        return
    words = _train_words(data, reading, "Blend")
    for name, value in found.params.items():
        click.echo(f"{name} = {json.dumps(value)}")
        words += ["-p", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    for name, reason in found.left_out.items():
        click.echo(f"{name} is not in the blend: {reason}", err=True)
    if found.blend_score is None and found.blend_error != TOO_LATE:
        verdict = f"the blend could not be trained: {found.blend_error}"
    elif found.blend_score is None:
        verdict = "there was no time to try the blend; give more minutes to know whether it is better"
    else:
        verdict = f"{found.blend_score:.2f} by the blend: it is {'' if found.is_better else 'not '}better"
    click.echo(
        f"{measure} {found.best_score:.2f} on held-out rows by the best of {len(found.members)} estimators alone; "
        f"{verdict}\ntraining the blend on all rows takes about {found.fit_seconds:.0f} s, "
        f"and a prediction one by each of its estimators",
        err=True,
    )
    click.echo(shlex.join(words), err=True)


def _train_words(data: Path, reading: dict[str, Any], estimator: str) -> list[str]:
    """Begin the command that trains on the same data, read in the same way."""
    return ["longtail", "train", str(data), *options.reading_words(reading), "-o", "MODEL", "-e", estimator]


def _result(found: Tuning) -> dict[str, Any]:
    return {
        "best_params": found.best_params,
        "measure": found.measure,
        "best_score": found.best_score,
        "n_trials": len(found.trials),
        "seconds": round(sum(trial.seconds for trial in found.trials), 3),
    }


def parse_ranges(pairs: tuple[str, ...]) -> dict[str, Range]:
    """Read name=low:high, name=low:high:log and name=value,value,…; numbers without a point are whole."""
    from longtail.tuning import Between, OneOf

    ranges: dict[str, Range] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        name = name.replace("-", "_")
        try:
            if "," in text:
                ranges[name] = OneOf(*(options.parse_value(word) for word in text.split(",")))
                continue
            low, high, *log = text.split(":")
            if log not in ([], ["log"]):
                raise ValueError(f"only :log may follow, got {':'.join(log)!r}")
            ranges[name] = Between(json.loads(low), json.loads(high), log=bool(log))
        except (TypeError, ValueError) as error:
            raise click.UsageError(
                f"--range takes NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=A,B,…; got {pair!r}: {error}"
            ) from None
    return ranges
