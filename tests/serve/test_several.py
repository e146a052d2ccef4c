"""Several models in one service, each with its own name, limits and key."""

import pytest
from fastapi.testclient import TestClient

import longtail as lt
from longtail.learning import learn_from_feedback, version_of
from longtail.serve import Limits, ModelSettings, Service, find_models
from tests.serve.fakes import FakeTagger
from tests.serve.models import learnt_tagger
from tests.serve.service import serving
from tests.serve.test_server import save_model

TEXT = {"text": "a web server", "top_k": 1}


@pytest.fixture
def client():
    service = Service(
        {
            "open": ModelSettings(source=FakeTagger(name="open")),
            "locked": ModelSettings(source=FakeTagger(name="locked"), api_key="sesame", limits=Limits(max_top_k=3)),
        }
    )
    with TestClient(service) as client:
        yield client


def test_each_model_has_its_own_address(client):
    assert client.get("/models/open/api/model").json()["card"]["name"] == "open"
    locked = client.get("/models/locked/api/model", headers={"x-api-key": "sesame"})
    assert locked.json()["card"]["name"] == "locked"
    assert client.post("/models/open/api/tag", json=TEXT).json()["labels"][0]["label"] == "network::server"


def test_the_first_model_is_also_at_the_root(client):
    assert client.get("/api/model").json()["card"]["name"] == "open"
    assert client.get("/").text.startswith("<!doctype html>")


def test_the_models_are_listed(client):
    entries = client.get("/models").json()["models"]
    assert [(entry["name"], entry["path"]) for entry in entries] == [
        ("open", "/models/open/"),
        ("locked", "/models/locked/"),
    ]


def test_keys_and_limits_belong_to_one_model(client):
    for path in ("api/model", "metrics", "openapi.json", "nosuch"):
        assert client.get(f"/models/locked/{path}").status_code == 401
    assert client.post("/v1/projects/locked/suggest", data={"text": "web"}).status_code == 401
    assert client.get("/models/locked/health").status_code == 200
    body = {"text": "web", "top_k": 4}
    assert client.post("/models/open/api/tag", json=body).status_code == 200
    answer = client.post("/models/locked/api/tag", json=body, headers={"x-api-key": "sesame"})
    assert answer.status_code == 422


def test_feedback_of_one_model_never_reaches_another(tmp_path):
    paths = {name: tmp_path / f"{name}.model" for name in ("first", "second")}
    for path in paths.values():
        lt.save(learnt_tagger(), path)
    service = Service({name: ModelSettings(source=path, feedback=True) for name, path in paths.items()})
    given = {"id": "1", "text": "a quux", "added": ["cave"], "author": "anna"}
    other = {"id": "1", "text": "a zork", "rejected": ["web::server"], "author": "anna"}
    with TestClient(service, client=("127.0.0.1", 1)) as client:
        assert client.post("/models/second/api/feedback", json=given).json() == {"id": "1", "stored": True}
        assert client.get("/api/feedback/count").json() == {"n_feedback": 0}
        assert client.post("/api/feedback", json=other).json() == {"id": "1", "stored": True}  # the first model's ids
        assert client.delete("/api/feedback?id=1").json() == {"n_deleted": 1}
        assert client.get("/models/first/api/feedback/count").json() == {"n_feedback": 0}
        assert client.get("/models/second/api/feedback/count").json() == {"n_feedback": 1}
    untouched = version_of(paths["first"])
    with pytest.raises(ValueError, match="no corrections to learn from"):
        learn_from_feedback(paths["first"])
    assert learn_from_feedback(paths["second"]).new_labels == ["cave"]
    assert version_of(paths["first"]) == untouched


def test_the_page_of_a_model_is_below_its_address(client):
    assert client.get("/models/open/").text.startswith("<!doctype html>")
    assert client.get("/models/open/app.js").status_code == 200
    assert client.get("/models/open", follow_redirects=False).headers["location"].endswith("/models/open/")


def test_unknown_models_are_not_found(client):
    for path in ("/models/nosuch/api/model", "/v1/projects/nosuch", "/models/"):
        assert client.get(path, follow_redirects=False).status_code in (307, 404)


def test_models_are_counted_apart(client):
    client.post("/models/open/api/tag", json=TEXT)
    assert "longtail_texts_total 1.0" in client.get("/models/open/metrics").text
    key = {"x-api-key": "sesame"}
    assert "longtail_texts_total 0.0" in client.get("/models/locked/metrics", headers=key).text


def test_models_are_named_by_path_name_or_folder(tmp_path):
    save_model(tmp_path / "b.model")
    save_model(tmp_path / "a.model")
    assert list(find_models([str(tmp_path / "b.model"), f"x={tmp_path / 'a.model'}"])) == ["b", "x"]
    assert find_models([str(tmp_path)]) == {"a": tmp_path / "a.model", "b": tmp_path / "b.model"}
    with pytest.raises(ValueError, match="have the same name 'b'"):
        find_models([str(tmp_path), str(tmp_path / "b.model")])
    with pytest.raises(ValueError, match="must be letters"):
        find_models([f"a/b={tmp_path / 'a.model'}"])
    with pytest.raises(ValueError, match="no such model"):
        find_models([str(tmp_path / "c.model")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="neither a model nor a folder"):
        find_models([str(tmp_path / "empty")])


def test_two_models_are_served_with_a_configuration(tmp_path):
    save_model(tmp_path / "a.model")
    save_model(tmp_path / "b.model", extra=("only b",))
    (tmp_path / "b.key").write_text("sesame\n")
    (tmp_path / "service.toml").write_text('[second]\nmodel = "b.model"\napi_key_file = "b.key"\nmax_top_k = 2\n')
    with serving(tmp_path / "a.model", "--config", str(tmp_path / "service.toml"), "--workers", "2") as service:
        assert [entry["name"] for entry in service.client.get("/models").json()["models"]] == ["a", "second"]
        assert service.client.post("/models/second/api/tag", json=TEXT).status_code == 401
        key = {"x-api-key": "sesame"}
        answer = service.client.post("/models/second/api/tag", json=TEXT, headers=key)
        assert answer.json()["labels"][0]["label"] == "only b"
        assert service.client.post("/models/second/api/reload", headers=key).status_code == 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a", "is not valid TOML"),
        ("a = 1", "must be a table with model"),
        ('[a]\nmodel = "a.model"\nmax_topk = 3', "has max_topk, which is neither"),
    ],
)
def test_mistakes_in_a_configuration_are_named(tmp_path, text, message):
    from longtail.cli.serve import _read_config

    (tmp_path / "service.toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        _read_config(tmp_path / "service.toml", Limits(), None)
