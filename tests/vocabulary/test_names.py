"""Names of labels in commands, in the service and in the report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import longtail as lt
from longtail.serve import create_app
from longtail.tagging.vocabulary_tags import tag_with_vocabulary
from tests.cli.test_commands import longtail
from tests.vocabulary.test_vocabulary import ANIMALS, tagger

HELD_OUT = [("a cat", ["c"]), ("the dog", ["d"]), ("cat food", []), ("an animal", ["a"]), ("dog food", [])]


def named_tagger(folder: Path) -> lt.Tagger:
    (folder / "v.csv").write_text(ANIMALS, encoding="utf-8")
    texts, labels = zip(*HELD_OUT, strict=True)
    return tagger().set_vocabulary(lt.read_vocabulary(folder / "v.csv"), list(texts), list(labels))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    lt.save(named_tagger(tmp_path), tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(named_tagger(tmp_path), language="fi")) as client:
        yield client


def labels(client: TestClient, **body: Any) -> list[tuple[str, str]]:
    answer = client.post("/api/tag", json={"text": "my kitten", **body})
    assert answer.status_code == 200, answer.text
    return [(row["label"], row["name"]) for row in answer.json()["labels"]]


def test_json_has_the_label_and_its_name(model: Path) -> None:
    found = json.loads(longtail("tag", model, "my kitten", "--json", "--language", "fi", "--top-k", "2").stdout)
    assert {(row["label"], row["name"]) for row in found["labels"]} == {("a", "eläin"), ("c", "kissa")}


def test_every_command_shows_names(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"text": "my kitten", "labels": ["c", "a"]}) + "\n")
    predicted = longtail("predict", model, data, "--language", "fi").stdout
    assert {cell.split(":")[0] for cell in predicted.split("\t")} == {"kissa", "eläin", "koira"}
    row = json.loads(longtail("predict", model, data, "--language", "fi", "--json").stdout)
    assert dict(zip(row["labels"], row["names"], strict=True)) == {"c": "kissa", "a": "eläin", "d": "koira"}
    assert "kissa: score" in longtail("explain", model, "my kitten", "--label", "tomcat", "--language", "fi").stdout
    explained = json.loads(longtail("explain", model, "my kitten", "--label", "cat", "--json").stdout)
    assert (explained["label"], explained["name"]) == ("c", "cat")
    listed = longtail("labels", model, "--language", "fi").stdout
    assert [line.split()[1:] for line in listed.splitlines()] == [["a", "eläin"], ["c", "kissa"], ["d", "koira"]]
    assert json.loads(longtail("labels", model, "--json").stdout.splitlines()[0])["name"] == "animal"
    assert "kissa" in longtail("queue", model, data, "--language", "fi").stdout
    queued = json.loads(longtail("queue", model, data, "--json").stdout)
    assert {row["label"]: row["name"] for row in queued["proposed"]}["c"] == "cat"


def test_the_report_shows_names(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps({"text": f"kitten {i}", "labels": ["c", "a"]}) + "\n" for i in range(30)))
    longtail("report", model, data, "-o", tmp_path / "report.html", "--language", "fi")
    assert "eläin" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_service_has_a_language_of_its_own(client: TestClient) -> None:
    assert set(labels(client, top_k=2)) == {("c", "kissa"), ("a", "eläin")}
    assert set(labels(client, top_k=2, language="en")) == {("c", "cat"), ("a", "animal")}
    described = client.get("/api/model").json()
    assert (described["languages"], described["language"], described["unseen"]) == (["en", "fi"], "fi", True)
    explained = client.post("/api/explain", json={"text": "my kitten", "label": "c", "language": "en"}).json()
    assert (explained["label"], explained["name"]) == ("c", "cat")


def test_labels_are_found_by_any_of_their_names(client: TestClient) -> None:
    def found(query: str, **more: Any) -> dict[str, Any]:
        return dict(client.get("/api/labels", params={"query": query, **more}).json())

    assert found("tomc") == {"labels": ["c"], "counts": [3], "names": ["kissa"], "exact": None}
    assert found("Tomcat")["exact"] == "c"
    assert found("koi")["labels"] == ["d"]
    assert found("sheepdog")["labels"] == []
    unseen = found("sheepdog", unseen=True)
    assert (unseen["labels"], unseen["counts"], unseen["exact"]) == (["s"], [0], "s")
    assert found("unicorn", unseen=True)["labels"] == []  # retired
    assert found("unicorn")["exact"] == "u"


def test_the_tree_is_listed(client: TestClient) -> None:
    [root] = client.get("/api/tree").json()["rows"]
    assert root == {"label": "a", "name": "eläin", "count": 9, "n_below": 4}
    below = client.get("/api/tree", params={"below": "a", "language": "en"}).json()
    assert [(row["label"], row["name"], row["n_below"]) for row in below["rows"]] == [("c", "cat", 0), ("d", "dog", 1)]
    assert client.get("/api/tree", params={"below": "nosuch"}).status_code == 422


def test_the_service_ranks_below_a_label_and_proposes_unseen_ones(client: TestClient) -> None:
    assert [label for label, _ in labels(client, below="cat")] == ["c"]
    assert ("s", "sheepdog") in labels(client, text="my sheepdog", unseen=True)
    assert [label for label, _ in labels(client, text="my sheepdog", unseen=True, below="s")] == ["s"]
    assert len(labels(client, text="my sheepdog", unseen=True, top_k=1)) == 1
    refused = client.post("/api/tag", json={"text": "x", "below": "nosuch"})
    assert refused.status_code == 422
    assert "there is no concept 'nosuch'" in refused.json()["error"]


def test_unseen_labels_obey_what_was_asked_for(tmp_path: Path) -> None:
    named = named_tagger(tmp_path)
    text = ["my sheepdog"]

    def found(**choice: Any) -> list[str]:
        choice = {"top_k": 5, **choice}
        return [tag.label for tag in tag_with_vocabulary(named, text, unseen=True, **choice)[0]]

    assert "s" in found()
    assert len(found(top_k=1)) == 1
    assert "s" not in found(threshold=1.0)
    assert "s" not in found(exclude=["s"])
    assert found(include=["c"]) == ["c"]
    assert found(below="dog")[0] in ("d", "s")
    assert set(found(below="dog")) == {"d", "s"}
    named.block(["c"])
    assert "c" not in found()


def test_parents_are_proposed() -> None:
    texts = [f"{start} {word}" for start in ("a", "the", "my", "one") for word in ("pet",) * 4 + ("stone",)]
    labels = [["c"], ["d"], ["e"], ["f"], ["x"]] * 4
    made = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels).calibrate(texts, labels)
    animal = lt.Concept(id="a", names={"en": "animal"})
    made.set_vocabulary(lt.Vocabulary([animal, *(lt.Concept(id=name, parents=["a"]) for name in "cdef")]))
    rows = tag_with_vocabulary(made, ["a pet", "a stone"], 5, parents=True)
    assert rows[0][0].label == "a"
    assert "a" not in {tag.label for tag in rows[1]}
    with pytest.raises(ValueError, match="need a vocabulary"):
        tag_with_vocabulary(made.set_vocabulary(None), ["a pet"], 5, parents=True)
