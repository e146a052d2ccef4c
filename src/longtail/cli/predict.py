"""longtail predict"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import click

from longtail._words import counted
from longtail.cli import options

if TYPE_CHECKING:
    from longtail._model import Model
    from longtail._topk import Tag
    from longtail.tagging import Tagger


@click.command()
@options.model_argument
@options.data_argument
@options.top_k_option
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, allow_dash=True), help="File to write; default, and -: stdout."
)
@click.option(
    "--n-trees",
    type=click.IntRange(1),
    help="Number of trees of FastXML, PfastXML or PfastreXML to use; fewer are faster.",
)
@options.threshold_option
@options.utility_options
@options.language_option
@options.reading_options
@options.on_option
@options.n_jobs_option
@options.verify_option
@options.overwrite_option
@options.json_option
def predict(
    model: Path,
    data: Path,
    top_k: int,
    output: Path | None,
    n_trees: int | None,
    threshold: str | float | None,
    ranking: dict[str, Any],
    language: str | None,
    reading: dict[str, Any],
    on: str | None,
    n_jobs: int | None,
    verify: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Rank the labels of every row of DATA, one line per row.

    Lines are 'label:score label:score …', best first, with names separated by tabs; where DATA has ids, the id and a
    tab come first. A model with a vocabulary prints the names of its labels, and a calibrated model probabilities. With
    --json, each line is an object with labels, scores and, where known, names and proba; utility is what the labels are
    sorted by where that is neither. A text without any word that the model knows gets no labels.

    The utilities macro-f1 and coverage choose the labels of 8,192 or more rows at a time together.

    \b
    Example:
      longtail predict eurlex.model eurlex_test.txt.gz --top-k 3
    """
    loaded = options.load_model(model, n_jobs, verify=verify)
    output = None if str(output) == "-" else output
    if output is not None:
        options.check_output(output, overwrite=overwrite)
    options.check_ranking(model, loaded, ranking)
    if n_trees is not None and "n_trees" not in loaded.ranking_options:
        raise ValueError(f"--n-trees is for FastXML, PfastXML and PfastreXML of vectors, not {type(loaded).__name__}")
    if threshold == "auto" and loaded.calibration_ is None:
        raise ValueError(f"{model} is not calibrated: run longtail calibrate {model} HELD_OUT_DATA first")
    chosen = {"top_k": top_k, "threshold": threshold, **ranking, **({} if n_trees is None else {"n_trees": n_trees})}
    name_of = options.namer(model, loaded, language)
    lines = _lines(loaded, data, reading, on, chosen, name_of, as_json=as_json)
    if output is None:
        _write(lines, nullcontext(sys.stdout))
        return
    beside = output.with_name(f".{output.name}.tmp")
    try:
        _write(lines, beside.open("w", encoding="utf-8"))
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)


def _lines(
    model: Model,
    data: Path,
    reading: dict[str, Any],
    on: str | None,
    chosen: dict[str, Any],
    name_of: Callable[[str], str] | None,
    *,
    as_json: bool,
) -> Iterator[str]:
    from longtail.batch import propose

    found = options.read_inputs(data, model, reading, with_labels=False)
    ids = getattr(found, "ids", None)
    key = "labels" if model.label_names_ else "label_ids"
    click.echo(_order(model, chosen.get("utility")), err=True)
    answers = propose(model, found[0], executor=on, progress=None if on is None else "bar", **chosen)
    n_unknown = 0
    for number, tags in enumerate(answers):
        is_unknown = not tags and model.takes_texts and not cast("Tagger", model).known_words([found[0][number]])[0]
        n_unknown += is_unknown
        input_id = None if ids is None else ids[number]
        names = [str(tag.label) if name_of is None else name_of(str(tag.label)) for tag in tags]
        if as_json:
            named = {} if name_of is None else {"names": names}
            yield _json_line(tags, key, input_id, named, is_unknown=is_unknown)
        else:
            yield _line(tags, names, key, input_id)
    if n_unknown:
        click.echo(f"no labels for {counted(n_unknown, 'text')} without any word that the model knows", err=True)


def _order(model: Model, utility: str | None) -> str:
    """Say what the labels are sorted by."""
    if model.calibration_ is None or utility == "score":
        return "best first by score" + ("" if model.calibration_ is None else "; the numbers are probabilities")
    utility = utility or ("precision" if model.takes_texts else "balanced")
    if utility == "precision":
        return "best first by probability"
    return f"best first by the utility {utility}; the numbers are probabilities"


def _json_line(
    tags: list[Tag], key: str, input_id: str | int | None, named: dict[str, list[str]], *, is_unknown: bool
) -> str:
    found: dict[str, Any] = {} if input_id is None else {"id": input_id}
    found |= {key: [tag.label for tag in tags], **named, "scores": [_rounded(tag.score) for tag in tags]}
    for name in ("proba", "utility"):
        values = [getattr(tag, name) for tag in tags]
        if any(value is not None for value in values):
            found[name] = [_rounded(value) for value in values]
    if is_unknown:
        found["known_words"] = 0
    return json.dumps(found, ensure_ascii=False)


def _line(tags: list[Tag], names: list[str], key: str, input_id: str | int | None) -> str:
    separator = " " if key == "label_ids" else "\t"  # names may hold blanks
    # A tab or a new line in a name would break the line apart.
    values = [tag.score if tag.proba is None else tag.proba for tag in tags]
    line = separator.join(f"{options.printable(name)}:{value:.6g}" for name, value in zip(names, values, strict=True))
    return line if input_id is None else f"{options.printable(str(input_id))}\t{line}"


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _write(lines: Iterator[str], target: Any) -> None:
    stream: IO[str]
    with target as stream:
        for line in lines:
            stream.write(line + "\n")
        stream.flush()
