"""Blend: better than its parts, and all of the contract that a small set can show."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.base import clone

import longtail as lt
from longtail._estimate import Estimate, probe_by_rows
from longtail.blend import best_quality, usual_members
from longtail.blend.weights import Candidates, blended, features_of, fit_logistic, gather, shares_of
from longtail.cli.tune import tune
from longtail.metrics import macro_f1_at_k, precision_at_k
from longtail.saving import make_estimator
from longtail.tuning import Autotuning, BlendTuning, Trial, autotune_blend
from longtail.tuning.budget import UNTRAINABLE


def some_rows(n_rows: int, seed: int) -> tuple[Any, Any]:
    """Rows with labels that a line finds and labels that only a tree finds."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n_rows, 24)) < 0.3).astype(np.float32)
    lines = X[:, :8]
    pairs = X[:, 8:16] * X[:, 16:24] + (1 - X[:, 8:16]) * (1 - X[:, 16:24])
    noise = (rng.random((n_rows, 16)) < 0.05).astype(np.float32)
    return sp.csr_array(X), sp.csr_array(
        np.abs(np.hstack([lines, (pairs > 0) & (rng.random(pairs.shape) < 0.4)]) - noise)
    )


def make_blend(**params: Any) -> lt.Blend:
    return lt.Blend(first=lt.DiSMEC(), second=lt.FastXML(n_trees=10), n_jobs=1, **params)


@pytest.fixture(scope="module")
def fitted() -> lt.Blend:
    return make_blend().fit(*some_rows(800, 0))


def test_a_blend_is_at_least_as_good_as_its_parts(fitted: lt.Blend) -> None:
    X, Y = some_rows(400, 1)
    found = precision_at_k(fitted.predict_top_k(X, 5, utility="score"), Y, 5)
    parts = [
        precision_at_k(part.predict_top_k(X, 5, utility="score"), Y, 5) for part in (fitted.first_, fitted.second_)
    ]
    assert found > max(parts) - 0.5


def test_a_blend_is_calibrated_and_ranks_for_any_utility(fitted: lt.Blend) -> None:
    X, _ = some_rows(50, 1)
    assert fitted.calibration_ is not None
    for utility in ("precision", "psp", "macro-f1"):
        assert (fitted.predict_top_k(X, 3, utility=utility).label_ids >= 0).all()


def test_a_loaded_blend_answers_the_same(fitted: lt.Blend, tmp_path: Path) -> None:
    X, _ = some_rows(50, 1)
    lt.save(fitted, tmp_path / "m")
    loaded = lt.load(tmp_path / "m", verify=True)
    for utility in ("score", "balanced"):
        before, after = (model.predict_top_k(X, 5, utility=utility) for model in (fitted, loaded))
        assert before.label_ids.tobytes() == after.label_ids.tobytes()
        assert before.scores.tobytes() == after.scores.tobytes()


def test_threads_do_not_change_a_blend() -> None:
    X, Y = some_rows(200, 0)
    one, three = (make_blend().set_params(n_jobs=n).fit(X, Y).predict_top_k(X, 5) for n in (1, 3))
    assert one.scores.tobytes() == three.scores.tobytes()


def test_the_estimators_of_the_user_stay_as_they_were() -> None:
    X, Y = some_rows(100, 0)
    mine = lt.DiSMEC()
    lt.Blend(first=mine, second=lt.Popularity(), n_jobs=1).fit(X, Y)
    assert not hasattr(mine, "n_labels_")


def test_a_checkpoint_resumes(tmp_path: Path) -> None:
    X, Y = some_rows(100, 0)
    first = make_blend().fit(X, Y, checkpoint=tmp_path / "c").predict_top_k(X, 5)
    again = make_blend().fit(X, Y, checkpoint=tmp_path / "c").predict_top_k(X, 5)
    assert first.scores.tobytes() == again.scores.tobytes()


def test_one_row_is_refused() -> None:
    with pytest.raises(ValueError, match="X must have 2 rows or more, some to hold out, got n_samples=1"):
        make_blend().fit(*(part[:1] for part in some_rows(10, 0)))


def test_a_blend_inside_a_tagger() -> None:
    texts = ["web server", "web browser", "mail server", "chess game"] * 30
    labels = [["net", "serve"], ["net"], ["mail", "serve"], ["game"]] * 30
    tagger = lt.Tagger(make_blend(), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    assert tagger.tag(["chess game"], top_k=1)[0][0].label == "game"


def test_labels_that_an_estimator_has_not_ranked_get_its_least_score() -> None:
    top = lt.TopK(np.array([[0, 1]] * 40, np.int32), np.array([[0.9, 0.4]] * 20 + [[0.8, 0.1]] * 20, np.float32))
    Y = np.array([[1, 1, 0]] * 20 + [[1, 0, 0]] * 20)
    calibration = lt.Calibration().fit(top, Y, [50, 50, 50], 100)
    other = lt.TopK(np.array([[2, -1]] * 40, np.int32), np.array([[0.7, 0]] * 40, np.float32))
    found = gather([top, other], [calibration, calibration])
    assert found.label_ids[0].tolist() == [0, 1, 2]
    assert found.log_odds[0, 0, 2] == pytest.approx(found.log_odds[0, 0, 1])
    assert found.log_odds[1, 0, 0] < found.log_odds[1, 0, 2]


def test_the_logistic_regression_finds_the_weights() -> None:
    rng = np.random.default_rng(0)
    features = np.hstack([rng.normal(size=(50_000, 3)), np.ones((50_000, 1))])
    z = features @ np.array([1.5, 0.5, -0.3, -1.0])
    found = fit_logistic(features, rng.random(50_000) < 1 / (1 + np.exp(-z)))
    assert found == pytest.approx([1.5, 0.5, -0.3, -1.0], abs=0.05)


def test_ties_go_to_the_lower_label() -> None:
    candidates = Candidates(np.array([[1, 4, -1]], np.int32), np.zeros((1, 1, 3)))
    found = blended(candidates, np.full(5, 3), np.array([1.0, 0.0, 0.0]), 4)
    assert found.label_ids.tolist() == [[1, 4, -1, -1]]
    assert found.scores.tolist() == [[0.5, 0.5, 0, 0]]


def test_an_estimator_may_count_more_for_frequent_labels() -> None:
    rng = np.random.default_rng(0)
    counts = np.array([2, 2000])
    label_ids = np.tile(np.array([0, 1], np.int32), (20_000, 1))
    log_odds = rng.normal(size=(2, 20_000, 2))
    candidates = Candidates(label_ids, log_odds)
    # The first estimator knows the rare label, the second one the frequent label.
    z = np.stack([log_odds[0, :, 0], log_odds[1, :, 1]], axis=1)
    hits = rng.random(z.shape) < 1 / (1 + np.exp(-z))
    features = features_of(candidates, counts)
    shares, rest = shares_of(fit_logistic(features.reshape(-1, 6), hits.ravel()), 2, np.log1p(counts))
    assert np.round(shares).tolist() == [[1, 0], [0, 1]]
    assert rest == pytest.approx([0, 0], abs=0.1)


def test_blends_without_products_still_load(fitted: lt.Blend, tmp_path: Path) -> None:
    n_estimators = 2
    state = fitted._whole().state
    earlier = np.concatenate([state.coefficients[:n_estimators], state.coefficients[-2:]])
    same = np.concatenate([earlier[:n_estimators], np.zeros(n_estimators), earlier[-2:]])
    X, _ = some_rows(50, 1)
    found = []
    for at, coefficients in enumerate((earlier, same)):
        model = make_blend()
        model._fitted = replace(fitted._whole(), state=replace(state, coefficients=coefficients))
        lt.save(model, tmp_path / str(at))
        found.append(lt.load(tmp_path / str(at), verify=True).predict_top_k(X, 5))
    assert found[0].scores.tobytes() == found[1].scores.tobytes()
    model._fitted = replace(fitted._whole(), state=replace(state, coefficients=earlier[1:]))
    with pytest.raises(ValueError, match="coefficients_ must have 6 entries, got 3"):
        lt.save(model, tmp_path / "short")


def test_explanations_of_a_blend_add_up(fitted: lt.Blend) -> None:
    X, _ = some_rows(20, 2)
    top = fitted.predict_top_k(X, 4, utility="score")
    for row in range(20):
        for label_id, score in zip(top.label_ids[row].tolist(), top.scores[row].tolist(), strict=True):
            found = fitted._contributions(fitted._whole(), X[row : row + 1], label_id)
            assert found is not None
            assert found.score == pytest.approx(score, abs=1e-5)
            assert found.bias + found.values.sum() == pytest.approx(found.score, abs=1e-9)
            assert set(found.feature_ids.tolist()) <= set(X[row : row + 1].indices.tolist())
    line = fitted._contributions(fitted._whole(), X[:1], int(X[:1].indices[0]) % 8)
    assert line is not None
    assert np.isfinite(line.values).all()


def test_a_tagger_explains_a_blend() -> None:
    texts = [f"{word} number{i % 7}" for i in range(30) for word in ("web", "mail", "chess")]
    blend = lt.Blend(first=lt.DiSMEC(), second=lt.FastXML(n_trees=5), n_jobs=1)
    tagger = lt.Tagger(blend, lt.TextVectorizer(min_df=1)).fit(texts, [[text.split()[0]] for text in texts])
    found = tagger.explain("chess number3", "chess")
    assert found.words[0].word == "chess"
    assert found.bias + sum(word.contribution for word in found.words) == pytest.approx(found.score, abs=1e-6)


def test_blends_are_made_by_name_and_from_tuned_estimators() -> None:
    made = make_estimator("blend", {"second": "LabelTree", "n_jobs": 1})
    assert isinstance(made, lt.Blend)
    assert isinstance(made.second, lt.LabelTree)
    blend = best_quality([lt.DiSMEC(cost=3.0), lt.FastXML()], n_jobs=2)
    assert (blend.first.cost, blend.third, blend.n_jobs) == (3.0, None, 2)
    assert [repr(getattr(best_quality(), name)) for name in ("first", "second", "third", "fourth")] == [
        repr(member) for member in usual_members()
    ]
    with pytest.raises(ValueError, match="members must be two to four estimators, got 1"):
        best_quality([lt.DiSMEC()])


def test_fitted_estimators_are_blended_as_they_are(tmp_path: Path) -> None:
    (X, Y), (X_new, Y_new), (X_test, Y_test) = (
        some_rows(n_rows, seed) for n_rows, seed in ((1000, 0), (600, 1), (600, 2))
    )
    parts = [lt.DiSMEC(n_jobs=1, unit_rows=True).fit(X, Y), lt.FastXML(n_trees=20, n_jobs=1).fit(X, Y)]
    before = [part.predict_top_k(X_test) for part in parts]
    blend = lt.Blend(first=parts[0], second=parts[1], n_jobs=1).combine(X_new, Y_new)
    scores = [precision_at_k(top, Y_test, 5) for top in before]
    assert precision_at_k(blend.predict_top_k(X_test, utility="precision"), Y_test, 5) > max(scores)
    assert [part.calibration_ for part in parts] == [None, None]
    np.testing.assert_array_equal(blend.first_.predict_top_k(X_test, utility="score").scores, before[0].scores)
    lt.save(blend, tmp_path / "model")
    np.testing.assert_array_equal(lt.load(tmp_path / "model").predict_top_k(X_test), blend.predict_top_k(X_test))
    with pytest.raises(ValueError, match="first and second must be fitted estimators for combine"):
        lt.Blend(first=parts[0]).combine(X_new, Y_new)
    other = lt.DiSMEC(n_jobs=1).fit(X, Y[:, :5])
    with pytest.raises(ValueError, match="DiSMEC was fitted with 24 features and 5 labels, but FastXML with 24 and 16"):
        lt.Blend(first=parts[1], second=other).combine(X_new, Y_new)


def test_parts_of_a_blend_take_parameters_by_name() -> None:
    made = make_estimator("blend", {"first": "DiSMEC", "first__cost": 3.0, "n_jobs": 1})
    assert made.first.cost == 3.0
    with pytest.raises(ValueError, match="Blend: second__n_trees needs an estimator as second; name it"):
        make_estimator("blend", {"second__n_trees": 3})
    with pytest.raises(ValueError, match="FastXML has no parameter 'cost'"):
        make_estimator("blend", {"second": "FastXML", "second__cost": 3})
    with pytest.raises(ValueError, match="cost must be"):
        make_estimator("blend", {"first": "DiSMEC", "first__cost": -1.0})


def test_a_search_for_the_best_quality_ends_in_a_blend(monkeypatch: pytest.MonkeyPatch) -> None:
    data = lt.datasets.make_synthetic(n_rows=200, n_features=30, n_labels=6, labels_per_row=2)
    asked = []

    def searched(model: Any, X: Any, y: Any, *, minutes: float, ranges: Any, measure: str, **_: Any) -> Autotuning:
        asked.append((type(model).__name__, minutes, measure))
        if type(model) is lt.SLEEC:
            assert set(ranges) == {"n_components", "n_graph_neighbours", "l2"}, "what the blend sets is not searched"
        if type(model) is lt.GBDTSparse:
            raise ValueError(f"{UNTRAINABLE}the time was over; give more minutes")
        best = {"cost": 3.0} if type(model) is lt.DiSMEC else {}
        trials = [Trial(best, 50.0, 8.0, n_rows=100), Trial({}, 40.0, 1.0, n_rows=20)]
        return Autotuning(best, 50.0, 40.0, True, measure, type(model)(**model.get_params()).set_params(**best), trials)

    monkeypatch.setattr("longtail.tuning.blend.autotune", searched)
    found = autotune_blend(data.X, data.Y, minutes=32, measure="macro-F1@5", n_jobs=1, random_state=7)
    assert asked == [(type(member).__name__, 6.4, "macro-F1@5") for member in usual_members()]
    order = np.random.default_rng([7, 0]).permutation(200)
    compared, training = order[20:40], order[40:]  # the first twenty choose
    part = clone(found.model).fit(data.X[training], data.Y[training])
    assert found.blend_score == macro_f1_at_k(part.predict_top_k(data.X[compared]), data.Y[compared], 5)
    assert found.is_better == (found.blend_score > 50.0)
    assert found.left_out == {"GBDTSparse": "the time was over; give more minutes"}
    assert found.fit_seconds == pytest.approx(1.8 * (16 + 16 + 16))
    again = make_estimator("blend", found.params | {"n_jobs": 1, "random_state": 7})
    assert again.first.cost == found.model.first.cost == 3.0
    assert [repr(member) for member in (again.second, again.third)] == [repr(usual_members()[i]) for i in (1, 3)]
    part_names = {name.partition("__")[0] for name in found.params}
    assert part_names == {"first", "second", "third"}
    assert {name: found.params[name] for name in found.params if name.startswith(("first", "second"))} == {
        "first": "DiSMEC",
        "first__cost": 3.0,
        "first__unit_rows": True,
        "second": "FastXML",
    }
    monkeypatch.setattr("longtail.tuning.blend.usual_members", lambda: [lt.DiSMEC(), lt.GBDTSparse()])
    with pytest.raises(ValueError, match="trained in 1 minutes, but not GBDTSparse: the time was over; give more"):
        autotune_blend(data.X, data.Y, minutes=1)


def test_a_member_that_does_not_fit_into_memory_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    data = lt.datasets.make_synthetic(n_rows=200, n_features=30, n_labels=6, labels_per_row=2)
    monkeypatch.setattr("longtail.baselines.sleec.available_memory_bytes", lambda: 1000.0)
    members = [lt.DiSMEC(), lt.FastXML(n_trees=5), lt.SLEEC(n_learners=1)]
    monkeypatch.setattr("longtail.tuning.blend.usual_members", lambda: members)
    found = autotune_blend(data.X, data.Y, minutes=0.1, n_jobs=1)
    assert [type(each.model).__name__ for each in found.members] == ["DiSMEC", "FastXML"]
    assert found.left_out["SLEEC"].startswith("SLEEC: 1 learner of 1 cluster with 30 features need at least 0.0 GB")


def test_the_recommended_members_are_those_that_pages_and_help_name() -> None:
    names = [type(member).__name__ for member in usual_members()]
    assert [type(member).__name__ for member in lt.Blend()._fresh().values()] == names[:2]
    written = ", ".join(names[:-1]) + f" and {names[-1]}"
    assert written in " ".join(CliRunner().invoke(tune, ["--help"]).output.split())
    assert written in " ".join(Path("docs/tail.md").read_text().replace("`", "").split())


def test_a_blend_that_cannot_be_trained_is_not_said_to_lack_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(model: Any, *_: Any, **__: Any) -> Autotuning:
        return Autotuning({}, 50.0, 50.0, False, "P@5", model, [Trial({}, 50.0, 1.0, n_rows=24)])

    monkeypatch.setattr("longtail.tuning.blend.autotune", searched)
    X = np.random.default_rng(0).random((30, 6)).astype(np.float32)
    found = autotune_blend(X, np.eye(30), minutes=1, n_jobs=1)  # no held-out row has a label that another row has
    assert (found.blend_score, found.is_better) == (None, None)
    assert found.blend_error is not None
    assert found.blend_error.startswith("Blend: some held-out rows must have labels that other rows have")
    monkeypatch.setattr("longtail.tuning.blend.autotune", lambda *args, **given: (time.sleep(0.01), searched(*args))[1])
    found = autotune_blend(X, np.eye(30), minutes=0.0001, n_jobs=1)
    assert found.blend_error == "the time was over"


def test_the_command_prints_how_to_train_the_blend_and_what_it_costs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = lt.datasets.make_synthetic(n_rows=50, n_features=30, n_labels=6, labels_per_row=2)
    lt.datasets.write_xmc(tmp_path / "data.txt", data.X, data.Y)
    parts = best_quality([lt.DiSMEC(cost=3.0), lt.FastXML()])
    found = BlendTuning(parts, [], {"GBDTSparse": "no time"}, 61.25, "P@1", 72.0, blend_score=62.5)
    monkeypatch.setattr("longtail.tuning.autotune_blend", lambda *_, **given: found)
    answer = CliRunner().invoke(tune, [str(tmp_path / "data.txt"), "--minutes", "3", "--blend", "--measure", "P@1"])
    assert answer.exit_code == 0, answer.output
    assert 'first__cost = 3.0\nsecond = "FastXML"' in answer.stdout
    assert "about 72 s" in answer.stderr
    assert "62.50 by the blend: it is better" in answer.stderr
    assert "GBDTSparse is not in the blend: no time" in answer.stderr
    assert "-e Blend -p first=DiSMEC -p first__cost=3.0 -p second=FastXML" in answer.stderr
    for score, error, verdict in (
        (61.0, None, "61.00 by the blend: it is not better"),
        (None, "the time was over", "no time to try the blend"),
        (None, "Blend: no labels", "the blend could not be trained: Blend: no labels"),
    ):
        found = replace(found, blend_score=score, blend_error=error)
        answer = CliRunner().invoke(tune, [str(tmp_path / "data.txt"), "--minutes", "3", "--blend"])
        assert verdict in answer.stderr
    for wrong, message in (
        (["--blend"], "--blend needs --minutes"),
        (["--blend", "--minutes", "1", "-e", "x"], "-e does"),
    ):
        assert message in CliRunner().invoke(tune, [str(tmp_path / "data.txt"), *wrong]).stderr


def test_a_blend_reports_its_progress_and_can_be_stopped() -> None:
    X = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)
    blend = lt.Blend(first=lt.DiSMEC(), second=lt.FastXML(n_trees=5), n_jobs=1)
    seen: list[tuple[int, int]] = []
    blend.fit(X, X, progress=lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1] == (100, 100)
    assert len({done for done, _ in seen}) > 3
    with pytest.raises(RuntimeError, match="Blend: stopped by the progress callable"):
        clone(blend).fit(X, X, progress=lambda done, total: done < 50)


def test_the_seed_of_a_blend_reaches_its_estimators() -> None:
    X = np.repeat(np.eye(4, dtype=np.float32), 25, axis=0)
    blend = lt.Blend(first=lt.DiSMEC(), second=lt.FastXML(n_trees=2, random_state=5), random_state=3, n_jobs=1)
    blend.fit(X, X)
    assert (blend.first_.random_state, blend.second_.random_state) == (3, 8)
    assert blend.second.random_state == 5


def test_the_cost_of_a_blend_is_that_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"DiSMEC": Estimate(10.0, 20.0, 500, 300, 0.1), "FastXML": Estimate(5.0, 5.0, 900, 100, 0.2)}
    for name, found in known.items():
        monkeypatch.setattr(getattr(lt, name), "estimate", lambda self, X, Y, found=found: found)
    told = lt.Blend(held_out=0.5, n_jobs=1).estimate(None, None)
    assert told == Estimate(22.5, 37.5, 300 + 100 + 800, 400, pytest.approx(0.3))


def test_estimators_tell_the_cost_of_a_fit_from_fits_on_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("longtail._estimate.time.process_time", lambda: clock[0])
    sizes = []

    def fit(n_rows: int) -> int:
        sizes.append(n_rows)
        clock[0] += 1.1e-5 * n_rows**1.2
        return 8 * n_rows

    told = probe_by_rows(fit, 10_000, 77, n_jobs=2)
    assert sizes == [20, 250, 500, 1000, 2000, 4000, 8000]
    assert told.cpu_seconds == pytest.approx(1.1e-5 * 10_000**1.2)
    assert told.seconds == pytest.approx(told.cpu_seconds / 2)
    assert (told.model_bytes, told.memory_bytes) == (80_000, 160_077)
    X, Y = some_rows(120, 0)
    found = lt.FastXML(n_trees=2, n_jobs=1).estimate(X, Y, calibrate=True)
    assert found.cpu_seconds > 0
    assert found.model_bytes > 0
