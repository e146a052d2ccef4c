"""What a saved model needs is loaded when it is needed, and nothing else."""

import subprocess
import sys


def test_loading_and_tagging_do_not_import_scikit_learn(tmp_path):
    # Its import takes longer than everything else that a service does before its first answer.
    program = """
import sys
import longtail as lt
from longtail.tagging import Tagger
from longtail.saving import load
assert not [name for name in ("sklearn", "pandas", "matplotlib") if name in sys.modules]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
