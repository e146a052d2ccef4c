"""The unmodified Annif package uses a served model through its http backend."""

import pytest

import longtail as lt
from tests.clients.annif_runner import ANNIF, command, read_metrics, run_annif, uri, write_corpus
from tests.serve.service import serving

N_TRAIN, N_TEST = 1500, 60
PROJECT = (
    "[tags]\nname=tags\nlanguage=en\nbackend=http\nvocab=topics\nlimit=5\nendpoint={url}/v1/projects/tags/suggest\n"
)

pytestmark = pytest.mark.skipif(ANNIF is None, reason="Annif is not installed; run `make clients-test`")


@pytest.fixture(scope="module")
def tagger():
    """A model of the shipped sample whose labels are URIs, as in Annif's vocabularies."""
    sample = lt.datasets.load_sample()
    labels = [[uri(name) for name in names] for names in sample.train_labels[:N_TRAIN]]
    return lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(sample.train_texts[:N_TRAIN], labels)


def test_annif_suggests_and_evaluates_with_a_served_model(tagger, tmp_path):
    write_corpus(tmp_path, n_train=N_TRAIN, n_test=N_TEST)
    lt.save(tagger, tmp_path / "tags.model")
    sample = lt.datasets.load_sample()
    text = "a small web server for static files"
    with serving(tmp_path / "tags.model", key="sesame") as service:
        url = service.url.replace("://", "://annif:sesame@")
        (tmp_path / "projects.cfg").write_text(PROJECT.format(url=url))
        load, projects, suggested, evaluated = run_annif(
            tmp_path,
            command("load-vocab", "topics", "vocab.tsv", "--language", "en"),
            command("list-projects"),
            command("suggest", "tags", text=text),
            command("eval", "tags", "test.tsv", "--jobs", "1"),
        )
    assert load["code"] == 0, load["errors"]
    assert "True" in projects["output"], "the project is trained"
    suggestions = [line.split("\t")[0].strip("<>") for line in suggested["output"].splitlines()]
    assert suggestions == [tag.label for tag in tagger.tag([text], top_k=5)[0]]
    ours = [[tag.label for tag in tags] for tags in tagger.tag(sample.test_texts[:N_TEST], top_k=5)]
    hits = sum(uri(name) in found for found, names in zip(ours, sample.test_labels, strict=False) for name in names)
    assert read_metrics(evaluated["output"])["Precision@5"] == pytest.approx(hits / (5 * N_TEST), abs=0.01)
