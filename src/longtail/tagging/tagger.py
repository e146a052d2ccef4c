"""Texts in, label names out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from longtail._base import XMCClassifier
from longtail._estimate import Estimate
from longtail._progress import Progress
from longtail._ranges import Range
from longtail.auto import Auto
from longtail.datasets import texts_and_labels
from longtail.datasets.in_memory import label_lists, matrix_columns
from longtail.execution import Executor
from longtail.tagging.changeable_tagger import ChangeableTagger
from longtail.tagging.inputs import labelled_inputs, short_texts
from longtail.tagging.label_names import encode_labels
from longtail.tagging.state import TaggerState
from longtail.tagging.vectorizer import TextVectorizer


class _Prepared(NamedTuple):
    """What a tagger learns from."""

    estimator: XMCClassifier
    vectorizer: TextVectorizer | None
    inputs: Any  # texts, or vectors
    columns: Any  # of the texts
    label_names: list[str]
    X: Any
    Y: sp.csr_array


class Tagger(ChangeableTagger):
    """Tag texts with label names: a vectorizer, any estimator and the names in one object.

    Parameters
    ----------
    estimator : an estimator or Auto, default None
        `fit` trains a copy and keeps it here in place of the one given. None is ``Auto()``, which chooses one that
        suits the data: DiSMEC unless labels are very many.
    vectorizer : TextVectorizer, "tfidf" or None, default "tfidf"
        "tfidf" is a TextVectorizer with its defaults. None takes vectors instead of texts, in `fit` and everywhere:
        embeddings that you made yourself, as a matrix with one row per text.
    blocked : names of labels, default none
        Labels that are never proposed, whatever their score. May be set at any time.

    Attributes
    ----------
    label_names_ : list of str, the estimator's label ids are positions in it; in alphabetical order after `fit`
    example_texts_ : list of str, a few short training texts
    calibration_ : Calibration or None
    metrics_ : dict of str to float, from `evaluate`

    Examples
    --------
    >>> import longtail as lt
    >>> texts = ["small web server", "web browser", "mail server"]
    >>> labels = [["net", "server"], ["net"], ["net", "server"]]
    >>> tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    >>> [tag.label for tag in tagger.tag(["a tiny server"], top_k=2)[0]]
    ['net', 'server']
    >>> [tag.label for tag in tagger.tag(["a tiny server"], exclude=["net"])[0]]
    ['server']
    """

    def __init__(
        self,
        estimator: XMCClassifier | Auto | None = None,
        vectorizer: TextVectorizer | Literal["tfidf"] | None = "tfidf",
        *,
        blocked: Iterable[str] = (),
    ) -> None:
        self.estimator = estimator
        self.vectorizer = vectorizer
        self.blocked = blocked

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        return {"blocked": (), "estimator": None, "vectorizer": "tfidf"}

    def fit(
        self,
        texts: Any,
        labels: Any = None,
        *,
        text_column: str | Sequence[str] | None = None,
        label_column: str | None = None,
        label_separator: str | None = None,
        label_names: Sequence[Any] | None = None,
        text_weights: Sequence[int] | Mapping[str, int] | None = None,
        sample_weight: Any = None,
        calibrate: bool = False,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from texts and the label names of each.

        If the fit fails or is interrupted, the tagger stays exactly as it was before.

        Parameters
        ----------
        texts : texts, or a matrix (n_texts, n_features) when the vectorizer is None
            A list of str, an iterator, a column, or a whole table (pandas, polars, Arrow, a Hugging Face data set, a
            list of dicts) that also holds the labels.
        labels : label names of each text, optional if `texts` is a table
            Lists of names, single names, numbers, or a 0/1 matrix.
        text_column, label_column : names of columns of a table, default "text" and "labels"
        label_separator : str, optional
            What separates labels in one cell.
        label_names : list of str, optional
            The names of the columns of a 0/1 matrix, such as a MultiLabelBinarizer's ``classes_``.
        text_weights : list or dict of int, optional
            How often the words of each text column count, such as ``{"title": 3, "body": 1}``. The columns and their
            weights are kept in the model: `tag` and the others then take such tables too.
        sample_weight : array (n_texts,), optional
            How much each text counts, for estimators whose ``fit`` takes weights.
        calibrate : bool, default False
            Also learn probabilities: `tag` then ranks by them and decides how many labels a text gets. A second
            estimator is trained on three fifths of the texts (of more than 25,000 texts: on up to four fifths) and
            calibrated on the others, a third one on a quarter of its texts. This costs 0.75 to 1 times the fit of the
            estimator in addition; texts are vectorised once. With held-out texts of your own, call `calibrate` instead.
        executor, checkpoint, progress
            As for the estimator's ``fit``.
        """
        prepared = self._prepare(
            texts,
            labels,
            text_column=text_column,
            text_weights=text_weights,
            label_column=label_column,
            label_separator=label_separator,
            label_names=label_names,
        )
        label_columns = None if labels is None else matrix_columns(labels, label_names)
        estimator, inputs, X, Y = prepared.estimator, prepared.inputs, prepared.X, prepared.Y
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        if weighted and "sample_weight" not in signature(estimator.fit).parameters:
            raise ValueError(f"Tagger: sample_weight must be None, because {type(estimator).__name__} takes no weights")
        estimator.fit(
            X, Y, **weighted, calibrate=calibrate, executor=executor, checkpoint=checkpoint, progress=progress
        )
        examples = short_texts(inputs) if isinstance(inputs, list) else []
        columns = None if prepared.columns == {"text": 1} else prepared.columns
        state = TaggerState(
            estimator, prepared.vectorizer, prepared.label_names, example_texts=examples, text_columns=columns
        )
        self._put(replace(state, label_columns=label_columns))
        return self

    def estimate(
        self,
        texts: Any,
        labels: Any = None,
        *,
        text_column: str | Sequence[str] | None = None,
        label_column: str | None = None,
        label_separator: str | None = None,
        label_names: Sequence[Any] | None = None,
        text_weights: Sequence[int] | Mapping[str, int] | None = None,
        calibrate: bool = False,
    ) -> Estimate:
        """Estimate what `fit` will take for the same texts and labels: seconds, peak memory and model size.

        Vectorises all texts and trains the estimator on a small part of them. Times are without the vectorizing.
        """
        prepared = self._prepare(
            texts,
            labels,
            text_column=text_column,
            text_weights=text_weights,
            label_column=label_column,
            label_separator=label_separator,
            label_names=label_names,
        )
        return prepared.estimator.estimate(prepared.X, prepared.Y, calibrate=calibrate)

    def _prepare(self, texts: Any, labels: Any, *, label_names: Sequence[Any] | None, **reading: Any) -> _Prepared:
        """Read texts and labels, and choose the estimator."""
        given, vectorizer = self._new_parts()
        inputs, labels, columns = labelled_inputs(vectorizer, texts, labels, label_names=label_names, **reading)
        names, Y = encode_labels(labels)
        if not names:
            raise ValueError("Tagger: no text has a label; nothing to learn")
        X = inputs
        if vectorizer is not None:
            X = vectorizer.fit(inputs).transform(inputs, n_jobs=given.n_jobs)
        return _Prepared(given.resolve(X, Y), vectorizer, inputs, columns, names, X, Y)

    def with_parts(self) -> Tagger:
        """Return a tagger that is not fitted, with copies of its parts in place of None and "tfidf"."""
        estimator, vectorizer = self._new_parts()
        return type(self)(estimator.with_parts(), vectorizer, blocked=self.blocked)

    def checked_pairs(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Check texts, or rows of features without a vectorizer, and the names of their labels; returns lists."""
        if self.vectorizer is None:
            return X if sp.issparse(X) else np.asarray(X), label_lists(y)
        data = texts_and_labels(X, y)
        data.require_labels()
        return data.texts, data.labels

    def _new_parts(self) -> tuple[XMCClassifier | Auto, TextVectorizer | None]:
        """Return an estimator and a vectorizer that are not fitted, so that a failed fit leaves the old ones alone."""
        estimator, vectorizer = self.estimator, self.vectorizer
        self._blocked()
        if estimator is None:
            estimator = Auto()
        if not isinstance(estimator, XMCClassifier | Auto):
            raise TypeError(f"Tagger: estimator must be a longtail estimator or Auto, got {estimator!r}")
        if isinstance(vectorizer, str) and vectorizer == "tfidf":
            vectorizer = TextVectorizer()
        if not isinstance(vectorizer, TextVectorizer | None):
            raise TypeError(f"Tagger: vectorizer must be a TextVectorizer, 'tfidf' or None, got {vectorizer!r}")
        fresh = None if vectorizer is None else TextVectorizer(**vectorizer.params())
        return type(estimator)(**estimator.get_params(deep=False)), fresh

    @property
    def _ranges(self) -> dict[str, Range]:
        """Where `longtail.autotune` looks for the parameters of the parts."""
        parts = {"estimator": self.estimator, "vectorizer": self.vectorizer}
        known = {name: getattr(part, "_ranges", {}) for name, part in parts.items()}
        return {f"{part}__{name}": found for part, ranges in known.items() for name, found in ranges.items()}

    def __sklearn_tags__(self) -> Any:
        # Not a classifier to scikit-learn, which would look for classes in lists of names when it splits the data.
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.classifier_tags = None
        tags.input_tags.string = True
        return tags
