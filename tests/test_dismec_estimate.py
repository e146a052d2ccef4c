"""DiSMEC.estimate: sizes beside those of fits, and which labels its pilots train."""

from __future__ import annotations

import numpy as np
import pytest

import longtail as lt
from longtail.dismec.estimate import _largest_pilot, _Pilot, _sample
from tests.dismec_twin import random_problem


def test_the_estimate_knows_the_models_size_within_a_factor_of_two():
    # The time it tells is compared in benchmarks/bench_dismec_training.py: tests must not depend on the clock.
    X, Y = random_problem(23, n_rows=1500, n_features=400, n_labels=1000)
    model = lt.DiSMEC(n_jobs=1)
    told = model.estimate(X, Y)
    model.fit(X, Y)
    size = sum(getattr(model, name).nbytes for name in lt.DiSMEC._State.declared().arrays)
    assert size / 2 <= told.model_bytes <= size * 2
    assert told.memory_bytes > told.model_bytes
    assert told.seconds > 0


def test_the_estimate_of_few_labels_is_that_of_a_whole_training():
    X, Y = random_problem(24, n_rows=600, n_features=200, n_labels=40)
    model = lt.DiSMEC(n_jobs=1)
    told = model.estimate(X, Y)
    model.fit(X, Y)
    n_weights = len(model.index_weights_)
    assert told.model_bytes == 8 * n_weights + 8 * 201 + 20 * 40
    assert model.set_params(weight_type="int8").estimate(X, Y).model_bytes < told.model_bytes


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_the_pilot_has_labels_of_every_frequency(share):
    counts = np.repeat([1, 2, 5, 40], [3000, 200, 30, 2])
    strata = np.floor(np.log2(counts)).astype(int)
    order = np.random.default_rng(0).permutation(len(counts))
    found = _sample(order, strata, 8, share)
    assert len(np.unique(found)) == len(found) <= 512
    wanted = {0: [8, 8, 8, 2], 0.1: [300, 20, 8, 2], 1: [280, 200, 30, 2]}
    assert [int((strata[found] == stratum).sum()) for stratum in (0, 1, 2, 5)] == wanted[share]


@pytest.mark.parametrize(("seconds", "wanted"), [(1e-3, [1, 4, 512]), (0.7, [1, 4, 8]), (3.0, [1, 4, 5]), (20.0, [1])])
def test_pilots_train_as_many_labels_as_there_is_time_for(monkeypatch, seconds, wanted):
    strata = np.zeros(1000, dtype=int)
    sizes = []

    def run(arrays, params, label_ids, strata):
        n = len(label_ids)
        sizes.append(n)
        return _Pilot(strata[label_ids], np.full(n, seconds), np.ones(n, int), np.ones(n, int), 0.0)

    monkeypatch.setattr(_Pilot, "run", run)
    pilot = _largest_pilot({}, {}, np.arange(1000), strata)
    assert len(pilot.seconds) == sizes[-1]
    assert sizes == wanted
