"""The code on the pages runs, and the pages written from results are up to date."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
_SHELL = """set -euo pipefail
stop() { jobs -p | xargs -r kill; wait; }
trap stop EXIT
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.skipif(not shutil.which("curl") or os.name == "nt", reason="the guide's shell blocks need bash and curl")
def test_every_block_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fastapi", reason="the guide serves a model")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    port = free_port()
    text = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.DOTALL)
    assert {kind for kind, _ in blocks} == {"python", "sh"}
    assert len(blocks) == text.count("```") // 2, "a block of another kind would not be run"
    names: dict[str, Any] = {}
    answers = []
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "guide.md", "exec"), names)
            continue
        lines = [line for line in block.splitlines() if not line.startswith("pip ")]  # it is installed
        script = "\n".join(lines).replace("localhost:8000", f"127.0.0.1:{port}")
        script = script.replace("longtail serve", f"longtail serve --port {port}")
        done = subprocess.run(["bash", "-c", _SHELL + script], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        answers.append(done.stdout)
    assert "network::server" in answers[1]
    assert '"labels":' in answers[-1].replace(" ", "")


@pytest.mark.parametrize("page", ["baselines", "choosing", "dismec", "fastxml", "label_tree", "pfastrexml", "tail"])
def test_every_python_block_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, f"{page}.md", "exec"), names)


EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py")) if path.stem != "figures"}
PROGRAMS = ["tag_debian_packages", pytest.param("cluster", marks=pytest.mark.cluster)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_examples_run_as_programs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the examples draw")
    environment = os.environ | {"LONGTAIL_GALLERY": str(tmp_path)}
    command = [sys.executable, EXAMPLES[name]]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    if name == "tag_debian_packages":  # `make demo`, which runs without matplotlib
        assert "because of:" in done.stdout
        assert "What to type next" in done.stdout
    else:
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


# In this process, where scikit-learn and matplotlib are imported once for all.
@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"tag_debian_packages", "cluster"}))
def test_every_other_example_runs_and_draws_its_picture(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="the examples draw")
    monkeypatch.setenv("LONGTAIL_GALLERY", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
    pyplot.close("all")
    assert (tmp_path / f"{name}.png").stat().st_size > 1000


def examples() -> list[str]:
    """Name the modules whose docstrings show something."""
    source = ROOT / "src"
    paths = [path for path in sorted(source.rglob("*.py")) if ">>> " in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(source).with_suffix("").parts) for path in paths]


@pytest.mark.parametrize("module", examples())
def test_every_example_of_a_docstring_is_true(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(importlib.import_module(module))
    assert done.attempted > 0
    assert done.failed == 0


@pytest.mark.parametrize(("page", "n_blocks"), [("gbdt", 1), ("metrics", 3)])
def test_every_example_of_a_page_is_true(page: str, n_blocks: int) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= n_blocks
    assert all(">>> " in block for block in blocks), "a block without a prompt would not be run"
    done = doctest.testfile(str(ROOT / "docs" / f"{page}.md"), module_relative=False)
    assert done.attempted == text.count(">>> ")
    assert done.failed == 0


@pytest.mark.parametrize(
    "script",
    [
        "scripts/write_benchmarks.py",
        "benchmarks/gbdt_tables.py",
        "benchmarks/write_baseline_tables.py",
        "benchmarks/write_dismec_tables.py",
        "benchmarks/write_fastxml_tables.py",
        "benchmarks/write_loop_tables.py",
        "benchmarks/write_reproduce.py",
        "benchmarks/write_scaling_tables.py",
        "benchmarks/write_tagger_tables.py",
        "benchmarks/write_annif_table.py",
        "benchmarks/write_tail_tables.py",
        "scripts/write_gallery.py",
    ],
)
def test_tables_of_the_pages_come_from_the_results(script: str) -> None:
    done = subprocess.run([sys.executable, ROOT / script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_navigation_and_its_links_lead_somewhere() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    pages = sorted((ROOT / "docs").rglob("*.md"))
    for page in pages:
        name = page.relative_to(ROOT / "docs").as_posix()
        assert f": {name}\n" in nav + "\n", f"{name} is in no menu of mkdocs.yml"
    for page in [ROOT / "README.md", *pages]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which does not exist"


def test_the_architecture_page_names_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    packages = [path.parent.name for path in (ROOT / "src" / "longtail").glob("*/__init__.py")]
    folders = [f"cpp/{path.name}" for path in (ROOT / "cpp").iterdir() if path.is_dir()]
    missing = [name for name in (*packages, *folders) if f"`{name}`" not in page]
    assert not missing, f"docs/architecture.md does not say what is in {missing}"


def test_every_public_name_is_in_the_reference() -> None:
    import longtail

    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^::: (\S+)$", page, flags=re.MULTILINE))
    parts = {part for name in named for part in name.split(".")}  # of longtail.baselines, each estimator is named
    missing = set(longtail.__all__) - parts - {"__version__"}
    assert not missing, f"docs/api.md lacks {sorted(missing)}"


def test_docstrings_have_no_marks_that_the_reference_shows_as_they_are() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        found = re.search(r":(?:func|class|meth|mod|ref):`", path.read_text(encoding="utf-8"))
        assert found is None, f"{path}: {found and found[0]} is Sphinx's; MkDocs prints it"
