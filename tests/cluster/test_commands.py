"""`longtail train --on` and `longtail predict --on`: the same files as without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import longtail as lt
from tests.cli.test_commands import longtail
from tests.cluster.conftest import LocalCluster

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]


def read_arrays(model: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in model.rglob("*.npy")}


def test_train_and_predict_on_a_cluster_give_the_same_files(cluster: LocalCluster, tmp_path: Path) -> None:
    made = lt.datasets.make_synthetic(n_rows=100, n_features=40, n_labels=30, labels_per_row=2)
    data = tmp_path / "data"
    lt.datasets.write_csr_directory(data, made.X, made.Y)
    for place in ("here", "there"):
        on = ["--on", "ray"] if place == "there" else []
        longtail("train", data, "-o", tmp_path / place, "-e", "FastXML", "-p", "n_trees=4", *on)
    assert read_arrays(tmp_path / "here") == read_arrays(tmp_path / "there")
    expected = longtail("predict", tmp_path / "here", data).stdout
    assert longtail("predict", tmp_path / "here", data, "--on", "ray").stdout == expected


def test_texts_on_a_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    data = tmp_path / "texts.jsonl"
    data.write_text('{"text": "a web server", "labels": ["net"]}\n{"text": "a chess game", "labels": ["fun"]}\n' * 5)
    longtail("train", data, "-o", tmp_path / "model", "--on", "ray")
    expected = longtail("predict", tmp_path / "model", data, "--json").stdout
    assert longtail("predict", tmp_path / "model", data, "--json", "--on", "ray").stdout == expected


def test_a_wrong_place_is_one_line(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = lt.datasets.make_synthetic(n_rows=20, n_features=5, n_labels=3, labels_per_row=1)
    lt.datasets.write_csr_directory(data, made.X, made.Y)
    answer = longtail("train", data, "-o", tmp_path / "model", "-e", "Popularity", "--on", "spark", ok=False)
    assert answer.code == 2
    assert "must be ray, auto or ray://HOST:PORT, got 'spark'" in answer.stderr


def test_a_cluster_on_this_machine_listens_to_this_machine_only() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    command = [sys.executable, "-m", "tests.cluster.listen"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    listening = json.loads(done.stdout.splitlines()[-1])
    assert len(listening) > 3
    assert {address[-8:] for address in listening} == {"0100007F"}, "127.0.0.1, plain or as an IPv6 address"
