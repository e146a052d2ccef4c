"""Corrections over HTTP: stored once, exported, deleted; nothing is written unless asked for."""

import json
import threading

import pytest
from fastapi.testclient import TestClient

import longtail as lt
from longtail.feedback import FeedbackStore, feedback_path
from longtail.serve import Limits, create_app
from tests.cli.test_commands import longtail
from tests.serve.models import learnt_tagger
from tests.serve.service import serving

KEY = {"x-api-key": "sesame"}
GIVEN = {
    "id": "1",
    "text": "a small web server",
    "accepted": ["web::server"],
    "rejected": ["mail::client"],
    "added": ["devel::new"],
    "author": "anna",
    "version": "abc",
}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "tags.model"
    lt.save(learnt_tagger(), path)
    return path


@pytest.fixture
def client(model):
    limits = Limits(max_text_chars=100)
    with TestClient(create_app(model, api_key="sesame", feedback=True, limits=limits), headers=KEY) as client:
        yield client


def lines(answer):
    assert answer.headers["content-type"] == "application/jsonl"
    return [json.loads(line) for line in answer.text.splitlines()]


def test_feedback_is_stored_once_and_exported(client):
    assert client.post("/api/feedback", json=GIVEN).json() == {"id": "1", "stored": True}
    assert client.post("/api/feedback", json=GIVEN).json() == {"id": "1", "stored": False}
    made = client.post("/api/feedback", json={"text": "mail", "rejected": ["web::server"]}).json()
    assert made["stored"]
    first, second = lines(client.get("/api/feedback"))
    assert first["number"] == 1
    assert {name: first[name] for name in GIVEN} == GIVEN
    assert first["labels"] == ["web::server", "devel::new"]
    assert second["id"] == made["id"]
    assert second["author"] is None
    assert client.get("/api/feedback/count").json() == {"n_feedback": 2}
    assert [row["number"] for row in lines(client.get("/api/feedback?after=1&limit=1"))] == [2]
    assert lines(client.get("/api/feedback?after=2")) == []


def test_another_content_under_the_same_id_is_a_conflict(client):
    client.post("/api/feedback", json=GIVEN)
    answer = client.post("/api/feedback", json={**GIVEN, "rejected": []})
    assert answer.status_code == 409
    assert "which has other content" in answer.json()["error"]


def test_feedback_is_deleted(client):
    for number in range(4):
        client.post("/api/feedback", json={**GIVEN, "id": str(number), "author": "anna" if number else "bob"})
    assert client.delete("/api/feedback", params={"id": "0"}).json() == {"n_deleted": 1}
    assert client.delete("/api/feedback", params={"author": "anna"}).json() == {"n_deleted": 3}
    for params in ({}, {"id": "0", "author": "anna"}):
        assert client.delete("/api/feedback", params=params).status_code == 422


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"text": "x" * 101, "accepted": ["a"]}, "text must have at most 100 characters"),
        ({"text": "x"}, "must not all be empty"),
        ({"text": "x", "accepted": ["a"], "rejected": ["a"]}, "right or wrong, got 'a' as both"),
        ({"text": "x", "accepted": ["a"] * 1001}, "accepted must have at most 1,000 items"),
        ({"text": "x", "accepted": ["web::sever"]}, "there is no label 'web::sever'; there is 'web::server'"),
        ({"text": "x", "accepted": ["brand::new"]}, "a label that is new to the model goes to added"),
        ({"text": "x", "accepted": ["a"], "who": "me"}, "who is not a known field"),
        ({"text": "x", "accepted": ["a"], "id": "i" * 101}, "id must have at most 100 characters"),
    ],
)
def test_bad_feedback_is_refused(client, body, message):
    answer = client.post("/api/feedback", json=body)
    assert answer.status_code == 422
    assert message in answer.json()["error"]
    assert client.get("/api/feedback/count").json() == {"n_feedback": 0}


def test_full_and_locked_files_have_their_own_status(client, model, monkeypatch):
    monkeypatch.setattr("longtail.feedback.store._BUSY_SECONDS", 0.05)
    other = FeedbackStore(feedback_path(model))
    with other._transaction():
        answer = client.post("/api/feedback", json=GIVEN)
    other.close()
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert client.post("/api/feedback", json=GIVEN).status_code == 200
    monkeypatch.setattr(FeedbackStore, "add", _full)
    answer = client.post("/api/feedback", json=GIVEN)
    assert answer.status_code == 507
    assert answer.json() == {"error": "the disk is full"}


def _full(*_):
    raise OSError(28, "the disk is full")


def test_nothing_is_written_unless_asked_for(model):
    with TestClient(create_app(model)) as client:
        assert client.post("/api/feedback", json=GIVEN).status_code == 404
        assert client.get("/api/queue").status_code == 404
        card = client.get("/api/model").json()
        assert (card["feedback"], card["queue"]) == (False, False)
    assert [path.name for path in model.parent.iterdir()] == ["tags.model"]
    with pytest.raises(ValueError, match="feedback needs a model with a path"):
        create_app(learnt_tagger(), feedback=True)


def test_strangers_can_neither_export_nor_delete_what_others_said(model):
    with TestClient(create_app(model, feedback=True)) as client:
        assert client.post("/api/feedback", json=GIVEN).status_code == 200
        assert client.get("/api/feedback").status_code == 403
        assert client.delete("/api/feedback", params={"author": "anna"}).status_code == 403
        assert client.delete("/api/feedback", params={"id": "1"}).json() == {"n_deleted": 1}  # undo
    local = create_app(model, feedback=True, allowed_hosts=["localhost"])
    with TestClient(local, base_url="http://localhost") as client:
        assert client.get("/api/feedback").status_code == 200


def test_two_workers_write_and_the_command_reads(model):
    with serving(model, "--feedback", "--workers", "2") as service:
        assert service.client.get("/api/model").json()["feedback"] is True

        def post(first):
            for number in range(first, first + 20):
                body = {"id": str(number), "text": "web", "accepted": ["web::server"], "author": str(number % 2)}
                assert service.client.post("/api/feedback", json=body).status_code == 200

        threads = [threading.Thread(target=post, args=(first,)) for first in (0, 20, 40, 60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert longtail("feedback", model, "count").stdout == "80 corrections\n"
        assert longtail("feedback", model, "delete", "--author", "1", "--json").stdout == '{"n_deleted": 40}\n'
        assert len(lines(service.client.get("/api/feedback"))) == 40
    target = model.parent / "out.jsonl"
    longtail("feedback", model, "export", "-o", target)
    assert {row["id"] for row in map(json.loads, target.read_text().splitlines())} == {
        str(number) for number in range(0, 80, 2)
    }
    assert longtail("feedback", model, "export").stdout == target.read_text()
    longtail("train", target, "-o", model.parent / "new.model", "-e", "Popularity")


def test_the_command_names_mistakes(model):
    for arguments, message in (
        (("count",), "there is no feedback; serve the model with --feedback"),
        (("delete",), "delete needs --id or --author"),
        (("count", "--id", "1"), "--id is for delete"),
    ):
        done = longtail("feedback", model, *arguments, ok=False)
        assert done.code == 2
        assert message in done.stderr
    assert [path.name for path in model.parent.iterdir()] == ["tags.model"]


def test_the_queue_offers_uncertain_texts_without_feedback(model):
    texts = model.parent / "texts.jsonl"
    words = ["web server", "mail reader", "music player", "web mail", "chess"]
    texts.write_text("".join(json.dumps({"text": f"a small {word}"}) + "\n" for word in words))
    with TestClient(create_app(model, api_key="sesame", feedback=True, queue=texts), headers=KEY) as client:
        answer = client.get("/api/queue?limit=3").json()
        assert answer["n_left"] == 5
        values = [row["value"] for row in answer["rows"]]
        assert values == sorted(values, reverse=True)
        first = answer["rows"][0]
        assert first["labels"][0]["proba"] is not None
        client.post("/api/feedback", json={"text": first["text"], "accepted": ["role::program"]})
        rest = client.get("/api/queue?limit=100&by=rare").json()
        assert rest["n_left"] == len(rest["rows"]) == 4
        assert first["key"] not in [row["key"] for row in rest["rows"]]
        assert client.get("/api/queue?skip=4").json()["rows"] == []
        assert client.get("/api/queue?by=luck").status_code == 422
