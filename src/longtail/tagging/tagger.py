"""Texts in, label names out."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._matrices import Matrix
from longtail._progress import Progress
from longtail._rules import Choice, Int, Nothing, Real, check_value
from longtail._topk import TopK
from longtail._version import __version__
from longtail._words import counted
from longtail.calibration import Calibration, Measure, Method
from longtail.dismec import DiSMEC
from longtail.execution import Executor
from longtail.metrics import Evaluation, evaluate
from longtail.propensity import from_counts
from longtail.tagging.explanations import Explanation, explain_text
from longtail.tagging.label_names import checked_names, checked_texts, encode_labels, indicator, name_rows
from longtail.tagging.label_search import LabelSearch
from longtail.tagging.vectorizer import TextVectorizer

Threshold = float | Literal["auto"] | None

# Rankings this deep hold all but a few of the labels that a threshold could let through.
_DEEP_TOP_K = 100
# Rankings are made for as many rows at a time as keep them within this many entries.
_MAX_RANKED = 1 << 22
_N_EXAMPLES = 8
_EXAMPLE_CHARS = (40, 300)


class Tag(NamedTuple):
    """One proposed label of a text; `proba` is its probability, known after calibration."""

    label: str
    score: float
    proba: float | None = None


class Tagger:
    """Tag texts with label names: a vectorizer, any estimator and the names in one object.

    Parameters
    ----------
    estimator : an estimator, default DiSMEC
    vectorizer : TextVectorizer, "tfidf" or None, default "tfidf"
        "tfidf" is a TextVectorizer with its defaults. None takes vectors instead of texts, in `fit` and everywhere:
        embeddings that you made yourself, as a matrix with one row a text.
    blocked : names of labels, default none
        Labels that are never proposed, whatever their score.

    Attributes
    ----------
    label_names_ : list of str, in alphabetical order; the estimator's label ids are positions in it
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

    label_names_: list[str]
    example_texts_: list[str]
    calibration_: Calibration | None
    metrics_: dict[str, float]
    _ids: dict[str, int] | None
    _search: LabelSearch | None

    def __init__(
        self,
        estimator: XMCClassifier | None = None,
        vectorizer: TextVectorizer | Literal["tfidf"] | None = "tfidf",
        *,
        blocked: Iterable[str] = (),
    ) -> None:
        if estimator is None:
            estimator = DiSMEC()
        if not isinstance(estimator, XMCClassifier):
            raise TypeError(f"Tagger: estimator must be a longtail estimator, got {estimator!r}")
        if vectorizer == "tfidf":
            vectorizer = TextVectorizer()
        if not isinstance(vectorizer, TextVectorizer | None):
            raise TypeError(f"Tagger: vectorizer must be a TextVectorizer, 'tfidf' or None, got {vectorizer!r}")
        self.estimator = estimator
        self.vectorizer: TextVectorizer | None = vectorizer
        self.blocked = frozenset(checked_names("blocked", blocked))
        self._forget()

    def fit(
        self,
        texts: Any,
        labels: Sequence[Iterable[str]],
        *,
        executor: str | Executor | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Learn from texts and the label names of each.

        Parameters
        ----------
        texts : list of str, or a matrix (n_texts, n_features) when the vectorizer is None
        labels : list of lists of str
        executor, checkpoint, progress
            As for the estimator's ``fit``.
        """
        X_or_texts = self._checked(texts)
        n_texts = len(X_or_texts) if isinstance(X_or_texts, list) else X_or_texts.shape[0]
        if n_texts != len(labels):
            raise ValueError(f"Tagger: got {counted(n_texts, 'text')} but {counted(len(labels), 'list')} of labels")
        names, Y = encode_labels(labels)
        if not names:
            raise ValueError("Tagger: no text has a label; nothing to learn")
        if self.vectorizer is not None:
            self.vectorizer.fit(X_or_texts)
        X = self._vectors(X_or_texts)
        self.estimator.fit(X, Y, executor=executor, checkpoint=checkpoint, progress=progress)
        self._forget()
        self.label_names_ = names
        self.example_texts_ = _short_texts(X_or_texts) if isinstance(X_or_texts, list) else []
        return self

    def tag(
        self,
        texts: Any,
        top_k: int | None = 5,
        *,
        threshold: Threshold = None,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
    ) -> list[list[Tag]]:
        """Propose labels for each text, best first: by score, or by probability when the tagger is calibrated.

        Parameters
        ----------
        texts : list of str, or a matrix when the vectorizer is None
        top_k : int or None, default 5
            At most this many labels a text; None sets no limit of its own (but 100).
        threshold : None, float or "auto", default None
            None gives `top_k` labels. A number gives those whose probability reaches it (whose score, when the tagger
            is not calibrated). "auto" gives those that reach the thresholds chosen by `calibrate`.
        include : names of labels, optional
            Rank only these.
        exclude : names of labels, optional
            Leave these out, besides those that are `blocked`.

        Returns
        -------
        list of lists of Tag
        """
        check_value("Tagger", "top_k", top_k, (Int(1), Nothing()))
        check_value("Tagger", "threshold", threshold, (Nothing(), Real(), Choice("auto")))
        if threshold == "auto" and self.calibration_ is None:
            raise ValueError("Tagger: threshold='auto' needs calibrate(texts, labels) on held-out texts first")
        label_ids, scores = self._ranked(texts, _DEEP_TOP_K if top_k is None else top_k, include, exclude)
        proba = None if self.calibration_ is None else self.calibration_.proba(label_ids, scores)
        given = label_ids >= 0
        if threshold == "auto" and self.calibration_ is not None:
            given &= self.calibration_.decide(label_ids, scores)
        elif isinstance(threshold, int | float):
            given &= (scores if proba is None else proba) >= threshold
        return self._tags(label_ids, scores, proba, given)

    def predict_top_k(self, texts: Any, top_k: int = 5) -> TopK:
        """Rank label ids for each text, as the estimators do for rows; knows nothing of blocked labels."""
        return self._top_k(self._vectors(self._checked(texts)), top_k)

    def calibrate(
        self,
        texts: Any,
        labels: Sequence[Iterable[str]],
        *,
        method: Method = "isotonic",
        measure: Measure = "micro_f1",
        floor: float | None = None,
    ) -> Self:
        """Learn from held-out texts what scores mean: `tag` then gives probabilities and knows how many labels to give.

        Parameters
        ----------
        texts, labels
            Texts that `fit` has not seen, and their labels; a thousand or more make good curves.
        method : "isotonic" or "sigmoid", default "isotonic"
        measure : "micro_f1", "macro_f1" or "precision", default "micro_f1"
            What ``threshold="auto"`` aims at.
        floor : float, optional
            The precision to keep, for ``measure="precision"``.
        """
        calibration = Calibration(method=method, measure=measure, floor=floor)
        calibration.check_params()
        Y, _ = self.encode(labels)
        top = self.predict_top_k(texts, min(_DEEP_TOP_K, self.estimator.n_labels_))
        self.calibration_ = calibration.fit(top, Y)
        return self

    def evaluate(self, texts: Any, labels: Sequence[Iterable[str]]) -> Evaluation:
        """Measure the ranking on labelled texts; the numbers also go into the model card.

        Labels that the tagger does not know cannot be ranked and do not count; `encode` tells how many there are.
        """
        Y, _ = self.encode(labels)
        propensity = from_counts(self.estimator.label_counts_, self.estimator.n_rows_)
        found = evaluate(self.predict_top_k(texts, 5), Y, propensity=propensity)
        self.metrics_ = {name: float(value) for name, value in found.items()}
        return found

    def explain(self, text: str, label: str) -> Explanation:
        """Tell what each word of a text adds to the score of a label.

        Exact for DiSMEC: bias and contributions add up to the score. For trees the words that turn the paths, for
        GBDT-SPARSE the words behind the projected features; for other estimators, how the score falls when a word is
        left out.
        """
        if self.vectorizer is None:
            raise ValueError("Tagger: explain needs words, but this tagger was fitted on vectors")
        if not isinstance(text, str):
            raise TypeError(f"Tagger: text must be a str, got {text!r}")
        self._check_fitted()
        label_id = self._ids_of("label", [label])[0]
        return explain_text(self.estimator, self.vectorizer, text, label, label_id)

    def search_labels(self, query: str, limit: int = 20) -> list[str]:
        """Find labels by a part of their name; those that begin with it first, frequent ones first."""
        self._check_fitted()
        check_value("Tagger", "limit", limit, (Int(1),))
        if self._search is None:
            self._search = LabelSearch(self.label_names_, self.estimator.label_counts_)
        return [self.label_names_[label_id] for label_id in self._search.find(query, limit)]

    def card(self) -> dict[str, Any]:
        """Describe the model: JSON values for people and pages."""
        self._check_fitted()
        counts = np.sort(self.estimator.label_counts_)
        params = self.estimator.get_params(deep=False)
        calibration = self.calibration_
        return {
            "estimator": type(self.estimator).__name__,
            "parameters": {name: value if _is_plain(value) else repr(value) for name, value in params.items()},
            "vectorizer": None if self.vectorizer is None else self.vectorizer.params(),
            "n_rows": int(self.estimator.n_rows_),
            "n_features": int(self.estimator.n_features_in_),
            "n_labels": len(self.label_names_),
            "label_counts": {
                "least": int(counts[0]),
                "median": float(np.median(counts)),
                "greatest": int(counts[-1]),
                "n_labels_up_to_5": int((counts <= 5).sum()),
                "labels_per_row": float(counts.sum() / max(self.estimator.n_rows_, 1)),
            },
            "n_blocked": len(self.blocked),
            "calibration": None
            if calibration is None
            else {**calibration.params(), "n_rows": calibration.n_rows_, "ece": calibration.ece_},
            "metrics": dict(self.metrics_),
            "versions": {"longtail": __version__, "python": platform.python_version()},
        }

    def encode(self, labels: Sequence[Iterable[str]]) -> tuple[sp.csr_array, int]:
        """Turn label names into a matrix over the known labels; also return how many names were unknown."""
        self._check_fitted()
        ids = self._label_ids()
        rows = name_rows(labels)
        n_unknown = sum(name not in ids for row in rows for name in row)
        return indicator([[ids[name] for name in row if name in ids] for row in rows], len(ids)), n_unknown

    # ---- inner parts ----------------------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Drop what belongs to an earlier fit."""
        self.label_names_ = []
        self.example_texts_ = []
        self.calibration_ = None
        self.metrics_ = {}
        self._ids = None
        self._search = None

    def _check_fitted(self) -> None:
        if not self.label_names_:
            raise ValueError("Tagger: not fitted yet; call fit(texts, labels) first")

    def _checked(self, texts: Any) -> Any:
        if self.vectorizer is not None:
            return checked_texts(texts)
        if isinstance(texts, str) or (isinstance(texts, list) and texts and isinstance(texts[0], str)):
            raise TypeError("Tagger: this tagger has no vectorizer and takes a matrix, got texts")
        return texts if sp.issparse(texts) else np.asarray(texts)

    def _vectors(self, texts: Any) -> Any:
        if self.vectorizer is None:
            return texts
        return self.vectorizer.transform(texts, n_jobs=self.estimator.n_jobs)

    def _top_k(self, X: Any, top_k: int) -> TopK:
        self._check_fitted()
        if self.vectorizer is None:
            return self.estimator.predict_top_k(X, top_k)
        check_value("Tagger", "top_k", top_k, (Int(1),))
        return self.estimator._top_k(X, top_k)  # rows of our own vectorizer need no second check

    def _ranked(self, texts: Any, top_k: int, include: Iterable[str] | None, exclude: Iterable[str] | None) -> TopK:
        """Rank the labels that may be given."""
        self._check_fitted()
        ids = self._label_ids()
        banned = {ids[name] for name in self.blocked | set(checked_names("exclude", exclude or ())) if name in ids}
        X = self._vectors(self._checked(texts))
        n_labels = len(self.label_names_)
        if include is None and not banned:
            return self._top_k(X, min(top_k, n_labels))
        allowed = np.full(n_labels, include is None)
        if include is not None:
            allowed[self._ids_of("include", include)] = True
        allowed[list(banned)] = False
        n_rows = X.shape[0]
        result = TopK(np.full((n_rows, top_k), -1, np.int32), np.zeros((n_rows, top_k), np.float32))
        # Without `include`, so many are enough; with it the labels asked for may be far down.
        depth = min(n_labels, top_k + len(banned) if include is None else max(4 * top_k, 64))
        rows: NDArray[np.int64] = np.arange(n_rows)
        while len(rows):
            step = max(1, _MAX_RANKED // depth)
            left = [
                self._fill(X, rows[begin : begin + step], depth, allowed, result) for begin in range(0, len(rows), step)
            ]
            rows = np.concatenate(left)
            depth = min(n_labels, depth * 8)
        return result

    def _fill(
        self, X: Matrix, rows: NDArray[np.int64], depth: int, allowed: NDArray[np.bool_], result: TopK
    ) -> NDArray[np.int64]:
        """Put the allowed labels of a ranking into the result; return the rows that need a deeper one."""
        top_k = result.label_ids.shape[1]
        label_ids, scores = self._top_k(X[rows], depth)
        may = (label_ids >= 0) & allowed[np.maximum(label_ids, 0)]
        order = np.argsort(~may, axis=1, kind="stable")[:, :top_k]
        kept = np.take_along_axis(may, order, axis=1)
        n_kept = kept.shape[1]
        result.label_ids[rows, :n_kept] = np.where(kept, np.take_along_axis(label_ids, order, axis=1), -1)
        result.scores[rows, :n_kept] = np.where(kept, np.take_along_axis(scores, order, axis=1), 0)
        n_wanted = min(top_k, int(allowed.sum()))
        is_whole: NDArray[np.bool_] = (may.sum(axis=1) >= n_wanted) | (label_ids[:, -1] < 0) | (depth >= len(allowed))
        return rows[~is_whole]

    def _tags(
        self,
        label_ids: NDArray[np.int32],
        scores: NDArray[np.float32],
        proba: NDArray[np.float32] | None,
        given: NDArray[np.bool_],
    ) -> list[list[Tag]]:
        names = self.label_names_
        tags: list[list[Tag]] = [[] for _ in range(len(label_ids))]
        row_ids, columns = np.nonzero(given)
        if proba is not None:  # likely ones first; equal ones keep the order of their scores
            order = np.lexsort((columns, -proba[row_ids, columns], row_ids))
            row_ids, columns = row_ids[order], columns[order]
        chances: Iterable[float | None] = [None] * len(row_ids) if proba is None else proba[row_ids, columns].tolist()
        picked = label_ids[row_ids, columns].tolist(), scores[row_ids, columns].tolist()
        for row_id, label_id, score, chance in zip(row_ids.tolist(), *picked, chances, strict=True):
            tags[row_id].append(Tag(names[label_id], score, chance))
        return tags

    def _label_ids(self) -> dict[str, int]:
        if self._ids is None:
            self._ids = {name: label_id for label_id, name in enumerate(self.label_names_)}
        return self._ids

    def _ids_of(self, what: str, names: Iterable[str]) -> list[int]:
        ids = self._label_ids()
        wanted = checked_names(what, names)
        for name in wanted:
            if name not in ids:
                alike = ", ".join(map(repr, self.search_labels(name, 3)))
                raise ValueError(
                    f"Tagger: {what}: there is no label {name!r}" + (f"; there is {alike}" if alike else "")
                )
        return [ids[name] for name in wanted]


def _short_texts(texts: list[str]) -> list[str]:
    """Pick a few short texts, evenly over the corpus."""
    least, most = _EXAMPLE_CHARS
    short = [text for text in texts if least <= len(text) <= most and text.isprintable()]
    short = short or [text for text in texts if least <= len(text) <= most] or [text[:most] for text in texts if text]
    step = max(1, len(short) // _N_EXAMPLES)
    return short[::step][:_N_EXAMPLES]


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)
