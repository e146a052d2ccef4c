"""Dense columns beside tf-idf: by name, saved by name, and from a table that a package carries."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail.tagging.embeddings import WordVectors, embed, read_table, register_embedding

TEXTS = ["web server", "web page", "fun game", "card game"] * 5
LABELS = [["net"], ["net"], ["fun"], ["fun"]] * 5


def lengths(texts: list[str]) -> list[list[float]]:
    return [[3.0 * len(text), 4.0 * len(text)] for text in texts]


register_embedding("lengths", lengths)


def test_dense_columns_stand_beside_the_words() -> None:
    vectorizer = lt.TextVectorizer(min_df=1, embedding="lengths", unit_rows=False, embedding_weight=2.0).fit(TEXTS)
    plain = lt.TextVectorizer(min_df=1, unit_rows=False).fit(TEXTS)
    X, words = vectorizer.transform(["web page", ""]), plain.transform(["web page", ""])
    n_words = words.shape[1]
    np.testing.assert_array_equal(X.toarray()[:, :n_words], words.toarray())
    np.testing.assert_allclose(X.toarray()[:, n_words:], [[1.2, 1.6], [0, 0]], rtol=1e-6)
    assert X.shape[1] == vectorizer.n_features_ == n_words + 2
    assert list(vectorizer.get_feature_names_out())[-1] == "lengths[1]"
    assert vectorizer.rows_without_words(vectorizer.transform(["web", "unknown"])).tolist() == [False, True]
    scaled = lt.TextVectorizer(min_df=1, embedding="lengths").fit_transform(TEXTS)
    np.testing.assert_allclose(np.sqrt((scaled.toarray() ** 2).sum(axis=1)), 1, rtol=1e-6)
    assert (X.indptr.dtype, X.indices.dtype, X.data.dtype) == (np.int32, np.int32, np.float32)


def test_a_tagger_with_an_embedding_is_saved_by_name_and_explained(tmp_path: Path) -> None:
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1, embedding="lengths")).fit(TEXTS, LABELS)
    expected = tagger.tag(["web card", "x"])
    lt.save(tagger, tmp_path / "model")
    loaded: Any = lt.load(tmp_path / "model")
    assert loaded.tag(["web card", "x"]) == expected
    assert loaded.explain("web card", "net").words


def test_names_that_are_not_known_say_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"'minilm'; call longtail\.tagging\.register_embedding\("):
        lt.TextVectorizer(embedding="minilm").fit(TEXTS)
    with pytest.raises(ValueError, match="name must be a new name, got 'wordllama'"):
        register_embedding("wordllama", lengths)
    with pytest.raises(TypeError, match="function must be callable"):
        register_embedding("x", 3)  # type: ignore[arg-type]
    for name, result in (("flat", [1.0]), ("nan", [[np.nan]])):
        register_embedding(name, lambda texts, result=result: result)  # type: ignore[misc]
        with pytest.raises(ValueError, match=r"must return one row per text|returned NaN"):
            embed(name, ["a"])
    monkeypatch.setattr("longtail.tagging.embeddings.find_spec", lambda name: None)
    from longtail.tagging.embeddings import _wordllama

    _wordllama.cache_clear()
    with pytest.raises(ImportError, match=r"pip install 'longtail\[embedding\]'"):
        lt.TextVectorizer(embedding="wordllama").fit(TEXTS)


def test_words_are_cut_by_the_merges_that_were_learnt_first() -> None:
    ids = {"▁": 0, "a": 1, "b": 2, "ab": 3, "▁ab": 4}
    vectors = WordVectors(np.eye(5, dtype=np.float32), ids, {("a", "b"): 0, ("▁", "ab"): 1})
    assert vectors.pieces("ab") == ["▁ab"]
    assert vectors.pieces("aab") == ["▁", "a", "ab"]
    assert vectors(["Ab, ab aab!", ""]).tolist() == [[1, 1, 0, 1, 2], [0, 0, 0, 0, 0]]


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table.safetensors"

    def write(entry: dict[str, Any], data: bytes) -> None:
        header = json.dumps({"t": entry}).encode()
        path.write_bytes(struct.pack("<Q", len(header)) + header + data)

    write({"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}, np.arange(4, dtype="<f2").tobytes())
    assert read_table(path, "t").tolist() == [[0, 1], [2, 3]]
    write({"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}, b"1234")
    with pytest.raises(ValueError, match="does not lie within the file"):
        read_table(path, "t")
    write({"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 8]}, bytes(8))
    with pytest.raises(ValueError, match="expected a float16 matrix 't'"):
        read_table(path, "t")
    path.write_bytes(b"\xff" * 20)
    with pytest.raises(ValueError, match="its header claims"):
        read_table(path, "t")


def test_the_table_in_wordllama_knows_that_cars_are_vehicles() -> None:
    from importlib.util import find_spec

    if find_spec("wordllama") is None:
        pytest.skip("wordllama is not installed")
    car, vehicle, poem = embed("wordllama", ["car", "vehicle", "poem"])
    assert car @ vehicle > 0.5 > car @ poem
