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
@options.verify_option
@options.json_option
def calibrate(
    model: Path,
    data: Path,
    measure: str,
    floor: float | None,
    reading: dict[str, Any],
    n_jobs: int | None,
    verify: bool,
    as_json: bool,
) -> None:
    """Learn from held-out DATA what the scores of MODEL mean, and save that with it.

    The model then gives probabilities, ranks for a --utility, and knows how many labels a row should get. DATA must not
    have been trained on; `longtail train --calibrate` needs no DATA of its own.

    \b
    Example:
      longtail calibrate tags.model held_out.jsonl
      longtail tag tags.model "a small web server" --threshold auto
    """
    if (measure == "precision") != (floor is not None):
        raise click.UsageError("--floor is needed with --measure precision, and only then")
    import longtail

    loaded = options.load_model(model, n_jobs, verify=verify)
    inputs, labels = options.read_inputs(data, loaded, reading)
    loaded.calibrate(
        inputs,
        labels,
        measure=cast(Literal["micro_f1", "macro_f1", "precision"], measure),
        floor=floor,
    )
    tags = loaded.propose(inputs, top_k=None, threshold="auto")
    longtail.save(cast(Any, loaded), model, overwrite=True)
    found = loaded.calibration_
    result = {
        "model": str(model),
        "n_rows": len(tags),
        "ece": round(found.ece_, 6),
        "labels_per_row": round(sum(map(len, tags)) / max(len(tags), 1), 3),
    }
    if as_json:
        click.echo(json.dumps(result))
        return
    click.echo(f"calibrated on {counted(len(tags), 'row')}: expected calibration error {result['ece']:.4f}", err=True)
    click.echo(f"--threshold auto gives {result['labels_per_row']} labels per row", err=True)
