"""tag, explain, calibrate, tune and completion from outside."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_commands import longtail

WORDS = {"net": ["web", "server"], "mail": ["post", "letter"], "game": ["chess", "puzzle"]}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "train.jsonl"
    rows = [
        {"text": f"{word} number{i % 5}", "labels": [name]} for i in range(20) for name in WORDS for word in WORDS[name]
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def model(tmp_path: Path, data: Path) -> Path:
    path = tmp_path / "m"
    longtail("train", data, "-o", path, "-e", "Popularity")
    return path


def test_tag_prints_labels_for_people_and_machines(model: Path) -> None:
    assert [line.split()[-1] for line in longtail("tag", model, "chess").stdout.splitlines()] == ["game", "mail", "net"]
    several = longtail("tag", model, "chess", "a\x1b[31m web", "--top-k", "1").stdout
    assert "\x1b" not in several, "no colours outside a terminal, and none from data"
    assert several.splitlines()[0] == "chess"
    rows = [json.loads(line) for line in longtail("tag", model, "web", "server", "--json").stdout.splitlines()]
    assert rows[0] == rows[1]
    assert rows[0]["labels"][0] == {"label": "game", "score": pytest.approx(1 / 3)}


def test_tag_reads_lines(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("one\ntwo\n\n"))
    assert len(longtail("tag", model, "--json", "--top-k", "1").stdout.splitlines()) == 3


def test_tag_takes_filters_and_thresholds(model: Path) -> None:
    def tags(*options: str) -> list[str]:
        answer = json.loads(longtail("tag", model, "chess", "--json", *options).stdout)
        return [row["label"] for row in answer["labels"]]

    assert tags("--exclude", "game") == ["mail", "net"]
    assert tags("--include", "net") == ["net"]
    assert tags("--threshold", "0.9") == []
    assert "no label reaches" in longtail("tag", model, "chess", "--threshold", "0.9").stdout


def test_calibrate_makes_auto_work(model: Path, data: Path) -> None:
    refused = longtail("tag", model, "chess", "--threshold", "auto", ok=False)
    assert (refused.code, refused.stderr.count("\n")) == (2, 1)
    assert "calibrate" in refused.stderr
    result = json.loads(longtail("calibrate", model, data, "--json").stdout)
    assert result["n_rows"] == 120
    tags = json.loads(longtail("tag", model, "chess", "--threshold", "auto", "--json").stdout)["labels"]
    assert all(0 <= row["proba"] <= 1 for row in tags)
    assert "%" in longtail("tag", model, "chess").stdout


def test_what_calibration_adds_is_said_only_where_it_adds_something(tmp_path: Path, data: Path) -> None:
    command = "train", data, "-e", "blend", "-p", "first=Popularity", "-p", "second=Popularity"
    said = longtail(*command, "-o", tmp_path / "blend", "--calibrate").stderr
    assert "--calibrate adds nothing: a Blend is always calibrated" in said
    assert "second model" not in said


def test_train_chooses_an_estimator_and_calibrates_it(tmp_path: Path, data: Path) -> None:
    said = longtail("train", data, "-o", tmp_path / "tags", "--calibrate").stderr
    assert "--calibrate trains a second model" in said
    assert "%" in longtail("tag", tmp_path / "tags", "chess").stdout


@pytest.mark.parametrize("output", ["missing/tags", "file", "foreign", "."])
def test_train_refuses_what_it_could_not_write_before_it_reads(tmp_path: Path, output: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").touch()
    unreadable = tmp_path / "data.jsonl"
    unreadable.write_text("no JSON")
    refused = longtail("train", unreadable, "-o", tmp_path / output, "--overwrite", ok=False)
    assert refused.code == 2
    assert "data.jsonl" not in refused.stderr


def test_a_missing_folder_is_named(tmp_path: Path, model: Path, data: Path) -> None:
    for command in ("predict", "report"):
        refused = longtail(command, model, data, "-o", tmp_path / "missing" / "out.html", ok=False)
        assert f"{tmp_path / 'missing'}: no such directory; make it first" in refused.stderr


def test_a_price_of_the_scores_is_refused_before_the_data_is_read(tmp_path: Path, data: Path) -> None:
    model = tmp_path / "calibrated"
    longtail("train", data, "-o", model, "-e", "Popularity", "--calibrate")
    for command in (["tag", model, "chess"], ["predict", model, data], ["evaluate", model, data]):
        done = longtail(*command, "--utility", "score", "--max-loss", "1", ok=False)
        assert done.code == 2
        assert done.stderr == "longtail: --max-loss is a price for another order than that of --utility score\n"


def test_utilities_reach_the_commands(tmp_path: Path, data: Path) -> None:
    model = tmp_path / "calibrated"
    trained = longtail("train", data, "-o", model, "-e", "Popularity", "--calibrate")
    assert (
        "--calibrate trains a second model on 60 % of the rows and a third on a quarter of these: about 1.75"
        in trained.stderr
    )
    answers = {
        utility: longtail("tag", model, "chess", "--json", "--utility", utility).stdout
        for utility in ("psp", "power:0.5", "macro-f1", "coverage", "score")
    }
    assert all(len(json.loads(answer)["labels"]) == 3 for answer in answers.values())
    found = longtail("predict", model, data, "--utility", "psp", "--max-loss", "0.5", "--json")
    assert "best first by the utility psp; the numbers are probabilities" in found.stderr
    for line in found.stdout.splitlines():
        row = json.loads(line)
        assert len(row["proba"]) == 3
        assert row["utility"] == sorted(row["utility"], reverse=True)
    found = longtail("predict", model, data, "--json")
    assert "best first by probability" in found.stderr
    assert all("utility" not in json.loads(line) for line in found.stdout.splitlines())
    assert json.loads(longtail("evaluate", model, data, "--utility", "psp", "--json").stdout)["P@1"] > 0
    found = longtail("evaluate", model, data, "--tail", "--labels", tmp_path / "labels.csv", "--json").stdout
    assert json.loads(found)["tail"]["all"]["n_labels"] == 3
    assert (tmp_path / "labels.csv").read_text().startswith("label_id,label,n_rows,n_given,n_hits,precision")
    again = longtail("evaluate", model, data, "--labels", tmp_path / "labels.csv", ok=False)
    assert "--overwrite" in again.stderr
    assert "balanced@5" in longtail("evaluate", model, data, "--tail").stdout
    refused = longtail("tag", model, "chess", "--utility", "fame", ok=False)
    assert "utility must be one of score, balanced" in refused.stderr


def test_explain_shows_words(model: Path) -> None:
    answer = json.loads(longtail("explain", model, "chess puzzle", "--label", "game", "--json").stdout)
    assert (answer["label"], answer["exact"]) == ("game", False)
    page = longtail("explain", model, "chess puzzle").stdout
    assert page.splitlines()[0] == "chess puzzle"
    assert "bias" in page


def test_explain_names_the_parts_of_a_word(data: Path, tmp_path: Path) -> None:
    longtail("train", data, "-o", tmp_path / "m", "-e", "DiSMEC")
    answer = json.loads(longtail("explain", tmp_path / "m", "chess puzzle", "--label", "game", "--json").stdout)
    first = answer["words"][0]
    assert set(first) == {"word", "contribution", "spans"}
    assert [["chess puzzle"[begin:end] for begin, end in first["spans"]]] == [[first["word"]]]


def test_tune_prints_parameters_and_how_to_use_them(data: Path, tmp_path: Path) -> None:
    command = [
        "tune",
        data,
        "-e",
        "Popularity",
        "-r",
        "random_state=0:5",
        "--n-trials",
        "3",
        "--log",
        tmp_path / "t.jsonl",
    ]
    found = longtail(*command)
    assert found.stdout.startswith("random_state = ")
    assert "longtail train" in found.stderr
    assert json.loads(longtail(*command, "--json").stdout)["n_trials"] == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tag", "MODEL", "x", "--threshold", "high"], "neither a number nor 'auto'"),
        (["tag", "MODEL", "x", "--utility", "psp"], "is not calibrated, which utilities need: train with --calibrate"),
        (["evaluate", "MODEL", "DATA", "--labels", "x.txt"], "--labels must end in .csv or .json, got x.txt"),
        (["evaluate", "MODEL", "DATA", "--max-loss", "1"], "is not calibrated, which utilities need"),
        (["tag", "MODEL", "x", "--threshold", "auto"], "is not calibrated: run longtail calibrate"),
        (["tag", "MODEL", "x", "--include", "tiger"], "there is no label 'tiger'"),
        (["explain", "MODEL", "x", "--label", "tiger"], "there is no label 'tiger'"),
        (["tag", "VECTORS", "x"], "ranks vectors, not texts"),
        (["calibrate", "MODEL", "DATA", "--measure", "precision"], "--floor is needed with --measure precision"),
        (["tune", "DATA", "-e", "Popularity"], "declares no ranges"),
        (["tune", "DATA", "-e", "Popularity", "-r", "random_state"], "--range takes NAME=LOW:HIGH"),
        (["tune", "DATA", "-e", "Popularity", "-r", "random_state=5:1"], "must go up"),
        (["tune", "DATA", "-e", "Popularity", "-r", "random_state=0:3", "--measure", "X@1"], "no metric 'X@1'"),
        (["completion", "tcsh"], "'tcsh' is not one of"),
    ],
)
def test_user_errors_are_short_and_exit_with_2(
    tmp_path: Path, model: Path, data: Path, arguments: list[str], message: str
) -> None:
    vectors = tmp_path / "v.txt"
    vectors.write_text("2 2 2\n0 0:1\n1 1:1\n")
    longtail("train", vectors, "-o", tmp_path / "v.model", "-e", "Popularity")
    places = {"MODEL": model, "DATA": data, "VECTORS": tmp_path / "v.model"}
    done = longtail(*[places.get(word, word) for word in arguments], ok=False)
    assert done.code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_train_takes_text_parameters_and_blocked_labels(data: Path, tmp_path: Path) -> None:
    model = tmp_path / "m"
    longtail(
        "train",
        data,
        "-o",
        model,
        "-e",
        "Popularity",
        "-t",
        "max_ngram=2",
        "--text-param",
        "min_df=1",
        "--block",
        "game",
    )
    card = json.loads(longtail("info", model, "--json").stdout)
    assert card["models"]["vectorizer"]["parameters"]["max_ngram"] == 2
    labels = json.loads(longtail("tag", model, "chess", "--json").stdout)["labels"]
    assert [row["label"] for row in labels] == ["mail", "net"]
    refused = longtail("train", data, "-o", tmp_path / "n", "-t", "ngrams=2", ok=False)
    assert "TextVectorizer has no parameter 'ngrams'" in refused.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_command(shell: str) -> None:
    assert "longtail" in longtail("completion", shell).stdout


def test_completion_answers_a_shell() -> None:
    environment = {"_LONGTAIL_COMPLETE": "bash_complete", "COMP_WORDS": "longtail expl", "COMP_CWORD": "1"}
    command = [Path(sys.executable).with_name("longtail")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.split() == ["plain,explain"]


def test_the_page_of_commands_is_fresh() -> None:
    script = Path(__file__).parents[2] / "scripts" / "write_cli_docs.py"
    page = script.parent.parent / "docs" / "cli.md"
    done = subprocess.run([sys.executable, script, "--check", page], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_line_of_predict_is_one_line_whatever_the_labels_hold(tmp_path: Path) -> None:
    data = tmp_path / "odd.jsonl"
    data.write_text('{"text": "one two", "labels": ["a\\tb", "c\\nd"]}\n' * 3)
    longtail("train", data, "-o", tmp_path / "m", "-e", "Popularity", "--block", "nope")
    lines = longtail("predict", tmp_path / "m", data).stdout.splitlines()
    assert [len(line.split("\t")) for line in lines] == [2, 2, 2]


def test_an_unknown_blocked_label_is_told(data: Path, tmp_path: Path) -> None:
    answer = longtail("train", data, "-o", tmp_path / "m", "-e", "Popularity", "--block", "nope")
    assert "--block nope: the data has no such label" in answer.stderr


def test_nothing_to_measure_is_an_error(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "bare.jsonl"
    data.write_text('{"text": "one", "labels": []}\n')
    answer = longtail("evaluate", model, data, ok=False)
    assert (answer.code, answer.stderr.count("\n")) == (2, 1)
    assert "no text has a label" in answer.stderr
    assert "must be ray, auto or ray://" in longtail("predict", model, data, "--on", "nonsense", ok=False).stderr


def test_a_text_without_known_words_says_so(model: Path) -> None:
    assert "knows no word" in longtail("tag", model, "xyzzy plugh").stdout
    assert "game" not in longtail("tag", model, "xyzzy plugh").stdout
    rows = longtail("tag", model, "xyzzy", "a chess puzzle", "--json").stdout.splitlines()
    assert [json.loads(row)["known_words"] for row in rows] == [0, 2]


def test_predict_gives_no_labels_to_a_text_without_known_words(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "texts.jsonl"
    data.write_text('{"id": "p1", "text": "a chess puzzle"}\n{"id": "p2", "text": "xyzzy plugh"}\n')
    found = longtail("predict", model, data, "-o", "-")
    assert [line.split("\t")[0] for line in found.stdout.splitlines()] == ["p1", "p2"]
    assert found.stdout.splitlines()[1] == "p2\t"
    assert "no labels for 1 text without any word that the model knows" in found.stderr
    rows = [json.loads(line) for line in longtail("predict", model, data, "--json").stdout.splitlines()]
    assert rows[1] == {"id": "p2", "labels": [], "scores": [], "known_words": 0}
    assert "known_words" not in rows[0]
    assert not Path("-").exists()


def test_evaluate_writes_the_model_card(model: Path, data: Path, tmp_path: Path) -> None:
    import longtail as lt

    longtail("evaluate", model, data, "--no-card")
    assert lt.load(model).card()["metrics"] == {}
    arrays = {path: path.stat().st_ino for path in model.rglob("*.npy")}
    measured = json.loads(longtail("evaluate", model, data, "--json").stdout)
    card = lt.load(model, verify=True).card()
    assert card["metrics"]["P@1"] == measured["P@1"]
    assert card["evaluated_on"] == {"data": "train.jsonl", "n_rows": 120}
    assert arrays == {path: path.stat().st_ino for path in model.rglob("*.npy")}, "arrays are linked, not copied"
    assert "train.jsonl" in longtail("info", model).stdout
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("4 3 4\n0,1 0:1 2:0.5\n0 1:1\n0,2 0:0.5 1:1\n 2:1\n")
    longtail("train", vectors, "-o", tmp_path / "v", "-e", "Popularity")
    longtail("evaluate", tmp_path / "v", vectors)
    card = lt.load(tmp_path / "v").card()
    assert card["evaluated_on"] == {"data": "vectors.txt", "n_rows": 4}
    assert card["metrics"]["P@1"] == 75.0


@pytest.mark.parametrize(
    "damage", [{"metrics_": {"P@1": "high"}}, {"metrics_": []}, {"evaluated_on_": {"n_rows": 3}}, {"evaluated_on_": 7}]
)
def test_a_damaged_card_is_refused(model: Path, data: Path, damage: dict[str, object]) -> None:
    longtail("evaluate", model, data)
    manifest = model / "manifest.json"
    meta = json.loads(manifest.read_text())
    meta["fitted"] |= damage
    manifest.write_text(json.dumps(meta))
    refused = longtail("info", model, "--verify", ok=False)
    assert refused.code == 2
    assert next(iter(damage)) in refused.stderr


def test_the_shell_completes_estimators_and_models(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.shell_completion import BashComplete

    from longtail.cli.app import app

    def offered(*words: str, incomplete: str) -> list[str]:
        found = BashComplete(app, {}, "longtail", "_LONGTAIL_COMPLETE").get_completions(list(words), incomplete)
        return [item.value for item in found if item.type == "plain"]

    monkeypatch.chdir(model.parent)
    assert offered("train", "x.txt", "-e", incomplete="fast") == ["FastXML"]
    assert {"DiSMEC", "LabelTree", "Popularity"} <= set(offered("tune", "x.txt", "-e", incomplete=""))
    (model.parent / "no_model").mkdir()
    assert offered("tag", incomplete="") == [model.name]
    assert offered("evaluate", incomplete=f"{model.parent}/") == [str(model)]
    assert offered("tag", incomplete="no_") == []
