"""Models as directories: `save`, `load`, `describe`; docs/format.md has the format."""

from longtail.io.models import Model, describe, load, save
from longtail.io.registry import make_estimator

__all__ = ["Model", "describe", "load", "make_estimator", "save"]
