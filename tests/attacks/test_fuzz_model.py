"""Short runs of the attacks with well-formed models; longer ones by hand, see fuzz_model.py and small_models.py."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import longtail as lt
from tests.attacks.fuzz_model import fuzz
from tests.fitted_state import check_loaded, with_values
from tests.models.make import make_labels, make_rows


def test_changed_values_are_refused_or_harmless() -> None:
    counts = fuzz(400, seed=1)
    assert counts["refused"] > 100
    assert counts["used"] > 50, "mutations that are always refused test nothing"


def test_a_small_model_gets_little_memory_whatever_it_claims() -> None:
    command = [sys.executable, "-m", "tests.attacks.small_models"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_label_is_in_a_label_tree_once() -> None:
    model = lt.LabelTree(max_leaf_size=2, n_jobs=1).fit(make_rows(), make_labels())
    check_loaded(model)
    children = model.child_ids_.copy()
    leaves = np.flatnonzero(children < 0)
    children[leaves[0]] = children[leaves[-1]]
    with_values(model, child_ids_=children)
    with pytest.raises(ValueError, match=r"LabelTree: label \d must be in a tree once, got 2 times"):
        check_loaded(model)


def test_the_steps_of_cs_are_bounded() -> None:
    with pytest.raises(ValueError, match="CS: n_steps must be"):
        lt.CS(n_steps=2**31).fit(make_rows(), make_labels())
