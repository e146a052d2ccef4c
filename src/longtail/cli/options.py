"""Options and reading that several commands share."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail.cli import vectors
from longtail.cli.completing import complete_models

if TYPE_CHECKING:
    from longtail._base import XMCClassifier
    from longtail._model import Model
    from longtail.auto import Auto
    from longtail.datasets import TextData
    from longtail.tagging import Tagger, TextVectorizer

data_argument = click.argument("data", type=click.Path(exists=True, allow_dash=True, path_type=Path))
model_argument = click.argument(
    "model", type=click.Path(exists=True, file_okay=False, path_type=Path), shell_complete=complete_models
)
n_jobs_option = click.option("--n-jobs", type=int, default=None, help="Threads; default: all this process may use.")
verify_option = click.option(
    "--verify/--no-verify", default=True, show_default=True, help="Compare the model's checksums first: 1 s per GB."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
language_option = click.option("--language", help="Language of the names of labels, if the model has a vocabulary.")
top_k_option = click.option("--top-k", type=click.IntRange(1, 1_000_000), default=5, show_default=True)


def _check_on(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value is None or value in ("ray", "auto") or value.startswith("ray://"):
        return value
    raise click.BadParameter(f"must be ray, auto or ray://HOST:PORT, got {value!r}")


on_option = click.option(
    "--on",
    metavar="ray|auto|ray://HOST:PORT",
    callback=_check_on,
    default=None,
    help="Run on a Ray cluster: ray starts one on this machine (or takes $RAY_ADDRESS), auto joins a running one.",
)
texts_argument = click.argument("texts", nargs=-1)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace an existing output.")


_BLOCK_TEXTS = 1024
_TABLES = ("jsonl", "json", "csv", "tsv", "parquet", "arrow", "feather")
_PYTHON_WORDS = {"True": True, "False": False, "None": None}


def check_output(path: Path, *, overwrite: bool, may_be_directory: bool = False) -> None:
    """Refuse an output that exists or cannot be written, before anything long begins."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists; pass --overwrite to replace it, or choose another name")
    if path.exists() and not path.is_file() and not (may_be_directory and path.is_dir()):
        raise ValueError(f"{path} is not a regular file; choose another name")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path.parent}: no such directory; make it first, then write {path.name!r} in it")


def _threshold(context: click.Context, parameter: click.Parameter, text: str | None) -> str | float | None:
    """Read a number or the word auto."""
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither a number nor 'auto'") from None


threshold_option = click.option(
    "--threshold",
    metavar="NUMBER|auto",
    callback=_threshold,
    help="Only labels whose probability (score, if not calibrated) reaches this; auto: as chosen by calibration.",
)


def utility_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --utility and --max-loss; the command gets those given as the dict `ranking`."""

    @click.option(
        "--utility",
        metavar="NAME",
        help="What the ranking is to be good for: precision, psp (rare labels count more), power:ALPHA (0 is "
        "precision, 1 is psp, at most 10), macro-f1, coverage, macro-f1-by-row, balanced or score. Default if "
        "calibrated: precision for texts, balanced for vectors; else score.",
    )
    @click.option(
        "--max-loss",
        type=click.FloatRange(0, 100),
        metavar="POINTS",
        help="The largest loss of expected precision, in points, that the utility may cost.",
    )
    @functools.wraps(command)
    def with_utility(utility: str | None, max_loss: float | None, **others: Any) -> None:
        given = {"utility": utility, "max_loss": max_loss}
        command(ranking={name: value for name, value in given.items() if value is not None}, **others)

    return with_utility


def check_ranking(path: Path, model: Model, ranking: Mapping[str, Any]) -> None:
    """Raise unless the model can rank for the utility that was asked for."""
    from longtail.decisions import parse_utility

    utility = ranking.get("utility", "score")
    parse_utility(utility)
    if model.calibration_ is None and (utility != "score" or "max_loss" in ranking):
        raise ValueError(
            f"{path} is not calibrated, which utilities need: train with --calibrate, or run longtail calibrate {path} "
            "HELD_OUT_DATA"
        )
    if ranking.get("utility") == "score" and "max_loss" in ranking:
        raise ValueError("--max-loss is a price for another order than that of --utility score")


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say how a file of texts is read; the command gets them as the dict `reading`."""

    @click.option(
        "--text-column", multiple=True, metavar="NAME[=WEIGHT]", help="Column or key of the text; may be repeated."
    )
    @click.option("--label-column", metavar="NAME", help="Column or key of the labels; default: labels, or else label.")
    @click.option("--label-separator", metavar="TEXT", help="What separates labels in one cell; default in CSV: ;")
    @click.option("--format", "format_name", metavar="FORMAT", help="jsonl, json, csv, tsv, fasttext, annif, lines, …")
    @click.option("--encoding", metavar="NAME", help="Encoding of the texts; default: UTF-8.")
    @click.option("--no-quotes", is_flag=True, help="Quotation marks in CSV and TSV are plain text.")
    @functools.wraps(command)
    def with_reading(
        text_column: tuple[str, ...],
        label_column: str | None,
        label_separator: str | None,
        format_name: str | None,
        encoding: str | None,
        no_quotes: bool,
        **others: Any,
    ) -> None:
        columns, weights = _weighted_columns(text_column)
        given = {
            "text_column": columns or None,
            "text_weights": weights,
            "label_column": label_column,
            "label_separator": label_separator,
            "format": format_name,
            "encoding": encoding,
            "quotes": False if no_quotes else None,
        }
        command(reading={name: value for name, value in given.items() if value is not None}, **others)

    return with_reading


def reading_words(reading: Mapping[str, Any]) -> list[str]:
    """Write the dict `reading` as the options it came from."""
    columns = reading.get("text_column", ())
    weights = reading.get("text_weights", [1] * len(columns))
    words = []
    for column, weight in zip(columns, weights, strict=True):
        words += ["--text-column", column if weight == 1 else f"{column}={weight}"]
    for name in ("label_column", "label_separator", "format", "encoding"):
        if name in reading:
            words += [f"--{name.replace('_', '-')}", reading[name]]
    return words if reading.get("quotes", True) else [*words, "--no-quotes"]


def _weighted_columns(pairs: tuple[str, ...]) -> tuple[list[str], list[int] | None]:
    """Read NAME and NAME=WEIGHT; a name may hold an equals sign if no whole number follows it."""
    columns, weights = [], []
    for pair in pairs:
        name, equals, weight = pair.rpartition("=")
        is_weighted = bool(equals and name and weight.isdecimal())
        columns.append(name if is_weighted else pair)
        weights.append(int(weight) if is_weighted else 1)
    return columns, weights if any(weight != 1 for weight in weights) else None


def _with_columns(path: Path, model: Model, reading: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Add the text columns that a model was trained on, unless others are named or the file has no columns."""
    from longtail.datasets import text_format

    columns = getattr(model, "text_columns_", None)
    chosen = dict(reading or {})
    if columns is None or "text_column" in chosen:
        return reading
    has_columns = (chosen.get("format") or text_format(path, text_column=list(columns))) in _TABLES
    return chosen | {"text_column": list(columns), "text_weights": list(columns.values())} if has_columns else reading


def is_text(path: Path, reading: Mapping[str, Any] | None = None) -> bool:
    """Whether a data file holds texts with label names rather than vectors."""
    from longtail.datasets import text_format

    if str(path) == "-" and not reading:
        return vectors.vector_ending(vectors.head_of_stdin()) is None
    return bool(reading) or text_format(path) is not None


def holds_vectors(path: Path, reading: Mapping[str, Any] | None = None) -> bool:
    """Whether a file certainly holds vectors; plain lines are neither vectors nor a known format of texts."""
    if is_text(path, reading):
        return False
    if str(path) == "-" or path.is_dir() or not path.name.lower().endswith((".txt", ".txt.gz")):
        return True
    with path.open("rb") as file:
        return vectors.vector_ending(file.read(vectors.HEAD_BYTES)) is not None


def read_texts(
    path: Path, reading: Mapping[str, Any] | None = None, *, with_labels: bool = True, needs_labels: bool = True
) -> TextData:
    """Read texts and print one line on how they were understood."""
    from longtail import datasets

    source = "-" if str(path) == "-" else path
    data = datasets.read_text(source, with_labels=with_labels, **(reading or {}))
    if with_labels and needs_labels:
        data.require_labels()
    click.echo(data.understood, err=True)
    return data


def read_inputs(
    path: Path, model: Model, reading: Mapping[str, Any] | None = None, *, with_labels: bool = True
) -> TextData | tuple[Any, Any]:
    """Read the inputs and labels of a data file as a model takes them: texts with names, or rows with a matrix."""
    if model.takes_texts:
        if holds_vectors(path, reading):
            raise ValueError(
                f"{path} holds vectors, but this model takes texts; give .jsonl, .csv or .tsv, or say --format"
            )
        return read_texts(path, _with_columns(path, model, reading), with_labels=with_labels)
    if is_text(path, reading):
        raise ValueError(
            f"{path} holds texts, but this model ranks vectors; train on texts to get a model that takes them"
        )
    return vectors.read_vectors(path, n_features=model.n_features_in_, n_labels=model.n_labels_)


def parse_params(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Read name=value pairs; values are JSON where they can be (50, 0.5, true, null), otherwise words."""
    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"a parameter is given as name=value, got {pair!r}; for example --param n_trees=10")
        params[name.replace("-", "_")] = parse_value(text)
    return params


def parse_value(text: str) -> Any:
    """Read a value as JSON or as Python's True, False or None, which appear in messages; anything else is a word."""
    if text in _PYTHON_WORDS:
        return _PYTHON_WORDS[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def make_estimator(name: str | None, params: Mapping[str, Any]) -> XMCClassifier | Auto:
    """Make the estimator of this name; ``auto``, or no name, chooses one when the data is known."""
    if name not in (None, "auto"):
        from longtail import saving

        return saving.make_estimator(name, params)
    from longtail.auto import Auto

    made = Auto()
    for parameter in params:
        if parameter not in Auto._rules:
            raise ValueError(
                f"auto has no parameter {parameter!r}; it has {', '.join(Auto._rules)}; "
                "name the estimator that has it, for example with -e DiSMEC"
            )
    made.set_params(**params).check_params()
    return made


class _Echo(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"auto: {record.getMessage()}", err=True)


@contextmanager
def printed_choice() -> Iterator[None]:
    """Print to stderr which estimator ``auto`` chooses, and why."""
    logger = logging.getLogger("longtail.auto")
    echo, level = _Echo(), logger.level
    logger.addHandler(echo)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(echo)
        logger.setLevel(level)


def make_vectorizer(pairs: tuple[str, ...]) -> TextVectorizer:
    """Make the vectorizer that NAME=VALUE pairs describe."""
    from longtail.tagging import TextVectorizer

    params = parse_params(pairs)
    for name in params:
        if name not in TextVectorizer._rules:
            known = ", ".join(TextVectorizer._rules)
            raise ValueError(f"TextVectorizer has no parameter {name!r}; it has {known}")
    made = TextVectorizer(**params)
    made.check_params()
    return made


def load_tagger(path: Path, n_jobs: int | None, *, verify: bool = True) -> Tagger:
    """Load a model that takes texts."""
    from longtail.tagging import takes_texts

    model = load_model(path, n_jobs, verify=verify)
    if not takes_texts(model):
        raise ValueError(f"{path} ranks vectors, not texts; train on .jsonl, .csv or .tsv to get a model for texts")
    return model


def blocks_of(texts: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the texts given as arguments, or else (also for "-") the lines of stdin as they come, some at a time."""
    for text in texts:
        if os.path.isfile(text):  # noqa: PTH113  Path.is_file raises OSError for a long text
            raise ValueError(
                f"{text} is a file, but `tag` takes texts; use longtail predict MODEL {text} for its texts"
            )
    if texts and texts != ("-",):
        yield list(texts)
        return
    if sys.stdin.isatty():
        click.echo("one text per line; Ctrl-D ends", err=True)
    lines = (line.rstrip("\n") for line in sys.stdin)
    n_texts = 1 if sys.stdin.isatty() else _BLOCK_TEXTS
    while block := list(islice(lines, n_texts)):
        yield block


def namer(path: Path, model: Model, language: str | None) -> Callable[[str], str] | None:
    """Return what gives labels their names in the vocabulary of a model; None if it has none."""
    vocabulary = getattr(model, "vocabulary_", None)
    if vocabulary is None:
        if language is not None:
            raise ValueError(f"{path} has no vocabulary: run longtail vocabulary {path} FILE first")
        return None
    return functools.partial(vocabulary.name, language=language)


def printable(text: str, keep: str = "") -> str:
    """Replace control characters: what comes from data must not move the cursor or change colours."""
    return "".join(c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in text)


def shortened(text: str, n_chars: int) -> str:
    """Return the beginning of a text as one line."""
    line = printable(" ".join(text[: 4 * n_chars].split()))
    return line if len(line) <= n_chars else line[: n_chars - 1] + "…"


def load_model(path: Path, n_jobs: int | None, *, verify: bool = True) -> Model:
    """Load a saved model and set how many threads it may use here."""
    import longtail

    return longtail.load(path, verify=verify).with_threads(n_jobs)
