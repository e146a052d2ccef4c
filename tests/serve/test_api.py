"""The endpoints: what they answer, and what they refuse in which words."""

import json

import pytest
from fastapi.testclient import TestClient

from longtail.serve import Limits, create_app
from tests.serve.fakes import FakeTagger

TEXT = "A small web server"


@pytest.fixture(scope="module")
def client():
    limits = Limits(max_text_chars=100, max_batch=3, max_top_k=10, max_request_bytes=4096)
    with TestClient(create_app(FakeTagger(), limits=limits)) as client:
        yield client


def test_tag_ranks_labels_best_first(client):
    answer = client.post("/api/tag", json={"text": TEXT, "top_k": 2})
    assert answer.status_code == 200
    assert answer.json()["labels"] == [
        {"label": "network::server", "score": 2.5, "proba": None, "name": None},
        {"label": "web::browser", "score": -0.5, "proba": None, "name": None},
    ]


def test_tag_passes_threshold_include_and_exclude_on(client):
    def labels(**body):
        return [row["label"] for row in client.post("/api/tag", json={"text": TEXT, **body}).json()["labels"]]

    assert labels(threshold=0.0) == ["network::server"]
    assert labels(include=["mail::client"]) == ["mail::client"]
    assert labels(exclude=["network::server"])[0] == "web::browser"


def test_tag_batch_answers_in_the_order_of_the_texts(client):
    answer = client.post("/api/tag-batch", json={"texts": ["mail", "music", ""], "top_k": 1}).json()
    assert [row[0]["label"] for row in answer["rows"]][:2] == ["mail::client", "sound::player"]
    assert client.post("/api/tag-batch", json={"texts": []}).json() == {"rows": [], "known_words": []}


def test_explain_gives_words_with_their_places(client):
    answer = client.post("/api/explain", json={"text": TEXT, "label": "network::server"}).json()
    assert answer["exact"] is True
    assert {word["word"]: word["spans"] for word in answer["words"]} == {"web": [[8, 11]], "server": [[12, 18]]}
    assert answer["score"] == answer["bias"] + sum(word["contribution"] for word in answer["words"])


def test_labels_are_found_by_a_part_of_their_name(client):
    assert client.get("/api/labels", params={"query": "SERV"}).json() == {
        "labels": ["network::server"],
        "counts": [3],
        "names": None,
        "exact": None,
    }
    assert len(client.get("/api/labels", params={"limit": 2}).json()["labels"]) == 2


def test_model_card_examples_and_health_are_there(client):
    assert client.get("/api/model").json()["card"]["estimator"] == "Fake"
    assert client.get("/api/examples").json()["texts"][0] == "a small web server"
    assert client.get("/health").json() == {"status": "ok", "version": "in memory", "last_reload_error": None}


def test_metrics_count_requests_and_texts(client):
    before = _metric(client, "longtail_texts_total")
    client.post("/api/tag-batch", json={"texts": ["mail", "music"]})
    client.post("/api/tag", json={"text": 5})
    assert _metric(client, "longtail_texts_total") == before + 2
    assert _metric(client, 'longtail_requests_total{endpoint="tag",status="422"}') >= 1
    assert _metric(client, 'longtail_request_seconds_count{endpoint="tag-batch"}') >= 1


def _metric(client, name):
    lines = client.get("/metrics").text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.rpartition(" ")[0] == name)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/api/tag", {"text": "x" * 101}, 422, "text must have at most 100 characters"),
        ("/api/tag", {"text": TEXT, "top_k": 11}, 422, "top_k must be at most 10"),
        ("/api/tag", {"text": TEXT, "top_k": 0}, 422, "top_k must be at least 1"),
        ("/api/tag", {"text": TEXT, "top_k": 1.5}, 422, "top_k must be an integer"),
        ("/api/tag", {"text": TEXT, "topk": 3}, 422, "topk is not a known field"),
        ("/api/tag", {"text": 5}, 422, "text must be a string"),
        ("/api/tag", {"text": TEXT, "threshold": "high"}, 422, "threshold must be a number or 'auto'"),
        ("/api/tag", {"text": TEXT, "unseen": "yes"}, 422, "unseen must be true or false"),
        ("/api/tag", [TEXT], 422, "the body must be a JSON object"),
        ("/api/tag", {"text": TEXT, "threshold": "auto"}, 422, "needs a calibrated model"),
        ("/api/tag", {"text": TEXT, "utility": "psp"}, 422, "for a model that is not calibrated"),
        (
            "/api/tag",
            {"text": TEXT, "utility": "power:-1"},
            422,
            "utility must be one of score, balanced, precision, psp, power:X",
        ),
        ("/api/tag", {"text": TEXT, "max_loss": -1}, 422, "max_loss must be at least 0"),
        ("/api/tag", {}, 422, "text must be given"),
        ("/api/tag-batch", {"texts": ["a"] * 4}, 422, "texts must have at most 3 items"),
        ("/api/tag-batch", {"texts": ["x" * 101]}, 422, "texts.0"),
        ("/api/explain", {"text": TEXT, "label": "nosuch"}, 422, "there is no label 'nosuch'"),
        ("/api/tag", {"text": TEXT, "exclude": ["x" * 5000]}, 413, "at most 4,096 bytes"),
        ("/api/nosuch", {}, 404, "Not Found"),
        ("/health", {}, 405, "Method Not Allowed"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(client, path, body, status, words):
    answer = client.post(path, json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[" * 3000,
        b"\xff\xfe",
        b'{"text": "\\ud800"}',
        b'{"text": "a", "threshold": NaN}',
        b'{"text": "\\u0000"}',
    ],
)
def test_odd_bodies_never_break_the_service(client, body):
    answer = client.post("/api/tag", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 400, 422)
    json.dumps(answer.json())


def test_a_body_in_another_encoding_is_refused_in_words(client):
    body = '{"text": "Müsli"}'.encode("latin-1")
    answer = client.post("/api/tag", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]) == (400, "the body must be JSON in UTF-8")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"text": }', "the body is not valid JSON at character 9: expecting value"),
        (b"{", "the body is not valid JSON at character 1: expecting property name enclosed in double quotes"),
    ],
)
def test_invalid_json_is_described_in_our_words(client, body, message):
    answer = client.post("/api/tag", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json() == {"error": message}


def test_long_explanations_are_cut_and_the_rest_is_summed():
    with TestClient(create_app(FakeTagger(), limits=Limits(max_words=1))) as client:
        answer = client.post("/api/explain", json={"text": TEXT, "label": "network::server"}).json()
    assert [word["word"] for word in answer["words"]] == ["web"]
    assert answer["score"] == answer["bias"] + answer["words"][0]["contribution"] + answer["rest"]


def test_a_service_with_a_key_declares_it_in_the_schema(client):
    assert "security" not in client.get("/openapi.json").json()
    with TestClient(create_app(FakeTagger(), api_key="sesame")) as locked:
        schema = locked.get("/openapi.json", headers={"x-api-key": "sesame"}).json()
    schemes = schema["components"]["securitySchemes"]
    assert schemes["bearer"] == {"type": "http", "scheme": "bearer"}
    assert schemes["apiKey"] == {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    assert schema["security"] == [{"bearer": []}, {"apiKey": []}]
    assert schema["paths"]["/health"]["get"]["security"] == []
    assert "security" not in schema["paths"]["/api/tag"]["post"], "the global rule applies"


def test_a_body_that_is_not_json_by_its_type_is_refused(client):
    # Browsers may send text/plain to foreign sites without asking; JSON they may not.
    body = json.dumps({"text": TEXT})
    assert client.post("/api/tag", content=body, headers={"content-type": "text/plain"}).status_code == 422


def test_a_mistake_of_the_service_is_a_plain_500(monkeypatch):
    tagger = FakeTagger()
    app = create_app(tagger)
    with TestClient(app) as client:
        monkeypatch.setattr(tagger, "tag", lambda *args, **kwargs: 1 / 0)
        answer = client.post("/api/tag", json={"text": TEXT})
    assert answer.status_code == 500
    assert answer.json() == {"error": "internal error; see the server log"}
    assert "content-security-policy" in answer.headers


def test_every_answer_has_the_safety_headers(client):
    for path in ("/", "/app.js", "/style.css", "/health", "/nosuch", "/api/model"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_page_files_are_sent_once(client):
    first = client.get("/style.css")
    assert client.get("/style.css", headers={"if-none-match": first.headers["etag"]}).status_code == 304
    assert client.head("/").status_code == 200


def test_the_schema_states_the_limits(client):
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    assert schemas["TagRequest"]["properties"]["text"]["maxLength"] == 100
    assert schemas["TagBatchRequest"]["properties"]["texts"]["maxItems"] == 3
    assert schemas["TagRequest"]["properties"]["top_k"]["maximum"] == 10


def test_scripts_from_elsewhere_are_nowhere_on_offer(client):
    assert client.get("/docs").status_code == 404
    for path in ("/", "/app.js", "/style.css"):
        assert "//" not in client.get(path).text.replace("http://www.w3.org", "").replace("// ", "")


def test_limits_are_checked_when_set():
    with pytest.raises(ValueError, match="Limits: max_batch must be"):
        Limits(max_batch=0)


def test_an_empty_key_is_refused():
    with pytest.raises(ValueError, match="api_key must not be empty"):
        create_app(FakeTagger(), api_key=" ")


def test_answers_say_how_many_words_the_model_knows(client) -> None:
    assert client.post("/api/tag", json={"text": "a web server"}).json()["known_words"] == 2
    assert client.post("/api/tag", json={"text": "xyzzy"}).json()["known_words"] == 0
    answer = client.post("/api/tag-batch", json={"texts": ["xyzzy", "mail"]}).json()
    assert answer["known_words"] == [0, 1]
