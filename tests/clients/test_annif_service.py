"""The unmodified Annif package uses a served model through its http backend.

Annif pins versions that do not fit this environment: install it into one of its own and set LONGTAIL_ANNIF to the
path of its `annif` command.
"""

import os
import shutil
import subprocess

import pytest

import longtail as lt
from tests.serve.service import serving

ANNIF = os.environ.get("LONGTAIL_ANNIF") or shutil.which("annif")
WORDS = {"server": "web server", "mail": "mail reader", "music": "music player"}
PROJECT = "[tags]\nname=tags\nlanguage=en\nbackend=http\nvocab=topics\nendpoint={url}/v1/projects/tags/suggest\n"

pytestmark = pytest.mark.skipif(ANNIF is None, reason="Annif is not installed; set LONGTAIL_ANNIF to its command")


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
    def annif(*arguments: str, text: str | None = None) -> str:
        done = subprocess.run(
            [str(ANNIF), *arguments], cwd=folder, input=text, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    with serving(folder / "tags.model") as service:
        (folder / "projects.cfg").write_text(PROJECT.format(url=service.url))
        annif("load-vocab", "topics", "topics.tsv", "--language", "en")
        assert "True" in annif("list-projects"), "the project is trained"
        assert annif("suggest", "tags", text="a nice web server").startswith(f"<{uri('server')}>\tserver\t")
        results = dict(line.split(":") for line in annif("eval", "tags", "documents").splitlines() if ":" in line)
        assert float(results["F1@5"]) == 1
