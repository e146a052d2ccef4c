"""The examples in the docstrings of the text side say what they do."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["text", "tagger", "calibration.model", "calibration.errors", "tuning.trials"])
def test_examples_are_true(name: str) -> None:
    done = doctest.testmod(importlib.import_module(f"longtail.{name}"))
    assert done.attempted > 0
    assert done.failed == 0
