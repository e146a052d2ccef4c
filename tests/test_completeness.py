"""How many labels were named though nobody asked for them, and what their silence says of the others."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import longtail as lt
from longtail.dismec import updating
from longtail.tagging import completeness


@pytest.mark.parametrize("chance", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("n_judged", [0, 5])
def test_the_share_of_named_labels_is_found(chance: float, n_judged: int) -> None:
    random = np.random.default_rng(0)
    proba = np.sort(random.beta(0.3, 2, (2000, 30)), axis=1)[:, ::-1].astype(np.float32)
    is_right = random.random(proba.shape) < proba
    is_judged = np.arange(30) < n_judged
    is_known = is_judged | (is_right & (random.random(proba.shape) < chance))
    label_ids = np.tile(np.arange(30, dtype=np.int32), (2000, 1))
    right, wrong = (
        [set(np.flatnonzero(row).tolist()) for row in known] for known in (is_right & is_known, ~is_right & is_known)
    )
    found = completeness.share_named(*completeness.known_and_unknown(label_ids, proba, right, wrong))
    assert found == pytest.approx(chance, abs=0.06)


def test_few_or_only_wrong_labels_say_nothing() -> None:
    unknown = np.full(20, 0.1)
    assert completeness.share_named(0.5, 0.25, unknown) == 0
    assert completeness.share_named(-3.0, 1.0, unknown) == 0
    assert completeness.share_named(3.0, 0.0, np.empty(0)) == 0
    assert completeness.share_named(3.0, 0.0, unknown) == 1


def test_silence_counts_by_the_chance_that_a_label_would_have_been_named() -> None:
    rows = sp.csr_array(np.eye(4, dtype=np.float32))
    right = np.array([[1], [0], [0], [0]])
    corrections = updating.Corrections.checked(rows, np.array([0]), right, None, [0.5, 0.0, 0.5, 1.0])
    shares = corrections.shares(0, np.array([0.4, 0.4, 0.4, 1.0]), is_new=False)
    np.testing.assert_allclose(shares, [1, 0.4, 0.25, 0])
    with pytest.raises(ValueError, match=r"complete must be in \[0, 1\], got 2"):
        updating.Corrections.checked(rows, np.array([0]), right, None, 2)


def test_added_labels_do_not_make_a_label_too_probable() -> None:
    """Somebody names the label where it is right, and says nothing where it is not: as good as complete answers."""
    random = np.random.default_rng(0)
    X = random.normal(size=(1500, 4)).astype(np.float32)
    is_right = random.random(1500) < 1 / (1 + np.exp(1.5 - 2 * X[:, 0]))
    labels = [["yes"] if right else [] for right in is_right]
    trained = lt.Tagger(lt.DiSMEC(n_jobs=1), None).fit(X[:300], labels[:300]).calibrate(X[300:600], labels[300:600])

    def mean_proba(*, complete: bool) -> float:
        tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), None)
        tagger._put(trained._whole())
        tagger.learn(X[600:1000], labels[600:1000], complete=complete)
        return float(np.mean([row[0].proba for row in tagger.tag(X[1000:], top_k=1)]))

    assert mean_proba(complete=False) == pytest.approx(mean_proba(complete=True), abs=0.03)
