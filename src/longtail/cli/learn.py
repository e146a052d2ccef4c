"""longtail learn, longtail rollback"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from longtail._words import counted
from longtail.cli import options


@click.command()
@options.model_argument
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="Also learn from these labelled texts.")
@click.option("--held-back", type=click.FloatRange(0, 0.5), default=0.2, show_default=True, help="Share to measure on.")
@options.reading_options
@options.json_option
def learn(model: Path, data: Path | None, held_back: float, reading: dict[str, Any], as_json: bool) -> None:
    """Put the corrections of MODEL into it, in seconds and without its training texts.

    Learns from what `longtail serve --feedback` stored. Texts of --data are stored with it first, as corrections by an
    author with the name of the file; their labels must be all labels of each text. Only labels that the corrections
    speak of are changed; new labels and words are added. A running service takes the new model over. The old one is
    kept: see `longtail rollback`.

    \b
    Example:
      longtail learn tags.model
      longtail rollback tags.model
    """
    if reading and data is None:
        raise click.UsageError("options that say how a file is read go with --data")
    import longtail

    given = []
    if data is not None:
        texts, labels = options.read_texts(data, reading)
        given = [
            longtail.Feedback(
                text=text, added=tuple(names), complete=True, author=data.name, id=_id_of(data, text, names)
            )
            for text, names in zip(texts, labels, strict=True)
        ]
    learnt = longtail.learn_from_feedback(model, given, held_back=held_back)
    click.echo(json.dumps(asdict(learnt), ensure_ascii=False) if as_json else str(learnt))


def _id_of(data: Path, text: str, labels: list[str]) -> str:
    """Return the same id for the same line of a file, so that a file that is given twice is stored once."""
    content = json.dumps([data.name, text, sorted(set(labels))])
    return f"data-{hashlib.sha256(content.encode()).hexdigest()[:40]}"


@click.command()
@options.model_argument
def rollback(model: Path) -> None:
    """Put the model back that the last `longtail learn` replaced.

    A running service takes it over. Corrections stay where they are.

    \b
    Example:
      longtail rollback tags.model
    """
    import longtail

    n_left = longtail.roll_back(model)
    click.echo(f"{model} is the earlier model again; {counted(n_left, 'earlier model')} left", err=True)
