"""A model trained on a cluster is the one trained here, byte for byte, whatever the number of workers."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse as sp

import longtail as lt
from longtail.batch import propose
from longtail.execution import Run
from tests.cluster.conftest import LocalCluster
from tests.cluster.tasks import describe_process, make_plan
from tests.contract.estimators import ESTIMATORS

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def data() -> Any:
    """Three tasks of DiSMEC, several trees of FastXML, and two tasks of Popularity."""
    made = lt.datasets.make_synthetic(n_rows=300, n_features=60, n_labels=600, labels_per_row=3)
    wide = sp.csr_array((made.Y.data, made.Y.indices, made.Y.indptr), shape=(300, 70_000))
    return made.X, made.Y, wide


@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_every_estimator_gives_the_same_bytes(cluster: LocalCluster, data: Any, n_workers: int) -> None:
    cluster.grow(n_workers)
    X, Y, wide = data
    exact = partial(lt.LabelTree, max_leaf_size=4, fan_out=4, leaves="exact", weight_type="int8", n_jobs=1)
    for name, make in (ESTIMATORS | {"LabelTree with exact leaves": exact}).items():
        labels = wide if name == "Popularity" else Y
        few = {"n_trees": 5} if "n_trees" in make().get_params() else {}
        here = make().set_params(**few).fit(X, labels)
        there = make().set_params(**few).fit(X, labels, executor=lt.RayExecutor(address=cluster.address))
        for part in here._fitted_arrays():
            expected, found = getattr(here, part), getattr(there, part)
            assert expected.dtype == found.dtype, f"{name}.{part}"
            assert expected.tobytes() == found.tobytes(), f"{name}.{part} on {n_workers} workers"


def test_predictions_are_the_same_in_the_same_order(
    cluster: LocalCluster, data: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtail.batch._BLOCK_ROWS", 40)
    X, Y, _ = data
    executor = lt.RayExecutor(address=cluster.address)
    for rows in (X, X.toarray()):
        model = lt.FastXML(n_trees=5).fit(rows, Y)
        assert list(propose(model, rows, 4, executor=executor)) == model.propose(rows, 4)
    texts = [f"word{i % 7} word{i % 3}" for i in range(100)]
    tagger = lt.Tagger().fit(texts, [[f"label{i % 7}"] for i in range(100)])
    assert list(propose(tagger, texts, 2, executor=executor)) == tagger.tag(texts, 2)


def test_tasks_read_shared_arrays_and_use_one_thread(cluster: LocalCluster, tmp_path: Path) -> None:
    executor = lt.RayExecutor(address=cluster.address)
    for shard in Run("Squarer", 1, executor=executor).map(make_plan(describe_process, tmp_path)):
        n_blas_threads, writeable, owns_data, _, _ = shard["found"]
        assert (n_blas_threads, writeable, owns_data) == (1, 0, 0)


def test_mapped_data_on_shared_storage_is_opened_by_path(
    cluster: LocalCluster, data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longtail.execution.mapped_files._SMALL_BYTES", 1)
    # Larger than what is read instead of mapped.
    made = lt.datasets.make_synthetic(n_rows=3000, n_features=60, n_labels=300, labels_per_row=3)
    lt.datasets.write_csr_directory(tmp_path / "data", made.X, made.Y)
    X, Y = lt.datasets.read_csr_directory(tmp_path / "data")
    executor = lt.RayExecutor(address=cluster.address, shared_storage=tmp_path)
    places = executor.share({"indices": X.indices, "values": X.data, "copied": X.data.copy()})
    assert [Path(places[name].path).name for name in ("indices", "values")] == ["x_indices.npy", "x_values.npy"]
    assert not hasattr(places["copied"], "path")
    there = lt.FastXML(n_trees=3).fit(X, Y, executor=executor)
    here = lt.FastXML(n_trees=3).fit(made.X, made.Y)
    for part in here._fitted_arrays():
        assert getattr(here, part).tobytes() == getattr(there, part).tobytes(), part
