"""Every build of the native core gives the same answers, within the tolerances of docs/instruction_sets.md."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from longtail import _core
from longtail._cpu import best_isa
from tests.isa_answers import COMPARED, UTILITIES

ROOT = Path(__file__).resolve().parent.parent
ISAS = ("baseline", "avx2", "avx512")
OTHERS = [isa for isa in ISAS if isa != _core.isa]


def tolerance(name: str) -> float:
    """Read a tolerance from the table in the docs, which is the only place that states it."""
    page = (ROOT / "docs" / "instruction_sets.md").read_text(encoding="utf-8")
    found = re.search(rf"^\| {name} \| ([0-9.e-]+)", page, flags=re.MULTILINE)
    assert found is not None, f"docs/instruction_sets.md states no tolerance for {name!r}"
    return float(found[1])


def run(isa: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.isa_answers", *map(str, arguments)]
    environment = os.environ | {"LONGTAIL_ISA": isa}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def default(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("default")
    done = run(_core.isa, folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module", params=OTHERS)
def pair(request: pytest.FixtureRequest, default: Path, tmp_path_factory: pytest.TempPathFactory):
    """Return the answers of another build and of the default one."""
    isa = request.param
    if ISAS.index(isa) > ISAS.index(best_isa()):
        pytest.skip(f"this CPU cannot run {isa}")
    if importlib.util.find_spec(f"longtail._core_{isa}") is None:
        pytest.skip(f"the {isa} build was left out (make build ISAS=OFF)")
    folder = tmp_path_factory.mktemp(isa)
    done = run(isa, folder, default)
    assert done.returncode == 0, done.stderr
    with np.load(folder / "answers.npz") as other, np.load(default / "answers.npz") as usual:
        assert other["isa"] == isa
        return dict(other), dict(usual)


def assert_same_ranking(other: dict[str, np.ndarray], usual: dict[str, np.ndarray], name: str, near: float) -> None:
    mine, theirs = other[f"{name}-scores"], usual[f"{name}-scores"]
    np.testing.assert_allclose(mine, theirs, rtol=near, atol=near)
    # Labels may change places only where scores are that close.
    moved = other[f"{name}-label_ids"] != usual[f"{name}-label_ids"]
    gaps = np.abs(np.diff(theirs, axis=1))
    closest = np.minimum(np.pad(gaps, ((0, 0), (1, 0)), constant_values=np.inf), np.pad(gaps, ((0, 0), (0, 1))))
    assert (closest[moved] <= 2 * near * np.maximum(1, np.abs(theirs[moved]))).all()


@pytest.mark.parametrize("system", COMPARED)
def test_one_model_gives_the_same_scores(pair, system: str) -> None:
    name = "score of one Blend" if system.startswith("Blend") else "score of one model"
    assert_same_ranking(*pair, system, tolerance(name))


@pytest.mark.parametrize("utility", UTILITIES)
def test_one_ranking_gives_the_same_decisions(pair, utility: str) -> None:
    assert_same_ranking(*pair, utility, tolerance("value of a decision"))


def test_one_ranking_gives_the_same_calibration(pair) -> None:
    other, usual = pair
    for name in ("proba", "thresholds", "ece"):
        np.testing.assert_allclose(other[name], usual[name], atol=tolerance("probability"), err_msg=name)


def test_text_formats_give_the_same_bytes(pair) -> None:
    other, usual = pair
    names = [name for name in usual if name.startswith("read_")]
    assert len(names) == 12
    for name in names:
        np.testing.assert_array_equal(other[name], usual[name], err_msg=name)


@pytest.mark.parametrize("system", COMPARED)
def test_training_gives_the_same_quality(pair, system: str) -> None:
    other, usual = pair
    np.testing.assert_allclose(
        other[f"{system}-quality"], usual[f"{system}-quality"], atol=tolerance("quality after training")
    )


def test_metrics_unit_rows_and_text_vectors_are_the_same(pair) -> None:
    other, usual = pair
    np.testing.assert_allclose(other["metrics"], usual["metrics"], rtol=tolerance("metric"))
    np.testing.assert_allclose(other["unit_rows"], usual["unit_rows"], rtol=tolerance("unit row"))
    np.testing.assert_array_equal(other["text-indptr"], usual["text-indptr"])
    np.testing.assert_array_equal(other["text-indices"], usual["text-indices"])
    np.testing.assert_allclose(other["text-data"], usual["text-data"], rtol=tolerance("text vector"))


def test_an_unknown_instruction_set_is_refused_by_name(tmp_path: Path) -> None:
    done = run("avx9000", tmp_path)
    assert done.returncode != 0
    assert "LONGTAIL_ISA must be one that this CPU runs" in done.stderr
    assert "'avx9000'" in done.stderr
