"""What a shell offers after a tab: names of estimators and of saved models. Nothing heavy is imported."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from longtail._names import ESTIMATORS


def complete_estimators(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the estimators whose names begin as typed, in any case."""
    return [CompletionItem(name) for name in sorted(ESTIMATORS) if name.lower().startswith(incomplete.lower())]


def complete_models(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer saved models in the directory that is typed; where there is none, leave directories to the shell."""
    folder, begin = os.path.split(incomplete)
    try:
        entries = sorted(entry.name for entry in os.scandir(folder or ".") if entry.is_dir())
    except OSError:
        entries = []
    found = [
        CompletionItem(str(Path(folder) / name))
        for name in entries
        if name.startswith(begin) and (Path(folder or ".") / name / "manifest.json").is_file()
    ]
    return found or [CompletionItem(incomplete, type="dir")]
