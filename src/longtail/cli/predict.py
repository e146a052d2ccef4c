"""longtail predict"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from longtail.cli import options

if TYPE_CHECKING:
    from longtail._model import Model
    from longtail._topk import Tag


@click.command()
@options.model_argument
@options.data_argument
@options.top_k_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; default: stdout.")
@click.option("--n-trees", type=click.IntRange(1), help="Use only so many trees of FastXML and its kin: faster.")
@options.threshold_option
@options.utility_options
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
    reading: dict[str, Any],
    on: str | None,
    n_jobs: int | None,
    verify: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Rank the labels of every row of DATA, one line per row.

    Lines are 'label:score label:score …', best first, with names separated by tabs. A calibrated model prints
    probabilities. With --json, each line is an object with labels, scores and, where known, probabilities.

    The utilities macro-f1 and coverage choose the labels of 8,192 or more rows at a time together.

    \b
    Example:
      longtail predict eurlex.model eurlex_test.txt.gz --top-k 3
    """
    loaded = options.load_model(model, n_jobs, verify=verify)
    if output is not None and output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists; pass --overwrite to replace it, or choose another --output")
    options.check_ranking(model, loaded, ranking)
    if n_trees is not None and "n_trees" not in inspect.signature(loaded.predict_top_k).parameters:
        raise ValueError(f"--n-trees is for FastXML, PfastXML and PfastreXML of vectors, not {type(loaded).__name__}")
    if threshold == "auto" and loaded.calibration_ is None:
        raise ValueError(f"{model} is not calibrated: run longtail calibrate {model} HELD_OUT_DATA first")
    chosen = {"top_k": top_k, "threshold": threshold, **ranking, **({} if n_trees is None else {"n_trees": n_trees})}
    lines = _lines(loaded, data, reading, on, chosen, as_json=as_json)
    if output is None:
        _write(lines, nullcontext(sys.stdout))
        return
    if output.exists() and not output.is_file():
        raise ValueError(f"{output} is not a regular file; leave --output out to write to stdout")
    beside = output.with_name(f".{output.name}.tmp")
    try:
        _write(lines, beside.open("w", encoding="utf-8"))
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)


def _lines(
    model: Model, data: Path, reading: dict[str, Any], on: str | None, chosen: dict[str, Any], *, as_json: bool
) -> Iterator[str]:
    from longtail.batch import propose

    found = options.read_inputs(data, model, reading, with_labels=False)
    ids = getattr(found, "ids", None)
    key = "labels" if model.label_names_ else "label_ids"
    answers = propose(model, found[0], executor=on, progress=None if on is None else "bar", **chosen)
    for number, tags in enumerate(answers):
        yield _line(tags, key, None if ids is None else ids[number], as_json=as_json)


def _line(tags: list[Tag], key: str, input_id: str | int | None, *, as_json: bool) -> str:
    if as_json:
        found: dict[str, Any] = {key: [tag.label for tag in tags], "scores": [_rounded(tag.score) for tag in tags]}
        if input_id is not None:
            found = {"id": input_id} | found
        if any(tag.proba is not None for tag in tags):
            found["proba"] = [_rounded(tag.proba or 0.0) for tag in tags]
        return json.dumps(found, ensure_ascii=False)
    separator = " " if key == "label_ids" else "\t"  # names may hold blanks
    # A tab or a new line in a name would break the line apart.
    values = [tag.score if tag.proba is None else tag.proba for tag in tags]
    names = [options.printable(str(tag.label)) for tag in tags]
    return separator.join(f"{name}:{value:.6g}" for name, value in zip(names, values, strict=True))


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _write(lines: Iterator[str], target: Any) -> None:
    stream: IO[str]
    with target as stream:
        for line in lines:
            stream.write(line + "\n")
        stream.flush()
