"""Texts and labels as users hold them: data frames, Arrow tables, dicts, generators, 0/1 matrices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np

from longtail._csr import csr_parts
from longtail._words import counted
from longtail.datasets._columns import Picked, Wanted
from longtail.datasets._label_cells import LabelCells, is_missing
from longtail.datasets._records import Records
from longtail.datasets.text_data import Described, Names, TextData, text_data

_OWNER = "Tagger"


def texts_and_labels(
    texts: Any,
    labels: Any = None,
    *,
    text_column: str | Sequence[str] | None = None,
    text_weights: Sequence[int] | Mapping[str, int] | None = None,
    label_column: str | None = None,
    label_separator: str | None = None,
    label_names: Sequence[Any] | None = None,
) -> TextData:
    """Bring texts and labels in memory into one form: a list of str and a list of lists of label names.

    Parameters
    ----------
    texts : list, array, Series, generator or Arrow array of str; or a table
        A table is a pandas or polars DataFrame, an Arrow table or record batch reader, anything else with an Arrow
        stream (``__arrow_c_stream__``, such as a DuckDB query), a Hugging Face dataset, a dict of columns, or any
        iterable of dicts; its columns ``text`` and ``labels`` are read.
    labels : list or other sequence with one entry per text, optional
        An entry is a list of names, one name, or numbers, which are kept as text; missing values mean no labels.
        Or a 0/1 matrix, dense or sparse or as a DataFrame, such as ``MultiLabelBinarizer`` returns. With a table as
        `texts`, also the name of a column; default: the column ``labels`` of the table.
    text_column, text_weights, label_column, label_separator
        As for `read_text`.
    label_names : sequence of str, optional
        The names of a matrix's columns, such as ``MultiLabelBinarizer.classes_``; default: those of the DataFrame, or
        the column numbers.

    Returns
    -------
    data : TextData

    Examples
    --------
    >>> import longtail as lt
    >>> rows = [{"text": "a web server", "labels": ["net"]}, {"text": "a game", "labels": "fun"}]
    >>> texts, labels = lt.datasets.texts_and_labels(rows)
    >>> texts, labels
    (['a web server', 'a game'], [['net'], ['fun']])
    >>> lt.datasets.texts_and_labels(["a", "b"], [[1, 0], [1, 1]], label_names=["x", "y"]).labels
    [['x'], ['x', 'y']]
    """
    if isinstance(texts, TextData) and labels is None:
        return texts
    if isinstance(labels, str):
        if label_column not in (None, labels):
            raise ValueError(f"{_OWNER}: labels={labels!r} and label_column={label_column!r} name two columns")
        label_column, labels = labels, None
    wanted = Wanted.of(text_column, text_weights, label_column, None, with_labels=labels is None)
    texts = _collected(texts)
    first, texts = _first_of(texts)
    if isinstance(first, Mapping):
        data = _from_records(texts, wanted, label_separator)
    elif (names := column_names(texts)) is not None:
        if text_column is None and "text" not in names and len(names) == 1 and text_weights is None:
            wanted = Wanted.of(str(names[0]), None, label_column, None, with_labels=labels is None)
        data = _from_table(texts, names, wanted, label_separator)
    elif label_column is not None or text_column is not None:
        raise TypeError(
            f"{_OWNER}: columns are named, but texts is a {type(texts).__name__}, which has none; give a data frame, "
            "a list of dicts or an Arrow table"
        )
    else:
        plain = text_list(texts)
        data = TextData(plain, [[] for _ in plain], without_labels=f"{_OWNER}: labels must be given beside the texts")
    if labels is None:
        return data
    found = label_lists(labels, label_names=label_names, label_separator=label_separator)
    if len(found) != len(data.texts):
        raise ValueError(
            f"{_OWNER}: got {counted(len(data.texts), 'text')} but {counted(len(found), 'list')} of labels; "
            "give one list of labels per text"
        )
    where = data.understood.partition(",")[0].partition(" from ")[2]
    how = Described(
        f"from {where}" if where else "", "", "give the names of at least one text", text_columns=data.text_columns
    )
    return text_data(_OWNER, data.texts, found, data.ids, how)


def is_table(texts: Any) -> bool:
    """Return whether texts come in a table of columns or a list of dicts."""
    return (
        is_stream(texts)
        or column_names(texts) is not None
        or (isinstance(texts, list | tuple) and len(texts) > 0 and isinstance(texts[0], Mapping))
    )


def text_list(texts: Any) -> list[str]:
    """Return texts as a list of str; a table must have one column."""
    if type(texts) is list and all(type(text) is str for text in texts):  # what nearly every caller passes
        return texts
    if isinstance(texts, str):
        raise TypeError(
            f"{_OWNER}: texts must be a list of str, got one str; put it into a list: [text] "
            "(longtail.datasets.read_text reads files)"
        )
    texts = _collected(texts)
    names = column_names(texts)
    if names is not None:
        if len(names) != 1:
            shown = ", ".join(map(str, names[:20]))
            raise TypeError(
                f"{_OWNER}: texts must be one column, got a table with the columns {shown or 'none'}; "
                "choose one, such as table['text']"
            )
        texts = column_values(texts, names[0])
    elif getattr(texts, "ndim", 1) == 2 and getattr(texts, "dtype", None) is not None and texts.shape[1] == 1:
        texts = texts[:, 0]
    values = as_list("texts", texts)
    for row_id, text in enumerate(values):
        if not isinstance(text, str):
            way = "; fill missing texts with '' or drop the rows" if is_missing(text) else ""
            raise TypeError(f"{_OWNER}: text {row_id} must be a str, got {text!r}{way}")
    return values


def label_lists(labels: Any, *, label_names: Sequence[Any] | None = None, label_separator: str | None = None) -> Names:
    """Return the label names of each row: of lists, single names, numbers, or a 0/1 matrix."""
    if isinstance(labels, str):
        raise TypeError(f"{_OWNER}: labels must be one list of names per text, got the str {labels!r}")
    if label_names is not None and isinstance(labels, list | tuple):
        with contextlib.suppress(ValueError):  # lists of different lengths: no matrix
            labels = np.asarray(labels)
    names = column_names(labels)
    if names is not None:
        return _of_table(labels, names, label_names, label_separator)
    if _is_matrix(labels):
        return _of_matrix(labels, label_names)
    if label_names is not None:
        raise TypeError(f"{_OWNER}: label_names go with a 0/1 matrix of labels, got {type(labels).__name__}")
    rows = as_list("labels", labels)
    _refuse_rows_of_a_matrix(rows)
    return _of_cells(rows, label_separator)


def matrix_columns(labels: Any, label_names: Sequence[Any] | None = None) -> list[str] | None:
    """Return the names of the columns of a 0/1 matrix; None for labels in any other form."""
    names = column_names(labels)
    if names is not None:
        if len(names) == 1 and label_names is None:
            return None
    elif _is_matrix(labels) or label_names is not None:
        names = list(range(labels.shape[1] if hasattr(labels, "shape") else len(labels[0])))
    return None if names is None else list(map(str, names if label_names is None else label_names))


def _is_matrix(labels: Any) -> bool:
    return hasattr(labels, "tocsr") or (getattr(labels, "ndim", 1) == 2 and np.asarray(labels).dtype.kind in "biuf")


def column_names(table: Any) -> list[Any] | None:
    """Return the names of a table's columns; None for what is no table."""
    if isinstance(table, Mapping):
        if table and all(hasattr(split, "column_names") for split in table.values()):
            raise TypeError(
                f"{_OWNER}: got a dataset of {', '.join(table)}; choose one split, such as dataset['train']"
            )
        return list(table)
    for attribute in ("column_names", "columns"):  # Arrow and Hugging Face; pandas and polars
        names = getattr(table, attribute, None)
        if names is not None and not callable(names):
            return list(names)
    return None


def column_values(table: Any, name: Any) -> list[Any]:
    """Return a column of a table as a list."""
    if hasattr(table, "to_batches") and hasattr(table, "column"):
        return list(table.column(name).to_pylist())
    return as_list(str(name), table[name])


def as_list(what: str, values: Any) -> list[Any]:
    """Return any one-dimensional collection or iterator as a list of Python values."""
    if type(values) is list:
        return values
    if getattr(values, "ndim", 1) == 2 and getattr(values, "dtype", np.dtype(object)).kind in "OUST":
        return [list(row) for row in values]
    if getattr(values, "ndim", 1) != 1:
        raise TypeError(f"{_OWNER}: {what} must have one entry per text, got an array of shape {values.shape}")
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"{_OWNER}: {what} must be a list, got {type(values).__name__}")
    return list(values)


def is_stream(texts: Any) -> bool:
    """Whether rows come through Arrow's C stream interface and in no other way: a reader or the result of a query."""
    known = ("to_pylist", "to_list", "__dataframe__", "features")  # Arrow, polars, pandas and Hugging Face tables
    return hasattr(texts, "__arrow_c_stream__") and not any(hasattr(texts, name) for name in known)


def _collected(texts: Any) -> Any:
    """Return the table of what has to be run or drained first."""
    if type(texts).__name__ == "LazyFrame":  # of polars
        return texts.collect()
    if is_stream(texts):
        from longtail.datasets._arrow import table_of

        return table_of(texts)
    return texts


def _first_of(texts: Any) -> tuple[Any, Any]:
    """Return the first entry of a list or iterator, and all of it."""
    if isinstance(texts, list | tuple):
        return (texts[0] if texts else None), texts
    if hasattr(texts, "__next__"):
        first = next(texts, None)
        return first, ([] if first is None else chain([first], texts))
    return None, texts


def _from_records(records: Iterable[Any], wanted: Wanted, label_separator: str | None) -> TextData:
    collected = Records(_OWNER, wanted, label_separator)
    for row, record in enumerate(records):
        collected.add(record, lambda row=row: f"{_OWNER}: text {row}")  # type: ignore[misc]
    return collected.finish()


def _from_table(table: Any, names: list[Any], wanted: Wanted, label_separator: str | None) -> TextData:
    picked = wanted.pick(_OWNER, names)
    parts = [column_values(table, name) for name in picked.text]
    if len(parts) > 1:
        parts = [["" if is_missing(text) else text for text in column] for column in parts]
    checked = [text_list(column) for column in parts]
    texts = checked[0] if picked.weights == (1,) else [picked.join(row) for row in zip(*checked, strict=True)]
    cells = LabelCells(label_separator)
    labels: Names = [[] for _ in texts]
    if picked.label is not None:
        values = _named_classes(table, picked, column_values(table, picked.label))
        labels = [cells.names(value, _place(row)) for row, value in enumerate(values)]
        cells.check(_OWNER)
    if len(labels) != len(texts):
        raise ValueError(f"{_OWNER}: columns must have one length, got {len(texts)} and {len(labels)}")
    ids = None if picked.id is None else column_values(table, picked.id)
    return text_data(_OWNER, texts, labels, ids, picked.describe(cells.describe()))


def _named_classes(table: Any, picked: Picked, values: list[Any]) -> list[Any]:
    """Put names for the numbers of a Hugging Face ClassLabel; -1 stands for no label there."""
    features = getattr(table, "features", None)
    feature = features.get(picked.label) if isinstance(features, Mapping) else None
    names = getattr(feature, "names", None) or getattr(getattr(feature, "feature", None), "names", None)
    if not names:
        return values
    rows = ([value] if isinstance(value, int) else value or [] for value in values)
    return [[names[label_id] for label_id in row if label_id >= 0] for row in rows]


def _of_cells(rows: list[Any], label_separator: str | None) -> Names:
    cells = LabelCells(label_separator)
    found = []
    for row, value in enumerate(rows):
        if not isinstance(value, str) and isinstance(value, Iterable) and not hasattr(value, "tolist"):
            value = list(value)
        found.append(cells.names(value, _place(row)))
    cells.check(_OWNER)
    return found


def _place(row: int) -> Any:
    return lambda: f"{_OWNER}: the labels of text {row}"


def _of_table(table: Any, names: list[Any], label_names: Sequence[Any] | None, separator: str | None) -> Names:
    if len(names) == 1 and label_names is None:
        values = column_values(table, names[0])
        if not all(isinstance(value, int | float | bool) and value in (0, 1) for value in values):
            return _of_cells(values, separator)
    columns = [np.asarray(column_values(table, name)) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind not in "biuf":
            raise TypeError(
                f"{_OWNER}: labels as a table must hold a column of 0 and 1 per label, but {name!r} holds "
                f"{column.dtype}; choose the column of names, such as table['labels']"
            )
    return _of_matrix(_sparse_columns(columns), names if label_names is None else label_names)


def _sparse_columns(columns: list[Any]) -> Any:
    from scipy.sparse import csc_array, hstack

    return hstack([csc_array(column[:, None]) for column in columns], format="csr")


def _of_matrix(matrix: Any, label_names: Sequence[Any] | None) -> Names:
    from scipy.sparse import csr_array

    csr = csr_array(matrix)
    if csr.data.size and not np.isin(csr.data, (0, 1)).all():
        wrong = csr.data[~np.isin(csr.data, (0, 1))][0]
        raise ValueError(f"{_OWNER}: labels as a matrix must hold 0 and 1, got {wrong}; give lists of names otherwise")
    n_labels = csr.shape[1]
    names = list(map(str, range(n_labels) if label_names is None else label_names))
    if len(names) != n_labels:
        raise ValueError(f"{_OWNER}: label_names must have one name per column, got {len(names)} for {n_labels}")
    if len(set(names)) != n_labels:
        raise ValueError(f"{_OWNER}: label_names must differ, but one comes twice")
    entries = csr_parts(csr).nonzero()
    ids, ends = entries.indices.tolist(), entries.indptr.tolist()
    return [[names[i] for i in ids[begin:end]] for begin, end in pairwise(ends)]


def _refuse_rows_of_a_matrix(rows: list[Any]) -> None:
    """Refuse nested lists of 0 and 1: as label numbers they would all be "0" and "1"."""
    if not rows or not isinstance(rows[0], list | tuple) or len(rows[0]) < 2:
        return
    width = len(rows[0])
    is_matrix = all(
        isinstance(row, list | tuple) and len(row) == width and all(type(v) is int and v in (0, 1) for v in row)
        for row in rows
    )
    if is_matrix and any(len(set(row)) < width for row in rows):
        raise ValueError(
            f"{_OWNER}: labels look like a 0/1 matrix written as lists; pass label_names= with the names of its "
            f"{width} columns, or numpy.asarray(labels)"
        )
