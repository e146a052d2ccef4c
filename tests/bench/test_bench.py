"""Tests of `longtail bench`: reading a matrix, running and resuming it, rendering results and failures."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from longtail import bench
from longtail.bench.results import append_result, summarise
from longtail.bench.runner import _reason
from longtail.bench.systems import find_system
from tests.cli.test_commands import longtail

REPOSITORY = Path(__file__).resolve().parent.parent.parent
MATRIX = """
[data.small]
sample = true
max_rows = 300

[systems."FastXML 2"]
estimator = "FastXML"
params = { n_trees = 2 }

[[runs]]
data = ["small"]
systems = ["Popularity", "FastXML 2"]
repetitions = 2
"""


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    path = tmp_path / "matrix.toml"
    path.write_text(MATRIX)
    return path


def line(**changes: Any) -> dict[str, Any]:
    """Make a stored line, as a run would."""
    record = bench.make_matrix(bench.Data("toy", sample=True), ["DiSMEC"])[0].identity()
    record |= {"n_rows": 9, "n_test_rows": 3, "n_features": 5, "n_labels": 7, "train_wall_seconds": 2.0}
    record |= {"model_mb": 1.5, "P@1": 80.0, "PSP@1": 40.0}
    return record | changes


def test_a_matrix_runs_each_cell_and_resumes(matrix: Path, tmp_path: Path) -> None:
    results, pages = tmp_path / "results.jsonl", tmp_path / "pages"
    first = longtail("bench", matrix, "--results", results, "-s", "Popularity", "-o", pages)
    assert [text.split(" … ")[0] for text in first.stderr.splitlines()][:2] == [
        "small, Popularity, 1 thread, run 1",
        "small, Popularity, 1 thread, run 2",
    ]
    assert "| **Popularity** |" in first.stdout
    assert "train 0.0 s" not in first.stderr  # significant digits
    assert (pages / "benchmarks.md").read_text() == first.stdout
    assert {path.name for path in pages.glob("*.svg")} == {"small-time.svg", "small-size.svg"}
    second = longtail("bench", matrix, "--results", results)
    assert [text.split(" … ")[0] for text in second.stderr.splitlines()] == [
        "small, FastXML 2, 1 thread, run 1",
        "small, FastXML 2, 1 thread, run 2",
    ]
    assert longtail("bench", matrix, "--results", results).stderr == ""

    stored = bench.read_results(results)
    assert len(stored) == 4
    for record in stored:
        assert "failed" not in record
        assert {"train_wall_seconds", "train_cpu_seconds", "load_seconds", "predict_ms_single_row"} <= set(record)
        assert {f"{name}@{k}" for name in ("P", "nDCG", "PSP", "coverage") for k in (1, 3, 5)} <= set(record)
        assert record["peak_memory_mb"] > 1
        assert record["model_mb"] > 0
        assert {"cpu", "commit", "longtail"} <= set(record["machine"])
        assert record["versions"]["longtail"]
    fastxml, popularity = stored[2], stored[0]
    assert fastxml["P@1"] > popularity["P@1"]
    if hasattr(os, "sched_getaffinity"):
        assert len(popularity["pinned_cpus"]) == 1


def test_what_cannot_run_is_shown_with_the_reason(tmp_path: Path) -> None:
    path, results = tmp_path / "matrix.toml", tmp_path / "results.jsonl"
    path.write_text(
        """
[defaults]
limit_seconds = 60
[data.small]
synthetic = { n_rows = 50, n_features = 20, n_labels = 5 }
[data.gone]
train = "gone_train.txt"
test = "gone_test.txt"
[systems.wrong]
estimator = "DiSMEC"
params = { cost = -1 }
[[runs]]
data = ["small"]
systems = ["wrong"]
[[runs]]
data = ["small"]
systems = ["DiSMEC"]
limit_seconds = 0.01
[[runs]]
data = ["gone"]
systems = ["DiSMEC"]
"""
    )
    answer = longtail("bench", path, "--results", results, ok=False)
    assert answer.code == 2
    assert answer.stderr.endswith("longtail: 1 cell did not run: the data could not be read, see above\n")
    reasons = [record["failed"] for record in bench.read_results(results)]
    assert "cost must be" in reasons[0]
    assert reasons[1] == "not finished within 0.01 s"
    assert "gone_train.txt does not exist" in answer.stderr
    assert len(reasons) == 2  # missing data is not a result
    assert "*not finished within 0.01 s*" in answer.stdout
    small = ("bench", path, "--results", results, "-d", "small")
    again = longtail(*small).stderr  # a failure counts as a result …
    assert again == "failed in an earlier run and left out without --retry-failed: 2 cells\n"
    longtail(*small, "-s", "DiSMEC", "--retry-failed")  # … until a retry is requested
    assert len(bench.read_results(results)) == 3


def test_ones_own_data_needs_no_matrix(tmp_path: Path) -> None:
    texts = tmp_path / "texts.jsonl"
    lines = ('{"text": "a web server", "labels": ["net"]}', '{"text": "a text editor", "labels": ["edit"]}')
    texts.write_text("\n".join(lines * 5))
    results = tmp_path / "results.jsonl"
    arguments = ("--train", texts, "--test", texts, "-s", "Popularity", "--results", results, "--json")
    record = json.loads(longtail("bench", *arguments).stdout)
    assert (record["n_rows"], record["n_labels"], record["P@1"]) == (10, 2, 50.0)
    assert "together with --test" in longtail("bench", "--train", texts, ok=False).stderr


def test_rows_without_labels_may_come_first(tmp_path: Path) -> None:
    data = tmp_path / "data.txt"
    data.write_text("4 3 2\n 0:1\n 1:1\n0 0:1\n1 2:1\n")
    bench.run_matrix(
        bench.make_matrix(bench.Data("d", str(data), str(data)), ["Popularity"]), tmp_path / "results.jsonl"
    )
    (record,) = bench.read_results(tmp_path / "results.jsonl")
    assert record.get("failed") is None


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        ("2 3 2\n0 0:1\n1 2:1\n", "1 2 2\n0 0:1\n", "train has 3 features, test has 2"),
        ("2 3 2\n0 0:1\n1 2:1\n", "1 3 1\n0 0:1\n", "train has 2 labels, test has 1"),
        ("1 3 2\n 0:1\n", "1 3 2\n0 0:1\n", "needs labels to train on and rows to test on, got 0 and 1"),
        ("1 3 2\n0 0:1\n", "0 3 2\n", "needs labels to train on and rows to test on, got 1 and 0"),
    ],
)
def test_data_that_only_some_systems_could_take_is_refused_for_all(
    train: str, test: str, message: str, tmp_path: Path
) -> None:
    paths = [tmp_path / "train.txt", tmp_path / "test.txt"]
    for path, text in zip(paths, (train, test), strict=True):
        path.write_text(text)
    told: list[Any] = []
    cells = bench.make_matrix(bench.Data("d", *map(str, paths)), ["Popularity"])
    bench.run_matrix(cells, tmp_path / "r.jsonl", tell=lambda cell, record: told.append(record))
    assert message in told[1]["failed"]
    assert not (tmp_path / "r.jsonl").exists()


def test_svmlight_rows_are_as_wide_as_those_trained_on(tmp_path: Path) -> None:
    (tmp_path / "train.svm").write_text("0 0:1 5:1\n1 1:1 9:2\n2 3:1\n")
    (tmp_path / "test.svm").write_text("0 0:1 5:1\n1 1:1\n")
    cells = bench.make_matrix(bench.Data("d", "train.svm", "test.svm"), ["DiSMEC"])
    bench.run_matrix(cells, tmp_path / "results.jsonl", data_folder=tmp_path)
    (record,) = bench.read_results(tmp_path / "results.jsonl")
    assert (record["P@1"], record["n_features"], record["n_labels"]) == (100.0, 10, 3)


def test_the_reason_of_a_rust_panic_is_its_first_lines() -> None:
    log = "thread 'main' panicked at src/model.rs:7:\nno labels\nnote: run with `RUST_BACKTRACE=1`\n"
    assert _reason(-6, log) == "ended by SIGABRT after: thread 'main' panicked at src/model.rs:7: no labels"


def test_time_that_is_over_leaves_cells_for_the_next_run(matrix: Path, tmp_path: Path) -> None:
    answer = longtail("bench", matrix, "--results", tmp_path / "r.jsonl", "--timeout-seconds", "-1")
    assert answer.stderr == "left for the next run of the same command: 4 cells\n"
    assert answer.stdout == "No results yet.\n"


def test_options_that_would_be_ignored_are_refused(matrix: Path, tmp_path: Path) -> None:
    for words, message in (
        ((matrix, "--threads", "2"), "--threads goes into the MATRIX"),
        ((matrix, "--repetitions", "2"), "--repetitions goes into the MATRIX"),
        ((matrix, "--limit-seconds", "9"), "--limit-seconds goes into the MATRIX"),
        ((matrix, "--unit-rows"), "--unit-rows is for --train and --test"),
        (("-d", "small"), "--data is for a MATRIX"),
        ((matrix, "-s", "Popularity", "-s", "DiSMEC"), "-s must be one of Popularity, FastXML 2, got 'DiSMEC'"),
        ((matrix, "-d", "large"), "-d must be one of small, got 'large'"),
        ((matrix, "--peers", matrix), "is a file"),
        ((matrix, "--peers", tmp_path), "adapters.py does not exist"),
        ((matrix, "-o", matrix), "is a file"),
        (("--render", "--results", tmp_path / "gone.jsonl"), "gone.jsonl does not exist"),
    ):
        answer = longtail("bench", *words, ok=False)
        assert answer.code == 2
        assert message in answer.stderr


def test_the_list_of_cells_is_there_for_machines(matrix: Path) -> None:
    records = [json.loads(text) for text in longtail("bench", matrix, "--list", "--json").stdout.splitlines()]
    assert [record["system"] for record in records] == ["Popularity", "FastXML 2"] * 2


def test_rendering_shows_what_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(line(dataset=name)) + "\n" for name in ("toy", "other")))
    assert "## other, 1 thread" in longtail("bench", "--render", "--results", path).stdout
    assert "## other, 1 thread" not in longtail("bench", "--render", "--results", path, "-d", "toy").stdout


def test_results_that_cannot_be_written_are_told_before_anything_runs(matrix: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    answer = longtail("bench", matrix, "--results", tmp_path / "file" / "results.jsonl", ok=False)
    assert answer.code == 2
    assert "run 1" not in answer.stderr


def test_tables_are_rendered_from_stored_lines() -> None:
    lines = [
        line(),
        line(repetition=1, train_wall_seconds=4.0),
        line(repetition=2, train_wall_seconds=3.0),
        line(system="x", title="Peer | 2", ours=False, failed="no | wheel"),
        line(threads=2),
    ]
    published = [{"dataset": "toy", "system": "DiSMEC", "source": "paper", "P@1": 81.25}]
    table = bench.render_tables(lines, published)
    assert "## toy, 1 thread\n\n9 rows to train on and 3 to test on, 5 features, 7 labels.\n\n| system |" in table
    assert "| **DiSMEC** | 3 (2–4) |" in table
    assert "| Peer / 2 | *no / wheel* |" in table
    assert table.count("| *DiSMEC, paper* |") == 1
    assert "| 81.25 |" in table
    assert "## toy, 2 threads" in table


def test_time_over_labels_is_drawn_for_the_synthetic_series(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sizes = {"small": 10, "large": 100}
    lines = [line(dataset=name, data={"synthetic": {"n_labels": n}}, n_labels=n) for name, n in sizes.items()]
    assert "time-labels.svg" in {path.name for path in bench.draw_plots(lines, tmp_path)}
    assert "time-labels.svg" not in {path.name for path in bench.draw_plots(lines[:1], tmp_path)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"dataset": "a", "sys', "line 2: not JSON"),
        ("[1]", "line 2: not a result of longtail bench (not an object)"),
        ('{"dataset": "a", "system": "b"}', "data must be of type dict, got None"),
        (json.dumps(line(threads="x")), "threads must be of type int, got 'x'"),
        (json.dumps(line() | {"P@1": None}), "P@1 must be a number, got None"),
        (json.dumps(line(n_rows="many")), "n_rows must be a number, got 'many'"),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_damaged_line_of_results_is_named(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(line()) + "\n" + text + "\n", errors="surrogateescape")
    answer = longtail("bench", "--render", "--results", path, ok=False)
    assert answer.code == 2
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_a_line_whose_end_is_missing_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text("\n" + json.dumps(line()))  # as some editors leave it
    append_result(path, line(repetition=1))
    assert [record["repetition"] for record in bench.read_results(path)] == [0, 1]


def test_a_changed_parameter_makes_another_cell_and_only_the_newest_is_shown() -> None:
    (row,) = summarise([line(), line(params={"estimator": "DiSMEC", "cost": 2.0}, train_wall_seconds=7.0)])
    assert row.median("train_wall_seconds") == 7.0
    (row,) = summarise([line(), line(failed="later")])
    assert row.failed == "later"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[[runs]]", "[[run]]"), "the matrix has no 'run'; it takes data, defaults, runs, systems"),
        (('"Popularity"', '"popularity"'), "did you mean 'Popularity'?"),
        (("sample = true", ""), "data 'small' needs train and test, or sample = true, or synthetic"),
        (("repetitions = 2", "repetitions = 0"), "repetitions must be an int >= 1, got 0"),
        (("repetitions = 2", "threads = 2"), "threads must be a list of ints >= 1, got 2"),
        (('data = ["small"]', 'data = ["large"]'), "a run needs data (of small) and systems"),
        (("max_rows", "rows"), "data 'small' has no 'rows'"),
        (("[data.small]", "[data"), "not TOML"),
        (("[data.small]", "[defaults]\nrepetition = 5\n[data.small]"), "defaults has no 'repetition'; it takes"),
        (("[data.small]", "defaults = 3\n[data.small]"), "defaults must be a table, got 3"),
        (("[data.small]\nsample = true\nmax_rows = 300", "data = 3"), "data must be tables [data.NAME], got 3"),
        (("[[runs]]", "[runs]"), "write [[runs]], not [runs]"),
        (('data = ["small"]', 'data = "small"'), "data of a run must be a list of names"),
        (('data = ["small"]', 'data = [["small"]]'), "data of a run must be a list of names"),
        (
            ('systems = ["Popularity", "FastXML 2"]', 'systems = "Popularity"'),
            "systems of a run must be a list of names",
        ),
        (("repetitions = 2", "threads = []"), "threads must be a list of ints >= 1, got []"),
        (('estimator = "FastXML"', 'estimator = "FastXLM"'), "did you mean 'FastXML'?"),
        (('estimator = "FastXML"', 'peer = "parabel"'), "peer must be in the folder that --peers names, got 'parabel'"),
        (("n_trees = 2", "ntrees = 2"), "FastXML has no parameter 'ntrees' (did you mean 'n_trees'?)"),
        (("{ n_trees = 2 }", "3"), "params must be a table, got 3"),
        (
            ('[systems."FastXML 2"]\nestimator = "FastXML"\nparams = { n_trees = 2 }', '[systems]\n"F" = "FastXML"'),
            "system 'F' must",
        ),
        (("max_rows = 300", 'as_is = "FastXML 2"'), "as_is must be a list of names"),
        (("max_rows = 300", 'as_is = ["FastXML2"]'), "as_is must name systems of the runs, got 'FastXML2'"),
        (("sample = true", "synthetic = { n_row = 3 }"), "synthetic has no 'n_row'; it takes"),
        (("sample = true", "train = 3\ntest = 4"), "data 'small': train must be a str, got 3"),
        (("max_rows", "# \udcff\nmax_rows"), "not UTF-8"),
    ],
)
def test_a_wrong_matrix_is_refused_in_one_line(matrix: Path, change: tuple[str, str], message: str) -> None:
    matrix.write_text(MATRIX.replace(*change), errors="surrogateescape")
    answer = longtail("bench", matrix, ok=False)
    assert answer.code == 2
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_the_matrix_of_the_page_is_read_and_shows_every_key(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "bench.md").read_text(encoding="utf-8")
    text = page.partition("```toml\n")[2].partition("```")[0]
    (tmp_path / "matrix.toml").write_text(text, encoding="utf-8")
    cells = bench.read_matrix(tmp_path / "matrix.toml", bench.load_peers(REPOSITORY / "benchmarks" / "peers"))
    assert cells[1].system.title == "FastXML, ten trees"
    assert not cells[1].data.unit_rows
    table = tomllib.loads(text)
    shown = {key for entry in table["data"].values() for key in entry}
    assert shown == set(bench.Data.__dataclass_fields__) - {"name"}
    assert set(table["defaults"]) == {"threads", "repetitions", "limit_seconds", "warm_ups"}


def test_any_estimator_is_a_system() -> None:
    assert find_system("LEML", {}).params == {"estimator": "LEML"}
    with pytest.raises(ValueError, match=r"a system must be one of DiSMEC.*did you mean 'FastXML'"):
        find_system("FastXLM", {})
    with pytest.raises(ValueError, match=r"got 'parabel'; --peers adds other libraries"):
        find_system("parabel", {})
