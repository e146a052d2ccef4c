"""The spaCy component, found by its entry point."""

import pytest

import longtail as lt

spacy = pytest.importorskip("spacy", reason="spaCy is not installed; run `make clients-test`")


@pytest.fixture
def nlp(model):
    nlp = spacy.blank("en")
    nlp.add_pipe("longtail", config={"model": str(model), "top_k": 2})
    return nlp


def test_labels_are_in_doc_cats(nlp, tagger):
    cats = nlp("a small web server").cats
    assert max(cats, key=cats.get) == "net"
    assert cats == {tag.label: tag.unit_score for tag in tagger.tag(["a small web server"], 2)[0]}


def test_pipe_gives_the_same_as_one_by_one(nlp):
    texts = ["a web server", "", "the music player"] * 100
    assert [doc.cats for doc in nlp.pipe(texts)] == [nlp(text).cats for text in texts]


def test_cats_of_other_components_stay(nlp):
    doc = nlp.make_doc("a web server")
    doc.cats = {"other": 0.5}
    assert nlp(doc).cats["other"] == 0.5


def test_a_saved_pipeline_holds_its_model(nlp, tmp_path):
    nlp.to_disk(tmp_path / "pipeline")
    nlp.to_disk(tmp_path / "pipeline")  # over the old one
    loaded = spacy.load(tmp_path / "pipeline", config={"components.longtail.model": None})
    assert loaded("a web server").cats == nlp("a web server").cats


def test_a_pipeline_in_bytes_does_not_lose_its_model_silently(nlp):
    with pytest.raises(NotImplementedError, match="save the pipeline with nlp"):
        nlp.to_bytes()
    assert nlp.to_bytes(exclude=["longtail"])


def test_a_threshold_of_a_calibrated_model(tagger, tmp_path):
    texts = ["a web server", "a mail reader", "music"] * 4
    lt.save(tagger.with_threads(1).calibrate(texts, [["net"], ["mail"], ["music"]] * 4), tmp_path / "calibrated.model")
    nlp = spacy.blank("en")
    nlp.add_pipe("longtail", config={"model": str(tmp_path / "calibrated.model"), "threshold": 0.5})
    assert list(nlp("a web server").cats) == ["net"]


def test_a_component_without_a_model_says_so():
    nlp = spacy.blank("en")
    nlp.add_pipe("longtail")
    with pytest.raises(ValueError, match="model must be the path of a saved Tagger"):
        nlp("a web server")
