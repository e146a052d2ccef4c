"""From stored corrections to a better model, and back."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import longtail as lt
from longtail.feedback import feedback_path
from longtail.learning import merge_feedback, version_of
from tests.cli.test_commands import longtail
from tests.serve.models import learnt_tagger
from tests.serve.service import load, serving

TEXT = "a small mail server"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tags.model"
    lt.save(learnt_tagger(), path)
    store = lt.FeedbackStore(feedback_path(path))
    store.add(lt.Feedback(text=TEXT, accepted=["mail::client"], rejected=["web::server"], author="anna", id="1"))
    store.add(lt.Feedback(text="a quux", added=["cave"], id="2"))
    store.close()
    return path


def score(model: Path, label: str, text: str = TEXT) -> float:
    return lt.load(model).explain(text, label).score


def test_corrections_are_learnt_and_rolled_back(model: Path) -> None:
    trained = version_of(model)
    before = score(model, "web::server")
    printed = longtail("learn", model).stdout
    assert printed.startswith("2 texts: 3 labels (1 new: cave) corrected, 1 new word, others unchanged; too few texts")
    assert score(model, "web::server") < before - 0.1
    assert "cave" in lt.load(model, verify=True).label_names_
    assert "0 earlier models left" in longtail("rollback", model).stderr
    assert version_of(model) == trained
    failed = longtail("rollback", model, ok=False)
    assert failed.code == 2
    assert "there is no earlier model to go back to" in failed.stderr


def test_commands_without_anything_to_do_make_no_files(tmp_path: Path) -> None:
    lt.save(learnt_tagger(), tmp_path / "tags.model")
    for command in ("learn", "rollback"):
        assert longtail(command, tmp_path / "tags.model", ok=False).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["tags.model"]


def test_learning_twice_changes_nothing(model: Path) -> None:
    longtail("learn", model)
    once = version_of(model)
    longtail("learn", model)
    assert version_of(model) == once


def test_deleted_corrections_are_forgotten(model: Path) -> None:
    before = score(model, "web::server")
    longtail("learn", model)
    longtail("feedback", model, "delete", "--author", "anna")
    longtail("learn", model)
    assert score(model, "web::server") == before
    assert "cave" in lt.load(model).label_names_


def test_a_model_that_was_trained_again_is_learnt_from(model: Path) -> None:
    longtail("learn", model)
    new = learnt_tagger()
    new.rename_labels({"sound::player": "sound::other"})
    lt.save(new, model, overwrite=True)
    longtail("learn", model)
    assert "sound::other" in lt.load(model).label_names_


def test_a_few_earlier_models_are_kept(model: Path) -> None:
    longtail("learn", model)
    for number in range(6):
        store = lt.FeedbackStore(feedback_path(model))
        store.add(lt.Feedback(text=f"text {number}", accepted=["mail::client"]))
        store.close()
        longtail("learn", model)
    kept = sorted(child.name for child in (model.parent / "tags.model.earlier").iterdir())
    assert kept == ["1", "5", "6", "7", "lock"]
    for _ in range(4):
        longtail("rollback", model)
    assert "cave" not in lt.load(model).label_names_


def test_labelled_texts_are_learnt_from(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "new.jsonl"
    data.write_text(json.dumps({"text": TEXT, "labels": ["mail::client", "new"]}) + "\n")
    found = json.loads(longtail("learn", model, "--data", data, "--json").stdout)
    assert found["new_labels"] == ["cave", "new"]


def test_the_newest_answer_counts() -> None:
    given = [
        lt.Feedback(text="a", accepted=["x"], rejected=["y"]),
        lt.Feedback(text="b", accepted=["x"]),
        lt.Feedback(text="a", rejected=["x"], added=["z"]),
        lt.Feedback(text="b", added=["y"], complete=True),
    ]
    assert merge_feedback(given) == (["a", "b"], [["z"], ["y"]], [["x", "y"], ["x"]], [False, True])


def _weights(model: Path) -> dict[str, bytes]:
    coef = lt.load(model).estimator.coef_
    names = lt.load(model).label_names_
    return {name: coef[[i]].toarray().tobytes() for i, name in enumerate(names)}


def test_learning_after_other_changes_learns_nothing_twice(model: Path, tmp_path: Path) -> None:
    longtail("learn", model)
    once = _weights(model)
    names = tmp_path / "names.tsv"
    names.write_text("id\tname\nweb::server\tserver of pages\n")
    longtail("vocabulary", model, names)
    longtail("labels", model, "block", "sound::player")
    tagger = lt.load(model)
    tagger.calibrate(["a web server", "a mail reader"] * 5, [["web::server"], ["mail::client"]] * 5)
    lt.save(tagger, model, overwrite=True)
    longtail("learn", model)
    assert _weights(model) == once
    learnt = lt.load(model)
    assert learnt.vocabulary_.name("web::server") == "server of pages"
    assert learnt.blocked == ["sound::player"]
    assert learnt.calibration_.n_rows_ == 10


def test_corrections_mean_labels_that_were_renamed_since(model: Path) -> None:
    longtail("learn", model)
    once = _weights(model)
    longtail("labels", model, "rename", "web::server", "www", "mail::client", "web::server", "cave", "grotto")
    longtail("learn", model)
    renamed = _weights(model)
    assert sorted(renamed) == ["grotto", "role::program", "sound::player", "web::server", "www"]
    assert renamed["www"] == once["web::server"]
    assert renamed["web::server"] == once["mail::client"]
    assert renamed["grotto"] == once["cave"]
    longtail("labels", model, "remove", "grotto")
    longtail("learn", model)
    assert "grotto" not in _weights(model)
    assert "cave" not in _weights(model)


def test_labels_renamed_before_learning_are_not_brought_back(model: Path) -> None:
    longtail("labels", model, "rename", "mail::client", "post")
    longtail("learn", model)
    assert "mail::client" not in lt.load(model).label_names_
    assert score(model, "post") > 0


def test_a_learnt_model_without_the_one_it_was_made_from_learns_only_what_is_new(model: Path) -> None:
    longtail("learn", model)
    once = _weights(model)
    shutil.rmtree(model.parent / "tags.model.earlier")
    failed = longtail("learn", model, ok=False)
    assert failed.code == 2
    assert "there are no new corrections to learn from" in failed.stderr
    store = lt.FeedbackStore(feedback_path(model))
    store.add(lt.Feedback(text="a small music reader", accepted=["sound::player"]))
    store.close()
    longtail("learn", model)
    again = _weights(model)
    assert again["web::server"] == once["web::server"]
    assert again["sound::player"] != once["sound::player"]
    longtail("learn", model)
    assert _weights(model) == again


def test_labels_that_were_added_after_learning_stay(model: Path, tmp_path: Path) -> None:
    longtail("learn", model)
    data = tmp_path / "added.jsonl"
    rows = [{"text": "a small web server", "labels": ["site"]}, {"text": "a small mail reader", "labels": []}] * 4
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    longtail("labels", model, "add", data)
    added = _weights(model)
    store = lt.FeedbackStore(feedback_path(model))
    store.add(lt.Feedback(text="a small music reader", accepted=["sound::player"]))
    store.close()
    longtail("learn", model)
    assert _weights(model)["site"] == added["site"]
    assert _weights(model)["web::server"] == added["web::server"]


def test_data_and_corrections_are_learnt_together(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "new.jsonl"
    data.write_text(json.dumps({"text": "a new thing", "labels": ["sound::player", "new"]}) + "\n")
    longtail("learn", model, "--data", data)
    both = _weights(model)
    assert {"cave", "new"} <= both.keys()
    longtail("learn", model)
    assert _weights(model) == both
    longtail("learn", model, "--data", data)
    assert _weights(model) == both
    longtail("feedback", model, "delete", "--author", "new.jsonl")
    longtail("learn", model)
    assert "new" not in _weights(model)
    assert "cave" in _weights(model)


def test_all_that_was_learnt_is_forgotten_when_it_is_deleted(model: Path) -> None:
    trained = _weights(model)
    longtail("learn", model)
    for number in ("1", "2"):
        longtail("feedback", model, "delete", "--id", number)
    assert longtail("learn", model).stdout.startswith("0 texts: 0 labels corrected")
    assert _weights(model) == trained


def test_two_commands_that_learn_at_once_take_turns(model: Path) -> None:
    command = [sys.executable, "-m", "longtail", "learn", str(model)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert "cave" in lt.load(model, verify=True).label_names_
    kept = sorted(child.name for child in (model.parent / "tags.model.earlier").iterdir())
    assert kept == ["1", "2", "3", "lock"]


def test_the_queue_is_printed(model: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(f"a small web server\na web mail player\n{TEXT}\n")
    rows = [
        json.loads(line) for line in longtail("queue", model, texts, "--format", "lines", "--json").stdout.splitlines()
    ]
    assert {row["text"] for row in rows} == {"a small web server", "a web mail player"}  # the third has feedback
    assert rows[0]["value"] >= rows[1]["value"]
    assert rows[0]["proposed"][0]["proba"] is not None
    printed = longtail("queue", model, texts, "--format", "lines", "--by", "rare", "--limit", "1").stdout
    assert len(printed.splitlines()) == 5  # a title and the four labels


def test_a_service_takes_the_learnt_model_without_dropping_a_request(model: Path) -> None:
    with serving(model, "--feedback", "--workers", "2") as service:
        before = service.version()
        counts = load(
            service.port, n_connections=4, seconds=4, body={"text": "web"}, on_half=lambda: longtail("learn", model)
        )
        assert set(counts) == {200}, counts
        for _ in range(100):
            if service.version() != before:
                break
            time.sleep(0.1)
        assert service.version() != before
        assert "cave" in service.client.get("/api/labels", params={"query": "cave"}).text
