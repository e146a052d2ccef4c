"""longtail tag"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail.cli import options

if TYPE_CHECKING:
    from longtail.tagging import Tag

_TITLE_CHARS = 72


@click.command()
@options.model_argument
@options.texts_argument
@click.option("--top-k", type=click.IntRange(1, 1_000_000), help="At most this many labels; default: 5, or no limit.")
@options.threshold_option
@click.option("--include", multiple=True, metavar="LABEL", help="Rank only these labels; may be repeated.")
@click.option("--exclude", multiple=True, metavar="LABEL", help="Leave this label out; may be repeated.")
@click.option("--below", metavar="LABEL", help="Rank only this label of the vocabulary and those below it.")
@click.option("--unseen", is_flag=True, help="Also propose labels of the vocabulary without training texts.")
@click.option("--parents", is_flag=True, help="Also propose parents whose children share the probability.")
@options.language_option
@options.utility_options
@options.n_jobs_option
@options.verify_option
@options.json_option
def tag(
    model: Path,
    texts: tuple[str, ...],
    top_k: int | None,
    threshold: str | float | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    below: str | None,
    unseen: bool,
    parents: bool,
    language: str | None,
    ranking: dict[str, Any],
    n_jobs: int | None,
    verify: bool,
    as_json: bool,
) -> None:
    """Propose labels for TEXTS; without any, for every line that comes in.

    With --threshold auto the model itself decides how many labels a text gets (see `longtail calibrate`).

    \b
    Example:
      longtail tag tags.model "a small web server for static files"
      longtail tag tags.model --threshold auto --json < texts.txt
      longtail tag tags.model "a small web server" --utility psp
    """
    from longtail.tagging.vocabulary_tags import tag_with_vocabulary

    tagger = options.load_tagger(model, n_jobs, verify=verify)
    if threshold == "auto" and tagger.calibration_ is None:
        raise ValueError(f"{model} is not calibrated: run longtail calibrate {model} HELD_OUT_DATA first")
    options.check_ranking(model, tagger, ranking)
    if tagger.vocabulary_ is None and (below is not None or unseen or parents):
        raise ValueError(f"{model} has no vocabulary: run longtail vocabulary {model} FILE first")
    name_of = options.namer(model, tagger, language)
    choice: dict[str, Any] = {
        "top_k": top_k if top_k is not None or threshold is not None else 5,
        "threshold": threshold,
        "include": include or None,
        "exclude": exclude or None,
        "below": below,
        "unseen": unseen,
        "parents": parents,
        **ranking,
    }
    for block in options.blocks_of(texts):
        proposed = tag_with_vocabulary(tagger, block, **choice)
        answers = zip(block, proposed, tagger.known_words(block).tolist(), strict=True)
        for text, tags, n_known in answers:
            has_title = len(texts) != 1
            click.echo(
                _json_line(tags, n_known, name_of)
                if as_json
                else _lines(text, tags, n_known, name_of, has_title=has_title)
            )


def _json_line(tags: list[Tag], n_known: int, name_of: Callable[[str], str] | None) -> str:
    rows = [
        {key: value for key, value in tag._asdict().items() if value is not None}
        | ({} if name_of is None else {"name": name_of(tag.label)})
        for tag in tags
    ]
    return json.dumps({"labels": rows, "known_words": n_known}, ensure_ascii=False)


def _lines(text: str, tags: list[Tag], n_known: int, name_of: Callable[[str], str] | None, *, has_title: bool) -> str:
    lines = [click.style(options.shortened(text, _TITLE_CHARS), bold=True)] if has_title else []
    if not n_known and not tags:
        return "\n".join([*lines, "(the model knows no word of this text)"])
    for label, score, proba, _ in tags:
        value = f"{score:9.4f}" if proba is None else f"{proba:9.1%}"
        name = label if name_of is None else name_of(label)
        lines.append(f"{click.style(value, fg='cyan')}  {options.printable(name)}")
    return "\n".join(lines or ["(no label reaches the threshold)"])
