"""The unmodified Annif package uses a served model through its http backend."""

import pytest

import longtail as lt
from tests.clients.annif_runner import ANNIF, command, read_metrics, run_annif
from tests.serve.service import serving

WORDS = {"server": "web server", "mail": "mail reader", "music": "music player"}
PROJECT = "[tags]\nname=tags\nlanguage=en\nbackend=http\nvocab=topics\nendpoint={url}/v1/projects/tags/suggest\n"

pytestmark = pytest.mark.skipif(ANNIF is None, reason="Annif is not installed; run `make clients-test`")


def uri(name: str) -> str:
    return f"http://example.org/{name}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model whose labels are URIs, their vocabulary, and three documents with their subjects."""
    folder = tmp_path_factory.mktemp("annif")
    starts = ("a small", "a big", "the small", "the big")
    texts = [f"{start} {words}" for start in starts for words in WORDS.values()]
    labels = [[uri(name)] for _ in starts for name in WORDS]
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    lt.save(tagger.calibrate(texts, labels), folder / "tags.model")
    (folder / "topics.tsv").write_text("".join(f"<{uri(name)}>\t{name}\n" for name in WORDS))
    (folder / "documents").mkdir()
    for name, words in WORDS.items():
        (folder / "documents" / f"{name}.txt").write_text(f"a tiny {words}")
        (folder / "documents" / f"{name}.tsv").write_text(f"<{uri(name)}>\t{name}\n")
    return folder


def test_annif_suggests_and_evaluates_with_a_served_model(folder):
    with serving(folder / "tags.model") as service:
        (folder / "projects.cfg").write_text(PROJECT.format(url=service.url))
        load, projects, suggested, evaluated = run_annif(
            folder,
            command("load-vocab", "topics", "topics.tsv", "--language", "en"),
            command("list-projects"),
            command("suggest", "tags", text="a nice web server"),
            command("eval", "tags", "documents", "--jobs", "1"),
        )
    assert load["code"] == 0, load["errors"]
    assert "True" in projects["output"], "the project is trained"
    assert suggested["output"].startswith(f"<{uri('server')}>\tserver\t")
    assert read_metrics(evaluated["output"])["Precision@1"] == 1
