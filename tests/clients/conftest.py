"""A small model that all clients use."""

import pytest

import longtail as lt

WORDS = {"net": "web server", "mail": "mail reader", "music": "music player"}


@pytest.fixture(scope="session")
def tagger():
    """A tagger with three labels."""
    starts = ("a small", "a big", "the small", "the big")
    texts = [f"{start} {words}" for start in starts for words in WORDS.values()]
    labels = [[name] for _ in starts for name in WORDS]
    return lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels)


@pytest.fixture(scope="session")
def model(tagger, tmp_path_factory):
    """The path of the saved tagger."""
    path = tmp_path_factory.mktemp("clients") / "tags.model"
    lt.save(tagger, path)
    return path
