"""Models as directories: `save`, `load`, `describe`; docs/format.md has the format."""

from longtail._array_files import DamagedFileError
from longtail.saving.cards import record_evaluation
from longtail.saving.models import Model, describe, load, save, version_of
from longtail.saving.registry import make_estimator

__all__ = ["DamagedFileError", "Model", "describe", "load", "make_estimator", "record_evaluation", "save", "version_of"]
