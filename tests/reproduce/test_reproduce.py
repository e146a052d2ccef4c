"""Tests of `longtail reproduce`: declarations, plans, comparisons, a run on small data, and figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from longtail import datasets, reproduce
from longtail.bench.data import Prepared, drop_labels, sample_labels
from longtail.bench.extras import decision_scores, incomplete_gains, tail_contributions, training_course
from longtail.metrics import psprecision_at_k
from longtail.propensity import from_counts
from longtail.reproduce.compare import compare_row
from longtail.reproduce.paper import Block, Declared, Figure, Item, Row, cells_of
from tests.cli.test_commands import longtail

ITEMS = [(key, item) for key in reproduce.paper_keys() for item in reproduce.read_paper(key).items]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Write small data under the names of Bibtex and EURLex-4K."""
    made = datasets.make_synthetic(n_rows=260, n_features=30, n_labels=12, labels_per_row=2)
    for name in ("bibtex", "eurlex"):
        (tmp_path / "data" / name).mkdir(parents=True)
        datasets.write(tmp_path / "data" / name / f"{name}_train.txt.gz", made.X[60:], made.Y[60:])
        datasets.write(tmp_path / "data" / name / f"{name}_test.txt.gz", made.X[:60], made.Y[:60])
    return tmp_path / "data"


def test_every_item_can_be_run_or_says_why_not() -> None:
    assert reproduce.paper_keys() == ["fastxml", "fastxml-slides", "gbdt-sparse", "msi-dismec", "pfastrexml"]
    for key, item in ITEMS:
        owner = f"{key}, {item.name}"
        assert bool(item.why_not) != bool(item.blocks), owner
        if item.kind == "table" and item.blocks:
            assert item.metrics, owner
            assert all(block.rows or block.why_not for block in item.blocks), owner
        for block in item.blocks:
            for row in block.rows:
                declared = row.declared
                assert (declared.system is None) == bool(declared.why_not or declared.lacks), owner
                assert not declared.lacks, owner
                assert item.draw or row.published, owner
                if row.declared.system is not None:
                    assert row.declared.seconds.get(block.data_name), f"{owner}: no time for {row.declared.name}"


def test_published_figures_are_those_of_the_paper() -> None:
    # Three numbers of each paper, looked up by hand.
    expected = {
        ("fastxml", "table", "2", "Mediamill", "MLRF"): (86.83, 71.18, 57.09),
        ("pfastrexml", "table", "3", "EURLex-4K", "PfastreXML"): (45.38, 46.42, 47.25, 45.38, 46.79, 48.08),
        ("gbdt-sparse", "table", "3", "Delicious", "FastXML"): (0.24, 39.66, 70.14, 64.51),
        ("msi-dismec", "table", "4", "EURLex-4K", "OvAP"): (84.0, 70.7, 59.1, 79.2, 38.4),
    }
    for (key, kind, number, data, system), values in expected.items():
        item = reproduce.read_paper(key).find(kind, number)
        block = next(block for block in item.blocks if block.data_name == data)
        row = next(row for row in block.rows if row.declared.name == system)
        assert tuple(figure.value for figure in row.published if figure) == values


def test_a_table_is_run_compared_and_resumed(folder: Path, tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    given = ("fastxml", "--table", "2", "-s", "FastXML", "--seeds", "2", "--results", results, "--data-folder", folder)
    done = longtail("reproduce", *given)
    assert "2 models to train" in done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("| FastXML |"))
    assert row.startswith("| FastXML | 2 | 63.26 ± 0.84 / ")
    assert "| MLRF |" not in done.stdout, "-s shows only these systems"
    whole = longtail("reproduce", *given[:3], "--render", *given[7:]).stdout
    assert "| FastXML-T | *the tuned parameters are not published* | 64.53 ± 0.72 |" in whole
    assert "RCV1-X" in whole
    stored = results.read_text()
    again = longtail("reproduce", *given)
    assert again.stdout == done.stdout
    assert results.read_text() == stored
    records = [json.loads(line) for line in longtail("reproduce", *given, "--render", "--json").stdout.splitlines()]
    first = next(record for record in records if record["system"] == "FastXML" and record["value"] is not None)
    assert first["paper_value"] == 63.26
    assert first["n_seeds"] == 2
    assert first["difference"] == pytest.approx(first["value"] - 63.26)


def test_only_the_named_data_sets_are_shown(folder: Path, tmp_path: Path) -> None:
    given = ("--render", "--results", tmp_path / "r.jsonl", "--data-folder", folder)
    shown = longtail("reproduce", "fastxml", "--table", "2", "-d", "Bibtex", *given).stdout
    assert "**Bibtex**" in shown
    assert "Delicious**" not in shown
    assert "RCV1-X" not in shown


def test_plans_of_several_items_have_each_model_once_and_the_shortest_first(folder: Path) -> None:
    paper = reproduce.read_paper("fastxml")
    items = [paper.find("table", number) for number in ("2", "6", "7")]
    plans = [reproduce.plan_item(item, {}, folder) for item in items]
    plan = reproduce.join_plans(plans)
    keys = [cell.key() for cell in plan.cells]
    assert len(set(keys)) == len(keys) < sum(len(one.cells) for one in plans)
    seconds = [plan.seconds[key] for key in keys]
    assert seconds == sorted(seconds)
    assert plan.minutes == pytest.approx(sum(seconds) / 60)
    done = {cell.key(): {"dataset": "Bibtex", "system": "", "params": {}} for cell in plan.cells[:4]}
    assert reproduce.plan_item(items[0], done, folder).n_done == sum(cell.key() in done for cell in plans[0].cells)


def test_dense_rows_stay_as_they_are() -> None:
    item = reproduce.read_paper("gbdt-sparse").find("table", "5")
    scaled = {
        block.data_name: {cell.data.unit_rows for cell in cells_of(item, block, block.rows[0])}
        for block in item.blocks
        if block.data is not None
    }
    assert scaled == {"Mediamill": {False}, "Delicious": {True}}


def test_missing_data_says_where_to_get_it_and_the_rest_runs(folder: Path, tmp_path: Path) -> None:
    given = ("--results", tmp_path / "r.jsonl", "--data-folder", folder)
    done = longtail("reproduce", "fastxml", "--table", "2", "-s", "1-vs-All", *given)
    assert (
        "Mediamill is missing: put mediamill/mediamill_train.txt.gz and mediamill/mediamill_test.txt.gz" in done.stderr
    )
    assert "XMC text" in done.stderr
    assert "mulan.sourceforge.net" in done.stderr
    assert done.stdout.count("| 1-vs-All | *not run* |") == 2, "Delicious and Mediamill"
    assert "| 1-vs-All | 1 | 63.39 ± 0.64 / " in done.stdout
    nothing = longtail("reproduce", "gbdt-sparse", "--table", "5", *given, ok=False)
    assert nothing.code == 2
    assert "Mediamill is missing" in nothing.stderr
    assert "Delicious is missing" in nothing.stderr
    listed = longtail("reproduce", "--list", *given).stdout
    assert listed.count("Wiki10-31K is missing: put wiki10/") == 1, "two tables need it"
    assert "- missing data: AmazonCat-13K, Wiki10-31K\n" in listed
    assert "4 models, 4 left, about " in listed
    records = [json.loads(line) for line in longtail("reproduce", "--list", "--json", *given).stdout.splitlines()]
    assert {record["paper"] for record in records} == set(reproduce.paper_keys())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("reproduce",), "give a PAPER"),
        (("reproduce", "fastxm", "--list"), "did you mean 'fastxml'"),
        (("reproduce", "fastxml", "--table", "9"), "table of fastxml must be one of 1, 2, 3"),
        (("reproduce", "fastxml", "-d", "Nowhere"), "-d must be one of Bibtex"),
        (("reproduce", "--list", "--table", "2"), "--table and --figure need a PAPER"),
        (("reproduce", "fastxml", "--table", "2", "-d", "EURLex-4K"), "none of these tables and figures has"),
    ],
)
def test_wrong_names_are_refused(arguments: tuple[str, ...], message: str) -> None:
    answer = longtail(*arguments, ok=False)
    assert answer.code == 2
    assert message in answer.stderr


def test_a_figure_over_trees_and_one_of_the_course_are_drawn(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    given = ("--results", tmp_path / "r.jsonl", "--data-folder", folder, "-o", tmp_path / "figures")
    done = longtail("reproduce", "fastxml", "--figure", "1", *given)
    assert "| accuracy order |" in done.stdout
    longtail("reproduce", "msi-dismec", "--figure", "7", "--figure", "14", "-s", "MSI, course", *given)
    figures = [part for number in ("1", "2", "3a", "3b", "4") for part in ("--figure", number)]
    done = longtail("reproduce", "pfastrexml", *figures, "-s", "FastXML", "-s", "FastXML 10, incomplete", *given)
    assert "| A | missing, % | complete truth | plain | scored by propensity |" in done.stdout
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == [
        "fastxml-figure-1.svg",
        "msi-dismec-figure-14.svg",
        "msi-dismec-figure-7.svg",
        "pfastrexml-figure-1.svg",
        "pfastrexml-figure-2.svg",
        "pfastrexml-figure-3a.svg",
        "pfastrexml-figure-3b.svg",
        "pfastrexml-figure-4.svg",
    ]
    assert all(path.read_text().startswith("<?xml") for path in (tmp_path / "figures").iterdir())


def item_with(published: Figure, metric: str = "P@1", **block: Any) -> tuple[Item, Block, Row]:
    declared = reproduce.read_paper("fastxml").find("table", "2").blocks[0].rows[1].declared
    row = Row(declared, (published,))
    made = replace(reproduce.read_paper("fastxml").find("table", "2").blocks[0], rows=(row,), **block)
    return Item("table", "0", "made up", metrics=(metric,), seeds=2, blocks=(made,)), made, row


def stored(item: Item, block: Block, row: Row, values: list[float], metric: str = "P@1") -> dict[str, Any]:
    cells = cells_of(item, block, row)
    return {cell.key(): {"n_test_rows": 2500, metric: value} for cell, value in zip(cells, values, strict=True)}


def test_a_difference_is_marked_when_it_is_more_than_noise() -> None:
    # Published deviation 1 and none between seeds: noise is 2.
    for value, marked in ((61.9, False), (62.1, True), (57.9, True)):
        item, block, row = item_with(Figure(60.0, 1.0))
        (found,) = compare_row(item, block, row, stored(item, block, row, [value, value]))
        assert (found.is_marked, found.noise) == (marked, 2.0)
    # Without one: two standard errors of 60 % over 2500 rows, 1.96 points.
    item, block, row = item_with(Figure(60.0))
    (found,) = compare_row(item, block, row, stored(item, block, row, [60.0, 60.0]))
    assert found.noise == pytest.approx(2 * 100 * np.sqrt(0.6 * 0.4 / 2500))
    # Seeds that differ add their standard error.
    (found,) = compare_row(item, block, row, stored(item, block, row, [58.0, 62.0]))
    assert found.noise == pytest.approx(2 * np.hypot(100 * np.sqrt(0.6 * 0.4 / 2500), 2.0))


def test_other_data_and_costs_have_no_difference() -> None:
    item, block, row = item_with(Figure(60.0), stands_for="Ads-430K")
    (found,) = compare_row(item, block, row, stored(item, block, row, [10.0, 10.0]))
    assert (found.value, found.difference, found.is_marked) == (10.0, None, False)
    item, block, row = item_with(Figure(60.0), "model_mb")
    (found,) = compare_row(item, block, row, stored(item, block, row, [10.0, 10.0], "model_mb"))
    assert found.difference is None


def test_a_system_without_estimator_is_listed_with_its_reason() -> None:
    missing = Declared("Nobody", "Nobody", None, "there is none")
    item, block, _ = item_with(Figure(60.0))
    row = Row(missing, (Figure(60.0),))
    item = replace(item, blocks=(replace(block, rows=(row,)),))
    text = reproduce.render_item(reproduce.read_paper("fastxml"), item, {})
    assert "| Nobody | *there is none* | 60.00 |" in text


def test_labels_go_missing_by_their_propensity() -> None:
    dense = np.ones((4000, 2), np.float32)
    dense[400:, 1] = 0
    Y = sp.csr_array(dense)
    kept = drop_labels(Y, a=0.3, b=1.5, seed=1)
    shares = np.bincount(kept.indices, minlength=2) / np.bincount(Y.indices, minlength=2)
    assert shares == pytest.approx(from_counts_with(Y, 0.3), abs=0.06)
    assert (kept.toarray() <= Y.toarray()).all()
    assert (drop_labels(Y, a=0.3, seed=1) != kept).nnz == 0


def from_counts_with(Y: Any, a: float) -> Any:
    from longtail.propensity import PropensityModel

    return PropensityModel(a, 1.5).from_counts(np.bincount(Y.indices, minlength=Y.shape[1]), Y.shape[0])


def test_scored_gains_on_an_incomplete_truth_have_the_complete_one_as_their_mean() -> None:
    rng = np.random.default_rng(4)
    Y = sp.csr_array((rng.random((300, 20)) < 0.3).astype(np.float32))
    label_ids = np.argsort(rng.random((300, 20)), axis=1)[:, :5].astype(np.int32)
    label_ids[0, 1:] = -1
    counts = rng.integers(1, 300, 20)
    few, many = incomplete_gains(label_ids, Y, counts, 5000, a=[0.75, 0.15], draws=60)
    hits = np.take_along_axis(Y.toarray(), label_ids[:, :3], axis=1) * (label_ids[:, :3] >= 0)
    expected = [hits[:, rank].mean() / np.log2(2 + rank) for rank in range(3)]
    assert few["complete"] == pytest.approx(100 * sum(expected) / sum(1 / np.log2([2, 3, 4])), abs=1e-3)
    for point in (few, many):
        assert abs(point["scored"] - point["complete"]) < 4 * point["scored_error"]
        assert point["plain"] < point["complete"]
    assert many["missing"] > few["missing"]
    assert many["plain"] < few["plain"]


def test_decisions_of_all_labels_count_together() -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    Y, decided = (rng.random((50, 8)) < 0.3).astype(int), (rng.random((50, 8)) < 0.3).astype(int)
    found = decision_scores(sp.csr_array(decided), sp.csr_array(Y))
    assert found["binary_precision"] == pytest.approx(
        100 * sklearn.precision_score(Y, decided, average="micro"), abs=1e-3
    )
    assert found["binary_recall"] == pytest.approx(100 * sklearn.recall_score(Y, decided, average="micro"), abs=1e-3)


def test_contributions_of_the_tail_add_up_to_the_metric() -> None:
    rng = np.random.default_rng(1)
    Y = sp.csr_array((rng.random((40, 30)) < 0.15).astype(np.float32))
    counts = rng.integers(1, 500, 30)
    label_ids = np.argsort(rng.random((40, 30)), axis=1)[:, :5].astype(np.int32)
    propensity = from_counts(counts, 5000)
    parts = tail_contributions(label_ids, Y, counts, propensity)
    for k in (1, 5):
        whole = psprecision_at_k(label_ids, Y, propensity, k)
        assert sum(part[f"PSP@{k} part"] for part in parts) == pytest.approx(whole, abs=0.01)


def test_the_course_of_training_is_summed_up_by_step_and_by_positives() -> None:
    statistics = {
        "history_indptr": np.array([0, 3, 5]),
        "objectives": np.array([9.0, 5.0, 4.0, 3.0, 2.0]),
        "active_rows": np.array([100, 50, 10, 100, 20]),
        "iterations": np.array([2, 1]),
        "seconds": np.array([0.2, 0.1]),
    }
    course = training_course(statistics, np.array([40, 1]), 100)
    assert course["by_step"]["n_labels"] == [2, 2, 1]
    assert [spread[0] for spread in course["by_step"]["objectives"]] == [6.0, 3.5, 4.0]
    assert course["by_step"]["active_rows"][2][0] == pytest.approx(0.1)
    assert [found["iterations"][0] for found in course["by_positives"]] == [1.0, 2.0]


def test_a_sample_of_labels_is_trained_and_stated(folder: Path, tmp_path: Path) -> None:
    item = reproduce.read_paper("msi-dismec").find("table", "2")
    block = item.blocks[0]
    assert block.data is not None
    few = replace(block, data=replace(block.data, sample_labels=5))
    prepared = Prepared(cells_of(item, few, few.rows[0])[0].data, folder, tmp_path / "prepared")
    _, Y = datasets.read(folder / "eurlex/eurlex_train.txt.gz")
    chosen = sample_labels(Y.shape[1], 5)
    assert len(set(chosen)) == 5
    np.testing.assert_array_equal(prepared.label_counts, np.bincount(Y.indices, minlength=Y.shape[1])[chosen])
    assert prepared.Y_test.shape[1] == prepared.sizes["n_labels"] == 5
    assert "a random sample of 5 labels" in reproduce.render_item(
        reproduce.read_paper("msi-dismec"), replace(item, blocks=(few,)), {}
    )
