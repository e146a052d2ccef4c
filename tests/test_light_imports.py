"""Loading a model and predicting with it import only what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import longtail as lt
from tests.contract.estimators import ESTIMATORS

# Importing scikit-learn takes longer than everything else that a service does before its first answer.
PROGRAM = """
import sys
import longtail as lt
tagger = lt.load(sys.argv[1])
assert tagger.tag(["a small web server"], top_k=1)[0]
heavy = [name for name in ("sklearn", "pandas", "matplotlib") if name in sys.modules]
assert not heavy, f"imported {heavy}"
"""


@pytest.mark.parametrize("name", ESTIMATORS)
def test_loading_and_tagging_do_not_import_scikit_learn(name: str, tmp_path: Path) -> None:
    texts = ["a small web server", "a web browser", "a mail server", "a text editor"] * 15
    labels = [["net", "server"], ["net"], ["net", "server"], ["text"]] * 15
    lt.save(lt.Tagger(ESTIMATORS[name]()).fit(texts, labels), tmp_path / "model")
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path / "model"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
