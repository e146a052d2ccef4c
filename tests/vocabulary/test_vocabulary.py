"""Names, parents and labels without examples."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import longtail as lt
from tests.cli.test_commands import longtail

ANIMALS = """id,name@en,name@fi,alternatives@en,parents,note,retired
a,animal,eläin,,,all of them,
c,cat,kissa,tomcat|pussy,a,,
d,dog,koira,hound,a,,
s,sheepdog,,,d,,
u,unicorn,,,a,,yes
"""


@pytest.fixture
def animals(tmp_path: Path) -> lt.Vocabulary:
    path = tmp_path / "animals.csv"
    path.write_text(ANIMALS)
    return lt.read_vocabulary(path)


def tagger() -> lt.Tagger:
    texts = [f"{start} {word}" for start in ("a small", "the big", "my old") for word in ("kitten", "puppy", "cow")]
    labels = [["c", "a"], ["d", "a"], ["a"]] * 3
    return lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels).calibrate(texts, labels)


def test_tables_are_read(animals: lt.Vocabulary) -> None:
    assert len(animals) == 5
    assert animals["c"] == lt.Concept(
        id="c", names={"en": "cat", "fi": "kissa"}, alternatives={"en": ["tomcat", "pussy"]}, parents=["a"]
    )
    assert animals.languages == ["en", "fi"]
    assert animals.retired == {"u"}
    assert animals.name("s", "fi") == "sheepdog"
    assert animals.name("nosuch") == "nosuch"
    assert animals.find("HOUND") == "d"
    assert animals.find("nosuch") is None


def test_the_tree_is_walked(animals: lt.Vocabulary) -> None:
    assert animals.below("d") == {"d", "s"}
    assert animals.children("a") == ["c", "d", "u"]
    assert animals.roots() == ["a"]
    assert animals.group(["s", "c", "x"]) == {"a": ["s", "c"], "x": ["x"]}


def test_circles_end() -> None:
    circle = lt.Vocabulary([lt.Concept(id="1", parents=["2"]), lt.Concept(id="2", parents=["1"])])
    assert circle.below("1") == {"1", "2"}
    assert circle.group(["1"]) == {"2": ["1"]}


def test_a_parent_is_proposed_when_its_children_share_the_probability(animals: lt.Vocabulary) -> None:
    tags = [lt.Tag("c", 0.1, 0.4), lt.Tag("d", 0.1, 0.35)]
    added = animals.with_parents(tags, threshold=0.5)[0]
    assert (added.label, added.proba) == ("a", pytest.approx(1 - 0.6 * 0.65))
    assert animals.with_parents(tags[:1], threshold=0.3) == tags[:1]
    assert animals.with_parents([*tags, lt.Tag("a", 0.0, 0.2)])[0].label == "c"
    with pytest.raises(ValueError, match="calibrate the tagger first"):
        animals.with_parents([lt.Tag("c", 0.1, None)])


def test_changes_make_a_new_vocabulary(animals: lt.Vocabulary) -> None:
    changed = animals.rename("c", "house cat", "en").retire("d")
    assert changed.name("c", "en") == "house cat"
    assert changed.find("cat") == "c"
    assert changed.retired == {"u", "d"}
    assert animals.name("c", "en") == "cat"
    with pytest.raises(ValueError, match="there is no concept 'x'"):
        animals.retire("x")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.csv", "name\nx\n", "one of them id"),
        ("v.csv", "id,nmae\n1,x\n", "column 'nmae' is not known"),
        ("v.csv", "id,name\n1\n", "line 2: must have 2 cells, got 1"),
        ("v.csv", "id\n1\n1\n", "ids must differ, got '1' twice"),
        ("v.txt", "", "must end in one of"),
        ("v.tsv", "<a>\tx\nb\ty\n", "line 2: must begin with <URI>"),
    ],
)
def test_mistakes_in_files_are_named(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        lt.read_vocabulary(tmp_path / name)


def test_annif_vocabularies_are_read(tmp_path: Path) -> None:
    (tmp_path / "v.tsv").write_text("<http://x/1>\tcats\n<http://x/2>\tdogs\n")
    assert lt.read_vocabulary(tmp_path / "v.tsv").name("http://x/2") == "dogs"


TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
<http://x/a> a skos:Concept ; skos:prefLabel "animal"@en, "eläin"@fi ; skos:narrower <http://x/d> .
<http://x/c> a skos:Concept ; skos:prefLabel "cat"@en ; skos:altLabel "tomcat"@en ; skos:broader <http://x/a> ;
    skos:scopeNote "pets"@en .
<http://x/d> a skos:Concept ; skos:prefLabel "dog"@en ; owl:deprecated true .
"""


@pytest.mark.parametrize("ending", ["ttl", "rdf", "jsonld"])
def test_skos_is_read(tmp_path: Path, ending: str) -> None:
    rdflib = pytest.importorskip("rdflib")
    forms = {"ttl": "turtle", "rdf": "xml", "jsonld": "json-ld"}
    graph = rdflib.Graph().parse(data=TURTLE, format="turtle")
    path = tmp_path / f"v.{ending}"
    graph.serialize(path, format=forms[ending])
    found = lt.read_vocabulary(path)
    assert found["http://x/c"] == lt.Concept(
        id="http://x/c",
        names={"en": "cat"},
        alternatives={"en": ["tomcat"]},
        parents=["http://x/a"],
        note="pets",
    )
    assert found.below("http://x/a") == {"http://x/a", "http://x/c", "http://x/d"}
    assert found.retired == {"http://x/d"}
    path.write_text("{ nonsense <")
    with pytest.raises(ValueError, match="is not valid"):
        lt.read_vocabulary(path)


def test_contexts_are_not_fetched(tmp_path: Path) -> None:
    pytest.importorskip("rdflib")
    (tmp_path / "v.jsonld").write_text(json.dumps({"@graph": [{"@context": "http://example.org/context"}]}))
    with pytest.raises(ValueError, match="@context must be in the file itself"):
        lt.read_vocabulary(tmp_path / "v.jsonld")


def test_a_vocabulary_is_saved_with_the_model(tmp_path: Path, animals: lt.Vocabulary) -> None:
    model = tagger().set_vocabulary(animals)
    lt.save(model, tmp_path / "m")
    loaded = lt.load(tmp_path / "m", verify=True)
    assert list(loaded.vocabulary_) == list(animals)
    loaded.learn(["a tiger"], [["c"]])
    assert loaded.vocabulary_ is not None


def test_retired_labels_are_never_proposed(animals: lt.Vocabulary) -> None:
    model = tagger().set_vocabulary(animals.retire("c"))
    assert "c" not in {tag.label for tag in model.tag(["a small kitten"], top_k=5)[0]}


def test_labels_without_examples_are_proposed_by_name(animals: lt.Vocabulary) -> None:
    texts = ["a cat", "the tomcat", "a dog", "one hound", "my animal", "some cow", "cat food", "dog food"]
    labels = [["c"], ["c"], ["d"], ["d"], ["a"], ["a"], [], []]
    model = tagger().set_vocabulary(animals, texts, labels)
    (found, nothing) = model.tag_unseen(["two sheepdogs and a sheepdog", "unicorn"])
    assert [tag.label for tag in found] == ["s"]
    assert 0.3 < found[0].proba < 1
    assert nothing == []  # retired
    assert model.tag_unseen(["a sheepdog"], threshold=1.0) == [[]]
    with pytest.raises(ValueError, match="tag_unseen needs set_vocabulary"):
        tagger().tag_unseen(["x"])
    with pytest.raises(ValueError, match="no label of the tagger is in the vocabulary"):
        tagger().set_vocabulary(lt.Vocabulary([lt.Concept(id="z")]), texts, labels)


def test_the_commands_show_names(tmp_path: Path) -> None:
    lt.save(tagger(), tmp_path / "m")
    (tmp_path / "v.csv").write_text(ANIMALS)
    held_out = tmp_path / "held_out.jsonl"
    rows = [("a cat", ["c"]), ("the dog", ["d"]), ("cat food", []), ("an animal", ["a"]), ("dog food", [])]
    held_out.write_text("".join(json.dumps({"text": text, "labels": names}) + "\n" for text, names in rows))
    answer = longtail("tag", tmp_path / "m", "kitten", "--language", "fi", ok=False)
    assert "has no vocabulary: run longtail vocabulary" in answer.stderr
    printed = longtail("vocabulary", tmp_path / "m", tmp_path / "v.csv", "--data", held_out).stdout
    assert printed.startswith("5 concepts in en, fi; 3 of 3 labels are among them; 1 retired")
    tagged = longtail("tag", tmp_path / "m", "my kitten", "--language", "fi", "--below", "cat").stdout
    assert [line.split()[-1] for line in tagged.splitlines()] == ["kissa"]
    unseen = longtail("tag", tmp_path / "m", "my sheepdog", "--unseen", "--json").stdout
    assert ("s", "sheepdog") in {(row["label"], row["name"]) for row in json.loads(unseen)["labels"]}
    longtail("vocabulary", tmp_path / "m", "--rename", "c", "house cat", "--language", "en", "--retire", "d")
    assert lt.load(tmp_path / "m").vocabulary_.name("c", "en") == "house cat"
    assert json.loads(longtail("vocabulary", tmp_path / "m", "--json").stdout)["n_retired"] == 2
    longtail("vocabulary", tmp_path / "m", "--restore", "d")
    assert lt.load(tmp_path / "m").vocabulary_.retired == {"u"}
