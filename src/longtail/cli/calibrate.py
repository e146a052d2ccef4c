"""longtail calibrate"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, cast

import click

from longtail._words import counted
from longtail.cli import options


@click.command()
@options.model_argument
@options.data_argument
@click.option(
    "--measure",
    type=click.Choice(["micro_f1", "macro_f1", "precision"]),
    default="micro_f1",
    show_default=True,
    help="What `tag --threshold auto` aims at.",
)
@click.option("--floor", type=float, help="The precision to keep, for --measure precision.")
@options.reading_options
@options.n_jobs_option
@options.json_option
def calibrate(
    model: Path,
    data: Path,
    measure: str,
    floor: float | None,
    reading: dict[str, Any],
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """Learn from held-out DATA what the scores of MODEL mean, and save that with it.

    The model then gives probabilities, and knows how many labels a text should get. DATA must not have been trained on.

    \b
    Example:
      longtail calibrate tags.model held_out.jsonl
      longtail tag tags.model "a small web server" --threshold auto
    """
    if (measure == "precision") != (floor is not None):
        raise click.UsageError("--floor is needed with --measure precision, and only then")
    import longtail

    tagger = options.load_tagger(model, n_jobs)
    texts, labels = options.read_texts(data, reading)
    tagger.calibrate(
        texts,
        labels,
        measure=cast(Literal["micro_f1", "macro_f1", "precision"], measure),
        floor=floor,
    )
    tags = tagger.tag(texts, top_k=None, threshold="auto")
    longtail.save(tagger, model, overwrite=True)
    found = tagger.calibration_
    result = {
        "model": str(model),
        "n_rows": len(texts),
        "ece": round(found.ece_, 6) if found is not None else None,
        "labels_per_row": round(sum(map(len, tags)) / max(len(texts), 1), 3),
    }
    if as_json:
        click.echo(json.dumps(result))
        return
    click.echo(f"calibrated on {counted(len(texts), 'text')}: expected calibration error {result['ece']:.4f}", err=True)
    click.echo(f"--threshold auto gives {result['labels_per_row']} labels per text", err=True)
