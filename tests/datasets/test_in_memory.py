"""Texts and labels as users hold them in memory, with the real libraries where they are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

import longtail as lt
from longtail.datasets import texts_and_labels
from longtail.tagging.label_names import encode_labels

TEXTS = ["a web server", "a game"]
LABELS = [["net", "server"], ["fun"]]


def same(*arguments: Any, **named: Any) -> None:
    data = texts_and_labels(*arguments, **named)
    assert (data.texts, data.labels) == (TEXTS, LABELS)
    assert all(type(name) is str for names in data.labels for name in names)


def test_plain_sequences_and_generators() -> None:
    same(TEXTS, LABELS)
    same(tuple(TEXTS), np.array([np.array(names) for names in LABELS], dtype=object))
    same((text for text in TEXTS), (names for names in LABELS))
    same(np.array(TEXTS), [set(LABELS[1]) if i else tuple(LABELS[0]) for i in range(2)])
    assert texts_and_labels(TEXTS, LABELS).understood == "2 texts, 3 labels"


def test_records_and_columns() -> None:
    rows = [{"text": text, "labels": names, "more": 1} for text, names in zip(TEXTS, LABELS, strict=True)]
    same(rows)
    same(row for row in rows)
    same({"text": TEXTS, "labels": LABELS})
    same(
        [{"body": row["text"], "tags": ";".join(row["labels"])} for row in rows],
        "tags",
        text_column="body",
        label_separator=";",
    )
    with pytest.raises(ValueError, match=r"Tagger: text 0: expected an object .* with the key 'body', got text"):
        texts_and_labels(rows, text_column="body")


def test_pandas_frames() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXTS, "labels": LABELS, "title": ["x", None]})
    same(frame)
    same(frame["text"], frame["labels"])
    same(frame[["text"]], frame["labels"])
    same(frame[["text"]].rename(columns={"text": "body"}), LABELS)
    same(frame.rename(columns={"text": "body", "labels": "tags"}), text_column="body", label_column="tags")
    same(frame["text"], pandas.DataFrame({"fun": [0, 1], "net": [1, 0], "server": [True, False]}))
    assert texts_and_labels(frame, text_column=["title", "text"]).texts == ["x\na web server", "a game"]
    assert texts_and_labels(frame).understood == "2 texts from column 'text', 3 labels from column 'labels'"
    assert texts_and_labels(frame["text"], pandas.Series(["net", None])).labels == [["net"], []]
    with pytest.raises(ValueError, match=r"no column 'body' for the text; pass text_column=… for one of text, labels"):
        texts_and_labels(frame, text_column="body")
    with pytest.raises(
        TypeError, match=r"text 1 must be a str, got None; fill missing texts with '' or drop|got nan; fill"
    ):
        texts_and_labels(frame["title"], LABELS)
    with pytest.raises(ValueError, match="no text has a label; there is no column 'labels'"):
        texts_and_labels(frame[["text", "title"]]).require_labels()


def test_polars_frames() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"text": TEXTS, "labels": LABELS})
    same(frame.lazy())
    same(frame)
    same(frame["text"], frame["labels"])
    same(frame.select("text"), LABELS)
    same(frame.rename({"text": "body"}), text_column="body")
    same(TEXTS, polars.DataFrame({"fun": [0, 1], "net": [1, 0], "server": [1, 0]}))


def test_arrow_tables() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"text": TEXTS, "labels": LABELS})
    same(table)
    same(table["text"], table["labels"])
    same(table.to_batches()[0])
    same(table.to_reader())
    same(table.select(["text"]).to_reader(), LABELS)


class ArrowStream:
    """Has Arrow's C stream interface and nothing else, as the results of database drivers do."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_arrow_streams() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"body": TEXTS, "labels": LABELS})
    same(ArrowStream(table), text_column="body")
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(ArrowStream(table), text_column="body")
    assert tagger.tag(ArrowStream(table.select(["body"]))) == tagger.tag(TEXTS)


def test_hugging_face_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_dict({"text": TEXTS, "labels": LABELS})
    same(dataset)
    same(dataset["text"], dataset["labels"])
    with pytest.raises(TypeError, match=r"got a dataset of train; choose one split, such as dataset\['train'\]"):
        texts_and_labels(datasets.DatasetDict({"train": dataset}))
    classes = datasets.ClassLabel(names=["ham", "spam"])
    features = datasets.Features({"text": datasets.Value("string"), "label": classes})
    named = datasets.Dataset.from_dict({"text": [*TEXTS, "c"], "label": [1, 0, -1]}, features=features)
    assert texts_and_labels(named).labels == [["spam"], ["ham"], []]


class _ClassLabel:
    names = ("ham", "spam")


class _Sequence:
    feature = _ClassLabel()


class FakeDataset:
    """Has what a Hugging Face dataset has, as far as it is used."""

    column_names = ("text", "labels")
    features = {"text": object(), "labels": _Sequence()}  # noqa: RUF012

    def __getitem__(self, name: str) -> Any:
        return {"text": TEXTS, "labels": [[1, 0], [1]]}[name]


def test_numbers_of_named_classes_become_their_names() -> None:
    assert texts_and_labels(FakeDataset()).labels == [["spam", "ham"], ["spam"]]


def test_matrices_of_zeros_and_ones() -> None:
    from sklearn.preprocessing import MultiLabelBinarizer

    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform(LABELS)
    expected = [sorted(names) for names in LABELS]
    for matrix in (Y, csr_array(Y), csr_matrix(Y), Y.astype(bool), Y.astype(float), Y.tolist(), csr_array(Y).tocsc()):
        assert texts_and_labels(TEXTS, matrix, label_names=binarizer.classes_).labels == expected
    assert texts_and_labels(TEXTS, Y).labels == [["1", "2"], ["0"]]
    stored_zero = csr_array((np.array([0.0, 1.0]), [0, 1], [0, 1, 2]), shape=(2, 2))
    assert texts_and_labels(TEXTS, stored_zero, label_names=["x", "y"]).labels == [[], ["y"]]


def test_single_labels_and_numbers() -> None:
    assert texts_and_labels(TEXTS, ["net", "fun"]).labels == [["net"], ["fun"]]
    assert texts_and_labels(TEXTS, np.array([3, 5])).labels == [["3"], ["5"]]
    assert texts_and_labels(TEXTS, [[3, 5], np.int64(7)]).labels == [["3", "5"], ["7"]]
    assert texts_and_labels(TEXTS, ["net; www", "fun"], label_separator=";").labels == [["net", "www"], ["fun"]]
    names, Y = encode_labels(["b", "a"])
    assert (names, Y.toarray().tolist()) == (["a", "b"], [[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("arguments", "named", "error", "message"),
    [
        (("one text", LABELS), {}, TypeError, r"got one str; put it into a list: \[text\] \(.*read_text reads files"),
        ((TEXTS, "labels"), {}, TypeError, "columns are named, but texts is a list, which has none"),
        ((TEXTS, LABELS[:1]), {}, ValueError, "got 2 texts but 1 list of labels; give one list of labels per text"),
        ((7, LABELS), {}, TypeError, "texts must be a list, got int"),
        (([1], [["a"]]), {}, TypeError, "text 0 must be a str, got 1"),
        ((TEXTS, ["a,b", "c"]), {}, ValueError, r"labels hold ',' \(.*the labels of text 0: 'a,b'\); pass label_sep"),
        ((TEXTS, [["a"], [0.5]]), {}, ValueError, "the labels of text 1: labels must be text or whole numbers, got fl"),
        ((TEXTS, [[True], []]), {}, ValueError, "labels must be text or whole numbers, got bool"),
        ((TEXTS, np.array([[2, 0], [0, 1]])), {}, ValueError, "labels as a matrix must hold 0 and 1, got 2"),
        ((TEXTS, np.eye(2)), {"label_names": ["a"]}, ValueError, "one name per column, got 1 for 2"),
        ((TEXTS, np.eye(2)), {"label_names": ["a", "a"]}, ValueError, "label_names must differ"),
        ((TEXTS, [[0, 0, 1], [1, 0, 0]]), {}, ValueError, "look like a 0/1 matrix written as lists; pass label_names="),
        ((np.array([TEXTS, TEXTS]), LABELS), {}, TypeError, "text 0 must be a str"),
        (({"a": TEXTS, "b": TEXTS}, LABELS), {}, ValueError, "no column 'text' for the text; pass text_column=…"),
    ],
)
def test_what_cannot_be_understood_is_explained(arguments: Any, named: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        texts_and_labels(*arguments, **named)


def test_a_name_must_be_unicode_and_empty_input_is_fine() -> None:
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        texts_and_labels(["a"], [["\ud800"]])
    assert texts_and_labels([], []) == ([], [])
    assert texts_and_labels(iter([]), iter([])) == ([], [])
