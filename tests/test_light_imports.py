"""Loading a model and predicting with it import only what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import longtail as lt
from tests.contract.estimators import ESTIMATORS

# Importing scikit-learn takes longer than everything else that a service does before its first answer.
PROGRAM = """
import sys
import longtail as lt
for path in sys.argv[1:]:
    assert lt.load(path).tag(["a small web server"], top_k=1)[0], path
    heavy = [name for name in ("sklearn", "pandas", "matplotlib") if name in sys.modules]
    assert not heavy, f"{path} imported {heavy}"
"""


def test_loading_and_tagging_do_not_import_scikit_learn(tmp_path: Path) -> None:
    texts = ["a small web server", "a web browser", "a mail server", "a text editor"] * 15
    labels = [["net", "server"], ["net"], ["net", "server"], ["text"]] * 15
    for name, make in ESTIMATORS.items():
        lt.save(lt.Tagger(make()).fit(texts, labels), tmp_path / name)
    models = [tmp_path / name for name in ESTIMATORS]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *models], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
