"""Auto chooses an estimator by shape, time and memory."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.base import clone

import longtail as lt
from longtail._estimate import Estimate
from longtail._os import available_memory_bytes
from longtail.cli.app import app


def rows_and_labels(n_rows: int = 200, n_features: int = 300, n_labels: int = 20) -> tuple[sp.csr_array, sp.csr_array]:
    data = lt.datasets.make_synthetic(n_rows=n_rows, n_features=n_features, n_labels=n_labels, random_state=0)
    return data.X, data.Y


def claim(monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], memory_bytes: int = 1000) -> None:
    """Let the estimators expect these times."""

    def estimate(model: lt.DiSMEC | lt.LabelTree, X: object, Y: object) -> Estimate:
        name = type(model).__name__ + (" exact" if getattr(model, "leaves", "") == "exact" else "")
        return Estimate(seconds[name], seconds[name], memory_bytes, 10, 0.1)

    monkeypatch.setattr(lt.DiSMEC, "estimate", estimate)
    monkeypatch.setattr(lt.LabelTree, "estimate", estimate)


def test_small_data_gets_exact_one_vs_all_without_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(lt.DiSMEC, "estimate")
    choice = lt.Auto(unit_rows=True, n_jobs=1, random_state=7).choose(*rows_and_labels())
    assert isinstance(choice.estimator, lt.DiSMEC)
    assert choice.estimator.get_params()["random_state"] == 7
    assert choice.estimator.unit_rows
    assert choice.estimate is None
    assert choice.reason == "DiSMEC: exact one-vs-all is fast on 200 rows and 20 labels"


def test_many_rows_with_few_features_get_trees_over_rows() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(500, 8)), rng.integers(0, 3, 500)
    choice = lt.Auto().choose(X, y)
    assert isinstance(choice.estimator, lt.FastXML)
    assert choice.reason == "FastXML: 500 rows with 8 features suit trees over rows"


@pytest.mark.parametrize(
    ("seconds", "name", "reason"),
    [
        ({"DiSMEC": 5e-5}, "DiSMEC", "DiSMEC: about 0 s and 0.0 GB"),
        (
            {"DiSMEC": 864000.0, "LabelTree exact": 5e-5},
            "LabelTree exact",
            "LabelTree with exact leaves: about 0 s and 0.0 GB; DiSMEC would take 10 days and 0.0 GB",
        ),
        (
            {"DiSMEC": 7200.0, "LabelTree exact": 600.0, "LabelTree": 5e-5},
            "LabelTree",
            "LabelTree: about 0 s and 0.0 GB; DiSMEC would take 2 h and 0.0 GB; LabelTree with exact leaves would take "
            "10 min and 0.0 GB",
        ),
        (
            {"DiSMEC": 30.0, "LabelTree exact": 20.0, "LabelTree": 10.0},
            "LabelTree",
            "LabelTree: all exceed the limits, this one least; DiSMEC would take 30 s and 0.0 GB; LabelTree with exact "
            "leaves would take 20 s and 0.0 GB; LabelTree would take 10 s and 0.0 GB",
        ),
    ],
)
def test_the_first_estimator_within_the_time_is_chosen(
    monkeypatch: pytest.MonkeyPatch, seconds: dict[str, float], name: str, reason: str
) -> None:
    claim(monkeypatch, seconds)
    choice = lt.Auto(max_seconds=1e-4, n_jobs=1).choose(*rows_and_labels())
    assert type(choice.estimator).__name__ == name.split()[0]
    assert getattr(choice.estimator, "leaves", "path") == ("exact" if "exact" in name else "path")
    assert choice.reason == reason
    assert choice.estimate is not None


def test_many_labels_get_a_tree_without_a_probe_of_one_vs_all(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, {"LabelTree exact": 20.0})
    X = sp.random_array((10_000, 300), density=0.01, dtype=np.float32, rng=np.random.default_rng(0), format="csr")
    Y = sp.eye_array(10_000, dtype=np.float32, format="csr")
    choice = lt.Auto(max_memory_bytes=1_000_000, n_jobs=1).choose(X, Y)
    assert choice.estimator.get_params()["leaves"] == "exact"
    assert choice.reason == (
        "LabelTree with exact leaves: about 20 s and 0.0 GB; DiSMEC would take long with 10,000 labels"
    )


def test_memory_counts_like_time(monkeypatch: pytest.MonkeyPatch) -> None:
    claim(monkeypatch, {"DiSMEC": 1.0, "LabelTree exact": 1.0, "LabelTree": 1.0}, memory_bytes=2_000_000_000)
    choice = lt.Auto(max_memory_bytes=1_000_000_000, max_seconds=1e-4).choose(*rows_and_labels())
    assert isinstance(choice.estimator, lt.LabelTree)
    assert "DiSMEC would take 1 s and 2.0 GB" in choice.reason


def test_real_estimates_lead_to_a_model_that_can_be_fitted() -> None:
    X, Y = rows_and_labels()
    choice = lt.Auto(max_seconds=1e-9, unit_rows=True, n_jobs=1).choose(X, Y)
    assert isinstance(choice.estimator, lt.LabelTree)
    assert choice.estimate is not None
    assert choice.estimate.cpu_seconds > 0
    assert choice.estimator.fit(X, Y).n_labels_ == 20


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_seconds": 0}, "Auto: max_seconds must be a number > 0, got 0"),
        ({"max_memory_bytes": 0}, "Auto: max_memory_bytes must be an int >= 1 or None, got 0"),
        ({"unit_rows": 1}, "Auto: unit_rows must be True or False, got 1"),
    ],
)
def test_bad_settings_are_refused(params: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        lt.Auto(**params).choose(*rows_and_labels())  # type: ignore[arg-type]


def test_bad_data_is_refused() -> None:
    X, Y = rows_and_labels()
    with pytest.raises(ValueError, match="Auto"):
        lt.Auto().choose(X, Y[:5])
    with pytest.raises(ValueError, match="Auto: X must be a matrix, got 1 dimensions"):
        lt.Auto().choose(np.zeros(3), [0, 1, 0])


TEXTS = ["a small web server", "a web browser", "a mail server", "a text editor"] * 10
LABELS = [["net", "server"], ["net"], ["net", "server"], ["text"]] * 10


def test_a_tagger_without_an_estimator_chooses_one_and_logs_why(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "longtail.auto"):
        tagger = lt.Tagger().fit(TEXTS, LABELS)
    assert isinstance(tagger.estimator, lt.DiSMEC)
    assert caplog.messages == ["DiSMEC: exact one-vs-all is fast on 40 rows and 3 labels"]


def test_a_tagger_takes_the_limits_of_auto() -> None:
    tagger = clone(lt.Tagger(lt.Auto(max_seconds=1e-9, n_jobs=1, random_state=3)))
    tagger.fit(TEXTS, LABELS)
    assert isinstance(tagger.estimator, lt.LabelTree)
    assert tagger.estimator.get_params()["random_state"] == 3
    assert tagger.tag(["web server"], top_k=1)[0][0].label in ("net", "server")


def train(tmp_path: Path, *options: str) -> tuple[int, str, str]:
    data = tmp_path / "texts.jsonl"
    lines = [json.dumps({"text": text, "labels": names}) for text, names in zip(TEXTS, LABELS, strict=True)]
    data.write_text("\n".join(lines))
    done = CliRunner().invoke(app, ["train", str(data), "-o", str(tmp_path / "model"), "--json", *options])
    return done.exit_code, done.stdout, done.stderr + str(done.exception or "")


@pytest.mark.parametrize("options", [(), ("-e", "auto")])
def test_the_command_prints_which_estimator_and_why(tmp_path: Path, options: tuple[str, ...]) -> None:
    code, out, errors = train(tmp_path, *options)
    assert code == 0
    assert json.loads(out)["estimator"] == "DiSMEC"
    assert "auto: DiSMEC: exact one-vs-all is fast on 40 rows and 3 labels\n" in errors


def test_the_command_takes_the_limits_of_auto_and_refuses_other_parameters(tmp_path: Path) -> None:
    code, out, _ = train(tmp_path, "-e", "auto", "-p", "max_seconds=1e-9")
    assert code == 0
    assert json.loads(out)["estimator"] == "LabelTree"
    code, _, errors = train(tmp_path, "--overwrite", "-p", "cost=2")
    assert code != 0
    assert "auto has no parameter 'cost'" in errors
    assert "-e DiSMEC" in errors


def test_the_command_chooses_for_vectors_too(tmp_path: Path) -> None:
    X, Y = rows_and_labels()
    lt.datasets.write_xmc(tmp_path / "rows.txt", X, Y)
    done = CliRunner().invoke(app, ["train", str(tmp_path / "rows.txt"), "-o", str(tmp_path / "model"), "--json"])
    assert json.loads(done.stdout)["estimator"] == "DiSMEC"
    assert "auto: DiSMEC" in done.stderr


def test_free_memory_heeds_the_limit_of_a_container(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 2000 kB\nMemAvailable: 1000 kB\n")
    assert available_memory_bytes(tmp_path) == 1_024_000
    (tmp_path / "sys/fs/cgroup/memory.current").write_text("400\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert available_memory_bytes(tmp_path) == 1_024_000
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1000\n")
    assert available_memory_bytes(tmp_path) == 600
    assert 0 < available_memory_bytes(tmp_path / "nowhere") < float("inf")


@pytest.mark.parametrize("make", [lt.Auto, lt.DiSMEC, lt.FastXML, lt.Popularity])
@pytest.mark.parametrize("too_many", ["features", "labels"])
def test_ids_that_fit_into_no_memory_are_refused(make: Any, too_many: str) -> None:
    huge = 2**31 - 1
    X = sp.csr_array(([1.0, 1.0], [0, (huge if too_many == "features" else 4) - 1], [0, 1, 2]))
    Y = sp.csr_array(([1.0, 1.0], [0, (huge if too_many == "labels" else 4) - 1], [0, 1, 2]))
    if available_memory_bytes() > 16 * huge:
        pytest.skip("this machine has more than 34 GB of free memory")
    with pytest.raises(MemoryError, match=r"need at least \d+\.\d GB of memory, and .* are free; number features and"):
        make().fit(X, Y) if make is not lt.Auto else lt.Auto().choose(X, Y)
