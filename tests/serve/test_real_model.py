"""The service over a real Tagger that learnt, was calibrated, saved and loaded."""

import pytest
from fastapi.testclient import TestClient

import longtail as lt
from longtail.serve import create_app
from longtail.serve.model import ServedModel
from tests.serve.models import learnt_tagger

TEXT = "🎵 A tiny web server, and a mail reader"


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "tags.model"
    lt.save(learnt_tagger(), path)
    return path


@pytest.fixture(scope="module")
def client(model_path):
    with TestClient(create_app(model_path)) as client:
        yield client


def test_labels_are_those_of_the_tagger(client, model_path):
    answer = client.post("/api/tag", json={"text": TEXT, "top_k": 3}).json()["labels"]
    expected = lt.load(model_path).tag([TEXT], top_k=3)[0]
    assert [row["label"] for row in answer] == [tag.label for tag in expected]
    assert [row["score"] for row in answer] == pytest.approx([tag.score for tag in expected], rel=1e-6)
    assert all(0 <= row["proba"] <= 1 for row in answer)


def test_a_calibrated_model_chooses_how_many(client):
    answer = client.post("/api/tag", json={"text": TEXT, "top_k": 10, "threshold": "auto"})
    assert answer.status_code == 200
    assert {row["label"] for row in answer.json()["labels"]} <= set(client.get("/api/labels").json()["labels"])


def test_a_utility_changes_the_order(client, model_path):
    body = {"text": TEXT, "top_k": 4}
    by_proba = client.post("/api/tag", json=body | {"utility": "power:0"}).json()["labels"]
    assert [row["proba"] for row in by_proba] == sorted((row["proba"] for row in by_proba), reverse=True)
    rare = client.post("/api/tag-batch", json={"texts": [TEXT], "top_k": 4, "utility": "power:10"}).json()["rows"][0]
    expected = lt.load(model_path).tag([TEXT], top_k=4, utility="power:10")[0]
    assert [row["label"] for row in rare] == [tag.label for tag in expected]
    assert rare != by_proba
    assert sorted(row["label"] for row in rare) == sorted(row["label"] for row in by_proba)
    answer = client.post("/api/tag", json=body | {"top_k": 1, "utility": "power:10", "max_loss": 0}).json()["labels"]
    assert answer == by_proba[:1]


def test_words_add_up_to_the_score_and_stand_where_they_are_said_to(client):
    answer = client.post("/api/explain", json={"text": TEXT, "label": "web::server"}).json()
    assert answer["exact"]
    total = answer["bias"] + sum(word["contribution"] for word in answer["words"])
    assert total == pytest.approx(answer["score"], abs=1e-4)
    spans = {word["word"]: word["spans"] for word in answer["words"]}
    assert [TEXT[begin:end] for begin, end in spans["web"]] == ["web"]


def test_unknown_labels_are_refused_in_words(client):
    for path, body in (("explain", {"label": "nosuch"}), ("tag", {"include": ["nosuch"]})):
        answer = client.post(f"/api/{path}", json={"text": TEXT, **body})
        assert answer.status_code == 422
        assert "there is no label 'nosuch'" in answer.json()["error"]


def test_the_card_can_be_sent(client):
    card = client.get("/api/model").json()["card"]
    assert card["estimator"] == "DiSMEC"
    assert card["n_labels"] == 4


def test_a_tagger_of_vectors_is_refused(tmp_path):
    X = [[1.0, 0.0], [0.0, 1.0]]
    lt.save(lt.Tagger(lt.Popularity(n_jobs=1), None).fit(X, [["a"], ["b"]]), tmp_path / "vectors.model")
    with pytest.raises(ValueError, match="the service takes texts"):
        ServedModel(tmp_path / "vectors.model")
