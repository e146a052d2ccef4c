"""longtail predict"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from longtail.cli import options

if TYPE_CHECKING:
    import scipy.sparse as sp

    from longtail._base import XMCClassifier
    from longtail._topk import TopK
    from longtail.tagging import Tagger

_BLOCK_ROWS = 8192


@click.command()
@options.model_argument
@options.data_argument
@options.top_k_option
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; default: stdout.")
@click.option("--unit-rows", is_flag=True, help="Scale every row of a matrix to length 1, as in training.")
@click.option("--n-trees", type=click.IntRange(1), help="Use only so many trees of FastXML and its kin: faster.")
@options.on_option
@options.n_jobs_option
@options.overwrite_option
@options.json_option
def predict(
    model: Path,
    data: Path,
    top_k: int,
    output: Path | None,
    unit_rows: bool,
    n_trees: int | None,
    on: str | None,
    n_jobs: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Rank the labels of every row of DATA, a line a row.

    Lines are 'label:score label:score …', best first, names apart by tabs; with --json, objects with labels and scores.

    \b
    Example:
      longtail predict eurlex.model eurlex_test.txt.gz --top-k 3 --unit-rows
    """
    loaded = options.load_model(model, n_jobs)
    if output is not None and output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists; pass --overwrite to replace it, or choose another --output")
    if n_trees is not None:
        _check_trees(loaded, on)
    lines = _lines(loaded, data, top_k, unit_rows=unit_rows, n_trees=n_trees, on=on, as_json=as_json)
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


def _check_trees(model: options.Model, on: str | None) -> None:
    from longtail.fastxml import FastXML

    if not isinstance(model, FastXML):
        raise ValueError(f"--n-trees is for FastXML, PfastXML and PfastreXML of vectors, not {type(model).__name__}")
    if on is not None:
        raise ValueError("--n-trees cannot be combined with --on; leave one of them out")


def _lines(
    model: options.Model, data: Path, top_k: int, *, unit_rows: bool, n_trees: int | None, on: str | None, as_json: bool
) -> Iterator[str]:
    from longtail import datasets
    from longtail.tagging import Tagger

    if isinstance(model, Tagger):
        if not options.is_text(data):
            raise ValueError(f"{data} holds vectors, but this model tags texts; give .jsonl, .csv or .tsv")
        texts, _ = datasets.read_text(data)
        for labels, scores in _tagged(model, texts, top_k, on):
            yield _line(labels, scores, "labels", as_json=as_json)
        return
    if options.is_text(data):
        raise ValueError(
            f"{data} holds texts, but this model ranks vectors; train on texts to get a model that takes them"
        )
    X, _ = options.read_rows(data, model)
    for top in _ranked(model, X, top_k, on, unit_rows=unit_rows, n_trees=n_trees):
        for ids, row in zip(top.label_ids.tolist(), top.scores.tolist(), strict=True):
            found = [label_id for label_id in ids if label_id >= 0]
            yield _line(found, row[: len(found)], "label_ids", as_json=as_json)


def _tagged(tagger: Tagger, texts: list[str], top_k: int, on: str | None) -> Iterator[tuple[list[str], list[float]]]:
    if on is not None:
        from longtail.batch import tag_texts

        yield from tag_texts(tagger, texts, top_k, executor=on, progress="bar")
        return
    for begin in range(0, len(texts), _BLOCK_ROWS):
        for tags in tagger.tag(texts[begin : begin + _BLOCK_ROWS], top_k):
            yield [tag.label for tag in tags], [tag.score for tag in tags]


def _ranked(
    model: XMCClassifier, X: sp.csr_array, top_k: int, on: str | None, *, unit_rows: bool, n_trees: int | None
) -> Iterator[TopK]:
    from longtail import datasets

    if on is not None:
        from longtail.batch import rank_rows

        yield from rank_rows(model, X, top_k, unit_rows=unit_rows, executor=on, progress="bar")
        return
    for begin in range(0, X.shape[0], _BLOCK_ROWS):
        block = X[begin : begin + _BLOCK_ROWS]
        chosen = {} if n_trees is None else {"n_trees": n_trees}
        yield model.predict_top_k(datasets.unit_rows(block) if unit_rows else block, top_k, **chosen)


def _line(labels: list[Any], scores: list[float], key: str, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({key: labels, "scores": [float(f"{score:.6g}") for score in scores]}, ensure_ascii=False)
    separator = " " if key == "label_ids" else "\t"  # names may hold blanks
    names = [options.printable(str(label)) for label in labels]  # a tab or a new line would break the line apart
    return separator.join(f"{name}:{score:.6g}" for name, score in zip(names, scores, strict=True))


def _write(lines: Iterator[str], target: Any) -> None:
    stream: IO[str]
    with target as stream:
        for line in lines:
            stream.write(line + "\n")
        stream.flush()
