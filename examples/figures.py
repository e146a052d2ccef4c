"""Figures of the gallery, all in one style, written to the folder in $LONGTAIL_GALLERY or to the current one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def open_figure(title: str) -> tuple[Any, Any]:
    """Start a figure; returns it and its axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.4), layout="constrained")
    axes.set_title(title)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save_figure(figure: Any, name: str) -> None:
    """Save the figure as NAME.png."""
    path = Path(os.environ.get("LONGTAIL_GALLERY", ".")) / f"{name}.png"
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")
