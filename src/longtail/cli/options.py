"""Options and reading that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from longtail._base import XMCClassifier
    from longtail.tagger import Tagger

    Model = XMCClassifier | Tagger

TEXT_ENDINGS = (".jsonl", ".csv", ".tsv")

data_argument = click.argument("data", type=click.Path(exists=True, path_type=Path))
model_argument = click.argument("model", type=click.Path(exists=True, file_okay=False, path_type=Path))
n_jobs_option = click.option("--n-jobs", type=int, default=None, help="Threads; default: all this process may use.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
top_k_option = click.option("--top-k", type=click.IntRange(1, 1_000_000), default=5, show_default=True)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace what is there.")


def is_text(path: Path) -> bool:
    """Whether a data file holds texts with label names rather than vectors."""
    name = path.name.removesuffix(".gz")
    return path.is_file() and name.endswith(TEXT_ENDINGS)


def parse_params(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Read name=value pairs; values are JSON where they can be (50, 0.5, true, null), otherwise words."""
    params: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--param takes name=value, got {pair!r}; for example --param n_trees=10")
        try:
            params[name.replace("-", "_")] = json.loads(text)
        except ValueError:
            params[name.replace("-", "_")] = text
    return params


def load_model(path: Path, n_jobs: int | None) -> Model:
    """Load a saved model and set how many threads it may use here."""
    import longtail
    from longtail.tagger import Tagger

    model: Model = longtail.load(path)
    estimator = model.estimator if isinstance(model, Tagger) else model
    if n_jobs is not None:
        estimator.set_params(n_jobs=n_jobs)
    else:
        estimator.set_params(n_jobs=None)
    return model
