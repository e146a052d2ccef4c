"""The pages for users of other tools: every block runs, in order, in one directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


def blocks(page: str) -> list[tuple[str, str]]:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    found = re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL)
    assert len(found) == text.count("```") // 2, "a block of another kind would not be run"
    return found


@pytest.mark.skipif(not shutil.which("bash"), reason="shell blocks need bash")
@pytest.mark.parametrize("tool", ["scikit_learn", "fasttext", "annif", "pecos"])
def test_every_block_runs(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    names: dict[str, Any] = {}
    for kind, block in blocks(f"coming_from_{tool}"):
        if kind == "python":
            exec(compile(block, f"coming_from_{tool}.md", "exec"), names)
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        assert "P " in done.stdout, "evaluate printed a table"


@pytest.mark.parametrize("tool", ["fasttext", "annif", "pecos"])
def test_options_of_the_tables_exist(tool: str) -> None:
    """Every longtail command that a table names, with options that the command has."""
    from longtail.cli.app import app

    text = (DOCS / f"coming_from_{tool}.md").read_text(encoding="utf-8")
    named = re.findall(r"`longtail (\w+)([^`]*)`", text)
    assert len(named) > 3
    for command, rest in named:
        known = {option for parameter in app.commands[command].params for option in parameter.opts}
        assert set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest)) <= known, f"{command}{rest}"


@pytest.mark.filterwarnings("ignore")  # MLflow's own
def test_the_recipe_for_mlflow_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    wrapper, use = (block for _, block in blocks("mlflow"))
    (tmp_path / "tagger_model.py").write_text(wrapper, encoding="utf-8")
    names: dict[str, Any] = {}
    exec(compile(use, "mlflow.md", "exec"), names)
    first = names["served"].predict(["a small web server for static files"])[0]
    assert len(first) == 5
    assert first[0]["label"] == names["tagger"].tag(["a small web server for static files"])[0][0].label
