"""The command line from outside: files in, files and one-line errors out."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from longtail.cli.app import app, main

TRAIN = "4 3 4\n0,1 0:1 2:0.5\n0 1:1\n0,2 0:0.5 1:1\n 2:1\n"
TEXTS = '{"text": "a web server", "labels": ["net", "server"]}\n{"text": "a web browser", "labels": ["net"]}\n'


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str


def longtail(*arguments: str | Path, ok: bool = True, stdin: bytes = b"") -> Answer:
    """Run the command line in this process: the same code as from a shell, without a new interpreter each time."""
    stdout, stderr = io.StringIO(), io.StringIO()
    code = 0
    piped = mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin))))  # type: ignore[arg-type]
    with redirect_stdout(stdout), redirect_stderr(stderr), piped if stdin else nullcontext():
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    answer = Answer(code, stdout.getvalue(), stderr.getvalue())
    assert not ok or answer.code == 0, answer.stderr
    return answer


@pytest.fixture
def train_file(tmp_path: Path) -> Path:
    path = tmp_path / "train.txt"
    path.write_text(TRAIN)
    return path


@pytest.fixture
def model(tmp_path: Path, train_file: Path) -> Path:
    path = tmp_path / "small.model"
    longtail("train", train_file, "-o", path, "-e", "Popularity")
    return path


def test_train_predict_evaluate_info_work_on_vectors(model: Path, train_file: Path) -> None:
    assert longtail("predict", model, train_file, "--top-k", "2").stdout.splitlines() == ["0:0.75 1:0.25"] * 4
    first = json.loads(longtail("predict", model, train_file, "--json").stdout.splitlines()[0])
    assert first == {"label_ids": [0, 1, 2], "scores": [0.75, 0.25, 0.25]}
    assert json.loads(longtail("evaluate", model, train_file, "--json").stdout)["P@1"] == 75.0
    assert "nDCG" in longtail("evaluate", model, train_file).stdout
    description = json.loads(longtail("info", model, "--json", "--verify").stdout)
    assert "Popularity" in json.dumps(description)


def test_train_predict_evaluate_work_on_texts(tmp_path: Path) -> None:
    data, model = tmp_path / "train.jsonl", tmp_path / "texts.model"
    data.write_text(TEXTS)
    result = json.loads(longtail("train", data, "-o", model, "-e", "Popularity", "--json").stdout)
    assert (result["n_rows"], result["n_labels"]) == (2, 2)
    lines = [json.loads(line) for line in longtail("predict", model, data, "--json").stdout.splitlines()]
    assert lines[0]["labels"] == ["net", "server"]
    assert json.loads(longtail("evaluate", model, data, "--json").stdout)["P@1"] == 100.0


@pytest.mark.parametrize("kind", ["vectors", "texts"])
def test_train_estimates_without_training(tmp_path: Path, train_file: Path, kind: str) -> None:
    texts = tmp_path / "train.jsonl"
    texts.write_text(TEXTS)
    command = ("train", train_file if kind == "vectors" else texts, "-e", "DiSMEC", "--estimate")
    found = json.loads(longtail(*command, "--json").stdout)
    assert found["memory_bytes"] > found["model_bytes"] > 0
    assert "of memory besides the data" in longtail(*command, "-o", tmp_path / "new.model").stdout
    assert not (tmp_path / "new.model").exists()
    answer = longtail(*command, "-o", tmp_path, ok=False)  # so that the run that follows does not fail
    assert answer.code == 2
    assert "--overwrite" in answer.stderr


def test_train_needs_a_place_for_the_model(train_file: Path) -> None:
    answer = longtail("train", train_file, ok=False)
    assert answer.code == 2
    assert "-o" in answer.stderr


@pytest.mark.parametrize("ending", [".txt", ".txt.gz", ".svm", ""])
def test_convert_keeps_the_model(tmp_path: Path, train_file: Path, model: Path, ending: str) -> None:
    converted = tmp_path / f"converted{ending}"
    longtail("convert", train_file, converted)
    expected = longtail("predict", model, train_file).stdout
    assert longtail("predict", model, converted).stdout == expected


def test_predict_writes_a_file_whole(tmp_path: Path, model: Path, train_file: Path) -> None:
    output = tmp_path / "answers.txt"
    longtail("predict", model, train_file, "-o", output)
    assert len(output.read_text().splitlines()) == 4
    refused = longtail("predict", model, train_file, "-o", output, ok=False)
    assert refused.code == 2
    assert "--overwrite" in refused.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def test_predict_can_use_fewer_trees(tmp_path: Path, model: Path, train_file: Path) -> None:
    forest = tmp_path / "forest"
    longtail("train", train_file, "-o", forest, "-e", "FastXML", "-p", "n_trees=3", "-p", "max_leaf_size=1")
    everything = longtail("predict", forest, train_file).stdout
    assert longtail("predict", forest, train_file, "--n-trees", "1").stdout != everything
    assert longtail("predict", forest, train_file, "--n-trees", "3").stdout == everything
    refused = longtail("predict", forest, train_file, "--n-trees", "4", ok=False)
    assert "FastXML: --n-trees must be an int in [1, 3], got 4" in refused.stderr
    assert "not Popularity" in longtail("predict", model, train_file, "--n-trees", "1", ok=False).stderr


def test_predict_never_replaces_what_is_not_a_file(tmp_path: Path, model: Path, train_file: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    refused = longtail("predict", model, train_file, "-o", pipe, "--overwrite", ok=False)
    assert refused.code == 2
    assert "is not a regular file" in refused.stderr
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "missing.txt", "-o", "m"], "does not exist"),
        (["train", "TRAIN", "-o", "MODEL"], "exists; pass --overwrite"),
        (["train", "TRAIN", "-o", "m2", "-e", "Popular"], "estimator must be one of"),
        (["train", "TRAIN", "-o", "m2", "-e", "Popularity", "-p", "n_jobs"], "a parameter is given as name=value"),
        (["train", "TRAIN", "-o", "m2", "-e", "Popularity", "-p", "n_jobs=0"], "--n-jobs must be"),
        (["train", "TRAIN", "-o", "m2", "-e", "Popularity", "-p", "n_tres=3"], "has no parameter"),
        (["train", "BROKEN", "-o", "m2", "-e", "Popularity"], "line 2"),
        (["train", "TRAIN", "-o", "m2", "-t", "max_ngram=2"], "--text-param is for texts, but"),
        (["train", "TRAIN", "-o", "m2", "--block", "x"], "--block is for texts, but"),
        (["train", "TRAIN", "-o", "m2", "--checkpoint", "TRAIN"], "checkpoint must be a directory, got the file"),
        (["predict", "MODEL", "TRAIN", "--top-k", "0"], "0 is not in the range"),
        (["predict", "EMPTY", "TRAIN"], "manifest"),
        (["evaluate", "MODEL", "WIDER"], "5 features"),
        (["evaluate", "MODEL", "TRAIN", "--propensity", "guess"], "guess"),
        (["fly"], "No such command"),
    ],
)
def test_user_errors_are_one_line_and_exit_with_2(
    tmp_path: Path, train_file: Path, model: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "broken.txt").write_text("1 3 4\n0,x 0:1\n")
    (tmp_path / "wider.txt").write_text("1 5 4\n0 4:1\n")
    (tmp_path / "empty").mkdir()
    places = {
        "TRAIN": train_file,
        "MODEL": model,
        "BROKEN": tmp_path / "broken.txt",
        "WIDER": tmp_path / "wider.txt",
        "EMPTY": tmp_path / "empty",
        "m2": tmp_path / "m2",
    }
    done = longtail(*[places.get(word, word) for word in arguments], ok=False)
    assert done.code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "m2").exists()


def test_every_command_shows_an_example() -> None:
    assert "Example" in longtail("--help").stdout
    for command in app.commands:
        assert "Example" in longtail(command, "--help").stdout, command


def test_help_imports_nothing_heavy() -> None:
    code = "import sys, longtail.cli.app; print([m for m in ('numpy', 'scipy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_installed_command_answers(model: Path, train_file: Path) -> None:
    command = [Path(sys.executable).with_name("longtail"), "predict", model, train_file, "--top-k", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "0:0.75\n" * 4
    broken = subprocess.run([*command[:-1], "none"], capture_output=True, text=True, check=False)
    assert broken.returncode == 2
    assert broken.stderr.count("\n") <= 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "longtail: Missing argument 'DATA'; see longtail train --help"),
        (
            ["train", "gone.txt", "-o", "m"],
            "longtail: Invalid value for 'DATA': Path 'gone.txt' does not exist; see longtail train",
        ),
        (["trian"], "longtail: No such command 'trian'"),
        (["tag", "--top-q"], "longtail: No such option"),
    ],
)
def test_usage_errors_are_one_line(arguments: list[str], message: str) -> None:
    answer = longtail(*arguments, ok=False)
    assert answer.code == 2
    assert message in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_one_is_not_a_plural(tmp_path: Path) -> None:
    data, model = tmp_path / "one.txt", tmp_path / "one.model"
    data.write_text("1 1 1\n0 0:1\n")
    assert "on 1 row, 1 feature and 1 label in" in longtail("train", data, "-o", model, "-e", "Popularity").stdout
    measured = longtail("evaluate", model, data)
    assert measured.stdout.endswith("in %, over 1 row and 1 label\n")
    assert measured.stderr.startswith("1 row, ")
    assert longtail("convert", data, tmp_path / "one.csr").stderr.startswith("1 row, 1 feature, 1 label: ")


def test_parameters_may_be_spelt_as_in_python(tmp_path: Path, train_file: Path) -> None:
    words = ("-e", "FastXML", "-p", "unit_rows=True", "-p", "split_top_k=None", "-p", "n_trees=1")
    longtail("train", train_file, "-o", tmp_path / "m", *words)
    lines = longtail("info", tmp_path / "m").stdout.splitlines()
    assert "  unit_rows: True" in lines
    assert not [line for line in lines if line.strip() in ("names:", "models:")]  # nothing below them


@pytest.mark.parametrize("command", ["evaluate", "predict", "report"])
def test_svmlight_rows_may_lack_the_last_features_and_labels(tmp_path: Path, command: str) -> None:
    train, test, model = tmp_path / "train.svm", tmp_path / "test.svm", tmp_path / "m"
    train.write_text("0 0:1 5:1\n1 1:1 9:2\n2 3:1\n")
    test.write_text("0 0:1 5:1\n1 1:1\n")
    longtail("train", train, "-o", model, "-e", "Popularity")
    longtail(command, model, test, *(["-o", tmp_path / "report.html"] if command == "report" else []))


def test_the_command_that_tune_prints_has_the_parameters_that_were_given(tmp_path: Path) -> None:
    data = tmp_path / "two words.txt"
    data.write_text("20 3 2\n" + "0 0:1\n1 1:1\n" * 10)
    answer = longtail("tune", data, "-e", "FastXML", "-p", "n_trees=2", "-p", "split_loss=precision", "--n-trials", "2")
    command = answer.stderr.splitlines()[-1]
    assert command.startswith(f"longtail train '{data}' -o MODEL -e FastXML -p n_trees=2 -p split_loss=precision -p ")


def test_a_misspelt_estimator_is_guessed(train_file: Path, tmp_path: Path) -> None:
    answer = longtail("train", train_file, "-o", tmp_path / "m", "-e", "DiSMCE", ok=False)
    assert "did you mean 'DiSMEC'?" in answer.stderr


def test_stopping_a_training_tells_of_checkpoints(
    train_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("longtail.baselines.Popularity.fit", stop)
    arguments = ("train", train_file, "-o", tmp_path / "m", "-e", "Popularity")
    answer = longtail(*arguments, ok=False)
    assert answer.code == 130
    assert answer.stderr.strip() == "longtail: stopped; with --checkpoint DIRECTORY a run can be resumed"
    answer = longtail(*arguments, "--checkpoint", tmp_path / "c", ok=False)
    assert answer.stderr.strip() == "longtail: stopped; run the same command again to go on"
