"""longtail queue"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from longtail.cli import options

if TYPE_CHECKING:
    from longtail.tagging import Tag

_TITLE_CHARS = 100


@click.command()
@options.model_argument
@options.data_argument
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True, help="How many texts.")
@click.option(
    "--by",
    type=click.Choice(["uncertain", "rare"]),
    default="uncertain",
    show_default=True,
    help="Where most labels are open, or where an answer helps rare labels most.",
)
@options.language_option
@options.reading_options
@options.n_jobs_option
@options.json_option
def queue(
    model: Path,
    data: Path,
    limit: int,
    by: str,
    language: str | None,
    reading: dict[str, Any],
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """Print the texts of DATA whose labels are most worth an answer, with what MODEL proposes for them.

    DATA are texts without labels, a file or a folder. Texts that have feedback are left out.

    \b
    Example:
      longtail queue tags.model new-texts.jsonl --limit 100 --json > to-do.jsonl
    """
    from longtail.feedback import FeedbackStore, feedback_path
    from longtail.feedback.record import text_key
    from longtail.tagging.review import review_values

    tagger = options.load_tagger(model, n_jobs)
    name_of = options.namer(model, tagger, language)
    done: set[str] = set()
    if feedback_path(model).is_file():
        store = FeedbackStore(feedback_path(model), must_exist=True)
        done = store.text_keys()
        store.close()
    texts = [text for text in options.read_texts(data, reading, with_labels=False).texts if text_key(text) not in done]
    values = review_values(tagger, texts, by=cast(Literal["uncertain", "rare"], by))
    chosen = (-values).argsort(kind="stable")[:limit].tolist()
    rows = tagger.tag([texts[i] for i in chosen], top_k=5) if chosen else []
    for i, tags in zip(chosen, rows, strict=True):
        value = float(values[i])
        click.echo(_json_line(texts[i], value, tags, name_of) if as_json else _lines(texts[i], tags, name_of))


def _json_line(text: str, value: float, tags: list[Tag], name_of: Callable[[str], str] | None) -> str:
    proposed = [
        {"label": tag.label, "score": tag.score, "proba": tag.proba}
        | ({} if name_of is None else {"name": name_of(tag.label)})
        for tag in tags
    ]
    return json.dumps({"text": text, "value": value, "proposed": proposed}, ensure_ascii=False)


def _lines(text: str, tags: list[Tag], name_of: Callable[[str], str] | None) -> str:
    title = click.style(options.shortened(text, _TITLE_CHARS), bold=True)
    values = (f"{tag.score:9.4f}" if tag.proba is None else f"{tag.proba:9.1%}" for tag in tags)
    names = (options.printable(tag.label if name_of is None else name_of(tag.label)) for tag in tags)
    return "\n".join([title, *(f"{value}  {name}" for value, name in zip(values, names, strict=True))])
