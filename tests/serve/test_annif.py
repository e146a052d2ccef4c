"""The part of Annif's REST API that its http backend uses."""

from datetime import datetime

import pytest
from fastapi.testclient import TestClient

import longtail as lt
from longtail.feedback import FeedbackStore, feedback_path
from longtail.serve import Limits, ModelSettings, Service, create_app
from longtail.vocabulary import Concept, Vocabulary
from tests.serve.fakes import FakeTagger
from tests.serve.models import learnt_tagger

PATH = "/v1/projects/tags"


@pytest.fixture(scope="module")
def client():
    limits = Limits(max_text_chars=100, max_top_k=20)
    with TestClient(Service({"tags": ModelSettings(source=FakeTagger(), limits=limits)})) as client:
        yield client


def test_suggestions_have_the_shape_that_annif_reads(client):
    answer = client.post(f"{PATH}/suggest", data={"text": "a web server", "limit": 2, "project": "ignored"})
    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert first == {"uri": "network::server", "label": "network::server", "notation": None, "score": first["score"]}
    assert 1 > first["score"] > second["score"] > 0


def test_scores_are_probabilities_where_the_model_is_calibrated():
    with TestClient(create_app(FakeTagger(calibrated=True), name="tags")) as client:
        first = client.post(f"{PATH}/suggest", data={"text": "a web server", "limit": 1}).json()["results"][0]
        tag = client.post("/api/tag", json={"text": "a web server", "top_k": 1}).json()["labels"][0]
    assert first["score"] == tag["proba"]


def test_a_threshold_leaves_labels_out(client):
    def n_labels(threshold):
        data = {"text": "a web server", "threshold": threshold}
        return len(client.post(f"{PATH}/suggest", data=data).json()["results"])

    assert n_labels(0.9) < n_labels(0.1)


def test_a_project_says_that_it_is_trained_and_since_when(tmp_path):
    lt.save(learnt_tagger(), tmp_path / "tags.model")
    with TestClient(create_app(tmp_path / "tags.model", name="tags")) as client:
        project = client.get(PATH).json()
    assert project["project_id"] == "tags"
    assert project["is_trained"] is True
    assert datetime.fromisoformat(project["modification_time"]).tzinfo is not None


def test_projects_are_listed(client):
    assert [project["project_id"] for project in client.get("/v1/projects").json()["projects"]] == ["tags"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "text must be given"),
        ({"text": "x", "limit": "many"}, "limit must be an integer from 1 to 2147483647, got 'many'"),
        ({"text": "x", "limit": "0"}, "limit must be an integer from 1 to 2147483647, got '0'"),
        ({"text": "x", "threshold": "nan"}, "threshold must be a number from 0 to 1, got 'nan'"),
    ],
)
def test_forms_that_cannot_be_answered_are_refused(client, data, message):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = client.post(f"{PATH}/suggest", data=data, headers=headers)
    assert answer.status_code == 422
    assert answer.json() == {"error": message}


def test_long_texts_and_large_limits_are_cut_to_those_of_the_service(client):
    """Annif logs a refusal and goes on without suggestions, so that a whole corpus would have none."""
    metadata = {f"metadata_{i}": "x" for i in range(40)}
    answer = client.post(f"{PATH}/suggest", data={"text": "a web server" + " x" * 5000, "limit": 1000, **metadata})
    assert answer.status_code == 200
    assert 0 < len(answer.json()["results"]) <= 20


@pytest.mark.parametrize("body", [b"text=%ff", b"\xff\xfe", b"&".join([b"a=1"] * 200)])
def test_odd_forms_are_refused(client, body):
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert client.post(f"{PATH}/suggest", content=body, headers=headers).status_code == 422


def test_a_body_that_is_not_a_form_is_refused(client):
    assert "must be a form" in client.post(f"{PATH}/suggest", json={"text": "x"}).json()["error"]


DOCUMENTS = [
    {"text": "a web server", "subjects": [{"uri": "net", "label": "Network"}, {"uri": "web"}], "metadata": {"a": "b"}},
    {"text": "nothing", "subjects": []},
]


def test_learn_stores_documents_as_feedback(tmp_path):
    lt.save(learnt_tagger(), tmp_path / "tags.model")
    with TestClient(create_app(tmp_path / "tags.model", name="tags", feedback=True)) as client:
        answer = client.post(f"{PATH}/learn", json=DOCUMENTS)
        assert (answer.status_code, answer.content) == (204, b"")
        too_long = {"text": "x" * 200_000, "subjects": []}
        assert client.post(f"{PATH}/learn", json=[*DOCUMENTS, too_long]).status_code == 422
        assert client.post(f"{PATH}/learn", json=[]).status_code == 422
        version = client.get("/health").json()["version"]
    stored = [one.feedback for one in FeedbackStore(feedback_path(tmp_path / "tags.model"))]
    assert [(one.text, one.added, one.complete, one.version) for one in stored] == [
        ("a web server", ("net", "web"), True, version),
        ("nothing", (), True, version),
    ]


def test_learn_is_off_without_a_store(client):
    answer = client.post(f"{PATH}/learn", json=DOCUMENTS)
    assert answer.status_code == 403
    assert "--feedback" in answer.json()["error"]


def test_labels_have_the_names_of_the_vocabulary():
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(["web", "web mail"], [["u:1"], ["u:1", "u:2"]])
    tagger.set_vocabulary(Vocabulary([Concept(id="u:1", names={"en": "Network", "de": "Netz"})]))
    with TestClient(create_app(tagger, name="tags")) as client:
        form = {"text": "web", "limit": 2, "language": "de"}
        results = client.post(f"{PATH}/suggest", data=form).json()["results"]
    assert [(one["uri"], one["label"]) for one in results] == [("u:1", "Netz"), ("u:2", "u:2")]
