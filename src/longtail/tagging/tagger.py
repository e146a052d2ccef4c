"""Texts in, label names out."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from longtail._base import XMCClassifier
from longtail._estimator import Estimator
from longtail._matrices import checked_weights
from longtail._progress import Progress
from longtail._ranges import Range
from longtail._rules import Choice, Int, Nothing, Real, check_value
from longtail._threads import resolve_n_jobs
from longtail._topk import Tag, TopK, tags_of
from longtail._words import counted
from longtail.auto import Auto
from longtail.calibration import Calibration, Measure, find_hits
from longtail.datasets import texts_and_labels
from longtail.datasets.in_memory import is_table, label_lists, matrix_columns, text_list
from longtail.decisions import Threshold, check_utility, choose
from longtail.execution import Executor
from longtail.metrics import Evaluation, evaluate
from longtail.propensity import from_counts
from longtail.tagging.explanations import Explanation, explain_text
from longtail.tagging.label_changes import with_new_labels, with_renamed_labels, without_labels
from longtail.tagging.label_names import checked_names, encode_labels, indicator
from longtail.tagging.learning import Learnt, Verdicts, learn
from longtail.tagging.name_matching import learn_weights, proba_of
from longtail.tagging.ranking import rank_allowed
from longtail.tagging.state import TaggerState
from longtail.tagging.vectorizer import TextVectorizer
from longtail.vocabulary import Vocabulary

# Rankings this deep hold all but a few of the labels that a threshold could let through.
_DEEP_TOP_K = 100
_N_EXAMPLES = 8
_EXAMPLE_CHARS = (40, 300)


class Tagger(Estimator):
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
            estimator is trained on four fifths of the texts and calibrated on the others, which costs 0.8 times the
            fit of the estimator in addition; texts are vectorised once. With held-out texts of your own, call
            `calibrate` instead.
        executor, checkpoint, progress
            As for the estimator's ``fit``.
        """
        given, vectorizer = self._new_parts()
        given_labels = labels
        inputs, labels, columns = _labelled(
            vectorizer,
            texts,
            labels,
            text_column=text_column,
            text_weights=text_weights,
            label_column=label_column,
            label_separator=label_separator,
            label_names=label_names,
        )
        label_columns = None if given_labels is None else matrix_columns(given_labels, label_names)
        names, Y = encode_labels(labels)
        if not names:
            raise ValueError("Tagger: no text has a label; nothing to learn")
        X = inputs
        if vectorizer is not None:
            X = vectorizer.fit(inputs).transform(inputs, n_jobs=given.n_jobs)
        estimator = given.resolve(X, Y)
        weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
        if weighted and "sample_weight" not in signature(estimator.fit).parameters:
            raise ValueError(f"Tagger: sample_weight must be None, because {type(estimator).__name__} takes no weights")
        estimator.fit(
            X, Y, **weighted, calibrate=calibrate, executor=executor, checkpoint=checkpoint, progress=progress
        )
        examples = _short_texts(inputs) if isinstance(inputs, list) else []
        columns = None if columns == {"text": 1} else columns
        state = TaggerState(estimator, vectorizer, names, example_texts=examples, text_columns=columns)
        self._put(replace(state, label_columns=label_columns))
        return self

    def tag(
        self,
        texts: Any,
        top_k: int | None = 5,
        *,
        threshold: Threshold = None,
        include: Iterable[str] | None = None,
        exclude: Iterable[str] | None = None,
        utility: str | None = None,
        max_loss: float | None = None,
    ) -> list[list[Tag]]:
        """Propose labels for each text, best first.

        A text without any word that occurred in training gets no labels: nothing is known about it.

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
        utility : str, optional
            What the ranking is to be good for: "precision" puts the most probable labels first, "psp" favours rare
            labels, "power:0.5" lies between them; see `longtail.decisions.rank` for all of them. "macro-f1" and
            "coverage" choose the labels of all texts of the call together. Needs a calibrated tagger. By default a
            calibrated tagger ranks by probability ("precision"), any other by its scores ("score").
        max_loss : float, optional
            The largest loss of expected precision at `top_k`, in points, that the utility may cost.

        Returns
        -------
        list of lists of Tag
        """
        check_value("Tagger", "top_k", top_k, (Int(1), Nothing()))
        check_value("Tagger", "threshold", threshold, (Nothing(), Real(), Choice("auto")))
        state = self._whole()
        calibration = state.calibration
        utility = _utility(state, utility)
        banned = [*self._blocked(), *checked_names("exclude", exclude or ())]
        if state.vocabulary is not None:
            banned += state.vocabulary.retired
        depth = _DEEP_TOP_K if top_k is None else top_k
        X = state.rows(self._checked(state, texts))
        included = None if include is None else list(include)
        found = choose(
            "Tagger",
            lambda rows, n: rank_allowed(state, X if rows is None else X[rows], n, included, banned),
            calibration,
            depth,
            threshold=threshold,
            utility=utility,
            max_loss=max_loss,
            n_threads=resolve_n_jobs(state.estimator.n_jobs),
        )
        if state.vectorizer is not None:
            found.label_ids[_is_empty(state.vectorizer, X)] = -1
        return tags_of(*found, state.label_names)

    def set_vocabulary(self, vocabulary: Vocabulary | None, texts: Any = None, labels: Any = None) -> Self:
        """Give the labels names, parents and notes; nothing is trained. It is saved with the tagger.

        The ids of the vocabulary must be the labels of the data. Retired labels are never proposed.

        Parameters
        ----------
        vocabulary : Vocabulary or None
        texts, labels : held-out texts and their labels, optional
            They show how far the names of labels can be trusted, for `tag_unseen`.

        Examples
        --------
        >>> import longtail as lt
        >>> texts = ["web server", "web browser", "mail server", "mail reader"] * 3
        >>> tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts, [["w"], ["w"], ["m"], ["m"]] * 3)
        >>> names = lt.Vocabulary([lt.Concept(id="w", names={"en": "web", "de": "Netz"})])
        >>> tagger.set_vocabulary(names).vocabulary_.name("w", "de")
        'Netz'
        """
        if not isinstance(vocabulary, Vocabulary | None):
            raise TypeError(f"Tagger: vocabulary must be a Vocabulary or None, got {vocabulary!r}")
        state = self._whole()
        weights = None
        if vocabulary is not None and texts is not None:
            if state.vectorizer is None:
                raise ValueError("Tagger: names can only be matched with texts, but this tagger was fitted on vectors")
            inputs, given = text_list(texts), label_lists(labels)
            if len(inputs) != len(given):
                raise ValueError(
                    f"Tagger: got {counted(len(inputs), 'text')} but {counted(len(given), 'row')} of labels"
                )
            weights = learn_weights(vocabulary, state.label_names, state.estimator.label_counts_, inputs, given)
        self._put(replace(state, vocabulary=vocabulary, name_weights=weights))
        return self

    def _change_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Replace the vocabulary and keep what was learnt about names."""
        self._put(replace(self._whole(), vocabulary=vocabulary))

    def tag_unseen(self, texts: Any, top_k: int = 5, *, threshold: float = 0.0) -> list[list[Tag]]:
        """Propose labels of the vocabulary that have no training text, by their names; best first.

        Scores are probabilities, on the same scale as those of a calibrated `tag`. Needs
        ``set_vocabulary(vocabulary, texts, labels)``.

        Parameters
        ----------
        texts : list of str
        top_k : int, default 5
        threshold : float, default 0.0
            The least probability.
        """
        check_value("Tagger", "top_k", top_k, (Int(1),))
        check_value("Tagger", "threshold", threshold, (Real(0, 1),))
        state = self._whole()
        if state.vocabulary is None or state.name_weights is None:
            raise ValueError(
                "Tagger: tag_unseen needs set_vocabulary(vocabulary, texts, labels) with held-out texts first"
            )
        inputs = text_list(texts)
        tags: list[list[Tag]] = [[] for _ in inputs]
        if state.unseen is None:
            return tags
        found = state.unseen.match(inputs)
        proba = proba_of(found, state.name_weights)
        blocked = self._blocked()
        for i in np.lexsort((found.label_places, -proba, found.row_ids)).tolist():
            row, label = tags[found.row_ids[i]], state.unseen.labels[found.label_places[i]]
            if len(row) < top_k and proba[i] >= threshold and label not in blocked:
                row.append(Tag(label, float(proba[i]), float(proba[i])))
        return tags

    @property
    def vocabulary_(self) -> Vocabulary | None:
        """What `set_vocabulary` was given."""
        state = self._state
        return None if state is None else state.vocabulary

    @property
    def can_tag_unseen(self) -> bool:
        """Whether `tag_unseen` can be called."""
        state = self._state
        return state is not None and state.vocabulary is not None and state.name_weights is not None

    def propose(
        self, inputs: Any, top_k: int | None = 5, *, threshold: Threshold = None, **ranking: Any
    ) -> list[list[Tag]]:
        """Propose labels as every model does: `tag` under the name that commands use."""
        return self.tag(inputs, top_k, threshold=threshold, **ranking)

    def predict_top_k(
        self, X: Any, top_k: int = 5, *, utility: str | None = None, max_loss: float | None = None, **ranking: Any
    ) -> TopK:
        """Rank label ids for each text, as the estimators do for rows; blocked labels are not left out.

        `utility` and `max_loss` are as for `tag`: a calibrated tagger ranks by probability by default.
        """
        state = self._whole()
        rows = state.rows(self._checked(state, X))
        chosen = _utility(state, utility)
        return state.estimator.predict_top_k(rows, top_k, utility=chosen, max_loss=max_loss, **ranking)

    def predict(self, X: Any) -> Any:
        """Decide the labels of each text: by the chosen thresholds if the tagger is calibrated, else the best label.

        Returns lists of names; a CSR matrix with the same columns if `fit` got the labels as a 0/1 matrix.
        """
        tagger = copy.copy(self)  # one fitted state for both steps, whatever another thread does
        state = tagger._whole()
        threshold: Threshold = None if state.calibration is None else "auto"
        top_k = 1 if threshold is None else None
        rows = [[tag.label for tag in tags] for tags in tagger.tag(X, top_k, threshold=threshold)]
        if state.column_names is None:
            return rows
        columns = {name: column for column, name in enumerate(state.column_names)}
        return indicator([[columns[name] for name in row] for row in rows], len(columns)).astype(np.int64)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return precision@1 as a share: how often the best label of a text is right; texts count by their weights."""
        state = self._whole()
        Y, _ = state.encode(y)
        top = state.estimator.predict_top_k(state.rows(self._checked(state, X)), 1, utility=_utility(state, None))
        if sample_weight is None:
            return float(evaluate(top, Y, ks=(1,))["P@1"]) / 100
        weights = checked_weights("Tagger", sample_weight, Y.shape[0])
        return float(np.average(find_hits(top.label_ids, Y)[:, 0], weights=weights))

    def calibrate(
        self,
        texts: Any,
        labels: Sequence[Iterable[str]],
        *,
        measure: Measure = "micro_f1",
        floor: float | None = None,
    ) -> Self:
        """Learn from held-out texts what scores mean: `tag` then gives probabilities and knows how many labels to give.

        Parameters
        ----------
        texts, labels
            Texts that `fit` has not seen, and their labels; a thousand or more are good.
        measure : "micro_f1", "macro_f1" or "precision", default "micro_f1"
            What ``threshold="auto"`` aims at.
        floor : float, optional
            The precision to keep, for ``measure="precision"``.
        """
        Calibration(measure=measure, floor=floor).check_params()
        state = self._whole()
        Y, _ = state.encode(labels)
        rows = state.rows(self._checked(state, texts))
        estimator = copy.copy(state.estimator).calibrate(rows, Y, measure=measure, floor=floor)
        self._put(replace(state, estimator=estimator).with_change("calibrated"))
        return self

    def evaluate(self, texts: Any, labels: Sequence[Iterable[str]], *, data: str | None = None) -> Evaluation:
        """Measure the ranking on labelled texts; the numbers also go into the model card.

        `data` is what the card calls these texts, for instance the name of their file.

        Labels that the tagger does not know cannot be ranked and do not count; `encode` reports how many there are.
        """
        state = self._whole()
        Y, _ = state.encode(labels)
        propensity = from_counts(state.estimator.label_counts_, state.estimator.n_rows_)
        top = state.estimator.predict_top_k(state.rows(self._checked(state, texts)), 5, utility=_utility(state, None))
        found = evaluate(top, Y, propensity=propensity)
        measured = {name: float(value) for name, value in found.items()}
        self._put(replace(state, metrics=measured, evaluated_on={"data": data, "n_rows": found.n_rows}))
        return found

    def known_words(self, texts: Any) -> NDArray[np.int64]:
        """Count the known features of each text: words and n-grams that occurred in the training texts.

        `tag` and `predict` give no labels to a text with none; `predict_top_k` ranks all such texts alike.
        """
        state = self._whole()
        if state.vectorizer is None:
            raise ValueError("Tagger: known_words needs words, but this tagger was fitted on vectors")
        return state.vectorizer.n_known(state.rows(self._checked(state, texts)))

    def explain(self, text: str, label: str, *, max_words: int | None = None) -> Explanation:
        """Return what each word of a text adds to the score of a label.

        Exact for DiSMEC: bias and contributions add up to the score. For trees the words that turn the paths, for
        GBDT-SPARSE the words behind the projected features; for other estimators, how the score falls when a word is
        left out.

        Parameters
        ----------
        text : str
        label : str
        max_words : int or None, default None
            List only this many words, those with the largest contributions; `rest` is the sum of the others.
        """
        check_value("Tagger", "max_words", max_words, (Int(1), Nothing()))
        state = self._whole()
        if state.vectorizer is None:
            raise ValueError("Tagger: explain needs words, but this tagger was fitted on vectors")
        if not isinstance(text, str):
            raise TypeError(f"Tagger: text must be a str, got {text!r}")
        label_id = state.ids_of("label", [label])[0]
        return explain_text(state.estimator, state.vectorizer, text, label, label_id, max_words=max_words)

    def add_labels(
        self,
        texts: Any,
        labels: Any = None,
        *,
        text_column: str | Sequence[str] | None = None,
        label_column: str | None = None,
        label_separator: str | None = None,
        label_names: Sequence[Any] | None = None,
        progress: Progress = None,
    ) -> Self:
        """Train labels that the tagger does not know yet; all others stay as they are.

        Works with DiSMEC and LabelTree. Words that did not occur in the training texts stay unknown, and the numbers
        of an earlier `evaluate` are forgotten. A calibration stays: the new labels get probabilities too.

        Parameters
        ----------
        texts, labels, text_column, label_column, label_separator, label_names
            As for `fit`. Texts without a new label are the negative examples: give the training texts, or a part of
            them. Labels that the tagger knows are not trained again.
        progress : None, "bar" or callable(done, total)

        Examples
        --------
        >>> import longtail as lt
        >>> texts = ["web server", "web browser", "mail server", "mail reader"] * 3
        >>> tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts, [["web"], ["web"], ["mail"], ["mail"]] * 3)
        >>> tagger.add_labels(texts, [["server"], [], ["server"], []] * 3).label_names_
        ['mail', 'web', 'server']
        >>> tagger.rename_labels({"web": "www"}).remove_labels(["mail"]).label_names_
        ['www', 'server']
        """
        state = self._whole()
        known = state.text_columns if text_column is None and is_table(texts) else None
        inputs, given, _ = _labelled(
            state.vectorizer,
            texts,
            labels,
            text_column=text_column,
            text_weights=known,
            label_column=label_column,
            label_separator=label_separator,
            label_names=label_names,
        )
        self._put(with_new_labels(state, inputs, given, progress))
        return self

    def learn(
        self,
        texts: Any,
        labels: Any,
        *,
        rejected: Any = None,
        complete: bool | Sequence[bool] = True,
        held_back: float = 0.2,
    ) -> Learnt:
        """Learn from corrections, in seconds and without the training texts.

        The labels that are right or wrong for one of the texts are trained further from where they are (DiSMEC only);
        the weights of all others stay, byte for byte. Labels and words that the tagger does not know are added.

        Parameters
        ----------
        texts : list of str, or a matrix when the vectorizer is None
        labels : label names of each text
            Those that are right.
        rejected : label names of each text, optional
            Those that are wrong.
        complete : bool or list of bool, default True
            Whether `labels` are all labels of a text. If not, nothing is known of a label that is neither right nor
            wrong.
        held_back : float in [0, 0.5], default 0.2
            The share of the texts on which the effect is measured, with a model that learnt from the others. The
            tagger itself learns from all.

        Returns
        -------
        Learnt
            What was learnt, and what it is worth.

        Examples
        --------
        >>> import longtail as lt
        >>> texts = ["web server", "web browser", "mail server", "mail reader"] * 3
        >>> tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts, [["web"], ["web"], ["mail"], ["mail"]] * 3)
        >>> tagger.learn(["shared calendar", "calendar server"], [["time"]] * 2, rejected=[[], ["mail"]]).new_labels
        ['time']
        >>> tagger.tag(["my calendar"], top_k=1)[0][0].label
        'time'
        """
        check_value("Tagger", "held_back", held_back, (Real(0, 0.5),))
        state = self._whole()
        inputs = self._checked(state, texts)
        right = label_lists(labels)
        wrong = [[] for _ in right] if rejected is None else label_lists(rejected)
        n_texts = len(inputs) if isinstance(inputs, list) else inputs.shape[0]
        for what, rows in (("labels", right), ("rejected", wrong)):
            if len(rows) != n_texts:
                raise ValueError(f"Tagger: learn: {what} must have {counted(n_texts, 'row')}, got {len(rows)}")
        for row_id, (yes, no) in enumerate(zip(right, wrong, strict=True)):
            both = set(yes) & set(no)
            if both:
                raise ValueError(f"Tagger: learn: {min(both)!r} must be right or wrong for text {row_id}, got both")
        is_complete = np.broadcast_to(np.asarray(complete, dtype=bool), (n_texts,))
        new, learnt = learn(state, Verdicts(inputs, right, wrong, is_complete), held_back=held_back, seed=0)
        self._put(new)
        return learnt

    def remove_labels(self, names: Iterable[str]) -> Self:
        """Forget labels: their weights leave the model, and the ids of the labels behind them move up.

        An unknown name is an error. The numbers of an earlier `evaluate` are forgotten too.
        """
        self._put(without_labels(self._whole(), names))
        return self

    def rename_labels(self, names: Mapping[str, str]) -> Self:
        """Give labels other names, ``{old: new}``; two labels may swap theirs. Nothing is trained."""
        state = with_renamed_labels(self._whole(), names)
        blocked = self._blocked()
        renamed = {names.get(name, name) for name in blocked}
        self.blocked = sorted(blocked | renamed)  # at no time is a blocked label free under either name
        self._put(state)
        self.blocked = sorted(renamed)
        return self

    def block(self, names: Iterable[str]) -> Self:
        """Never propose these labels from now on; they stay in the model. An unknown name is an error."""
        wanted = checked_names("block", names)
        self._whole().ids_of("block", wanted)
        self.blocked = sorted(self._blocked() | set(wanted))
        return self

    def unblock(self, names: Iterable[str]) -> Self:
        """Propose labels again that were blocked. A name that is not blocked is an error."""
        wanted, blocked = checked_names("unblock", names), self._blocked()
        for name in wanted:
            if name not in blocked:
                raise ValueError(f"Tagger: unblock: label {name!r} is not blocked")
        self.blocked = sorted(blocked - set(wanted))
        return self

    def search_labels(self, query: str, limit: int = 20, *, unseen: bool = False) -> list[str]:
        """Find labels by a part of a name; those that begin with it first, frequent ones first.

        Parameters
        ----------
        query : str
            A part of the label itself, or of one of its names in the vocabulary, in any language.
        limit : int, default 20
        unseen : bool, default False
            Also find labels that only the vocabulary knows.
        """
        state = self._whole()
        check_value("Tagger", "limit", limit, (Int(1),))
        labels = state.searched_labels if unseen else state.label_names
        return [labels[label_id] for label_id in state.search.find(query, limit, len(labels))]

    def count_texts(self, names: Iterable[str]) -> list[int]:
        """Count the training texts of each of these labels; 0 for labels that only the vocabulary knows."""
        state = self._whole()
        wanted = list(names)
        unseen = {name for name in wanted if state.vocabulary is not None and name in state.vocabulary}
        state.ids_of("count_texts", [name for name in wanted if name not in unseen])
        counts, ids = state.estimator.label_counts_, state.label_ids
        return [int(counts[ids[name]]) if name in ids else 0 for name in wanted]

    def card(self) -> dict[str, Any]:
        """Describe the model: JSON values for people and pages."""
        state = self._whole()
        calibration = state.calibration
        return state.estimator.card() | {
            "vectorizer": None if state.vectorizer is None else state.vectorizer.params(),
            "n_blocked": len(self._blocked()),
            "calibration": None
            if calibration is None
            else {**calibration.params(), "n_rows": calibration.n_rows_, "ece": calibration.ece_},
            "metrics": dict(state.metrics),
            "evaluated_on": state.evaluated_on,
            "text_columns": state.text_columns,
        }

    def encode(self, labels: Sequence[Iterable[str]]) -> tuple[sp.csr_array, int]:
        """Turn label names into a matrix over the known labels; also return how many names were unknown."""
        return self._whole().encode(labels)

    def with_threads(self, n_jobs: int | None) -> Self:
        """Return the same fitted tagger with another number of threads; arrays are shared."""
        state = self._whole()
        made = copy.copy(self)
        made._put(replace(state, estimator=state.estimator.with_threads(n_jobs)))
        return made

    # ---- fitted attributes ----------------------------------------------------------------------------------------

    @property
    def takes_texts(self) -> bool:
        """Whether inputs are texts; without a vectorizer they are rows of features."""
        return self._whole().vectorizer is not None

    @property
    def ranking_options(self) -> frozenset[str]:
        """Names of further options of `predict_top_k`: none."""
        return frozenset()

    @property
    def n_features_in_(self) -> int:
        """Features of a row."""
        return self._whole().estimator.n_features_in_

    @property
    def n_labels_(self) -> int:
        """Labels the tagger knows."""
        return self._whole().estimator.n_labels_

    @property
    def n_rows_(self) -> int:
        """Texts in training."""
        return self._whole().estimator.n_rows_

    @property
    def label_counts_(self) -> NDArray[np.int64]:
        """Training texts of each label."""
        return self._whole().estimator.label_counts_

    @property
    def label_names_(self) -> list[str]:
        """The names of the labels; empty before `fit`."""
        state = self._state
        return [] if state is None else state.label_names

    @property
    def example_texts_(self) -> list[str]:
        """A few short training texts."""
        state = self._state
        return [] if state is None else state.example_texts

    @property
    def text_columns_(self) -> dict[str, int] | None:
        """Columns of a table that texts are made of, with their weights; None for plain texts and a column "text"."""
        state = self._state
        return None if state is None else state.text_columns

    @property
    def calibration_(self) -> Calibration | None:
        """What `calibrate` learnt."""
        state = self._state
        return None if state is None else state.calibration

    @property
    def metrics_(self) -> dict[str, float]:
        """What `evaluate` measured last."""
        state = self._state
        return {} if state is None else state.metrics

    # ---- inner parts ----------------------------------------------------------------------------------------------

    @property
    def _state(self) -> TaggerState | None:
        return self.__dict__.get("_fitted")

    def __sklearn_is_fitted__(self) -> bool:
        return self._state is not None

    def __sklearn_tags__(self) -> Any:
        # Not a classifier to scikit-learn, which would look for classes in lists of names when it splits the data.
        tags = super().__sklearn_tags__()
        tags.estimator_type = None
        tags.classifier_tags = None
        tags.input_tags.string = True
        return tags

    def _whole(self) -> TaggerState:
        """Return the fitted state. Read once per call, so that a refit in another thread cannot mix two models."""
        state = self._state
        if state is None:
            raise ValueError("Tagger: not fitted yet; call fit(texts, labels) first")
        state.estimator._whole()  # raises if its files, or those of the tagger, were found damaged
        return state

    def _put(self, state: TaggerState) -> None:
        """Make a state the tagger's own; predictions read `_fitted` only."""
        self._fitted = state
        self.estimator, self.vectorizer = state.estimator, state.vectorizer

    @property
    def _ranges(self) -> dict[str, Range]:
        """Where `longtail.autotune` looks for the parameters of the parts."""
        parts = {"estimator": self.estimator, "vectorizer": self.vectorizer}
        known = {name: getattr(part, "_ranges", {}) for name, part in parts.items()}
        return {f"{part}__{name}": found for part, ranges in known.items() for name, found in ranges.items()}

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
    def blocked(self) -> Iterable[str]:
        """Labels that are never proposed; may be set at any time."""
        return self._given_blocked

    @blocked.setter
    def blocked(self, names: Iterable[str]) -> None:
        if not isinstance(names, Iterable):
            raise TypeError(f"Tagger: blocked must be a list of label names, got {names!r}")
        checked = checked_names("blocked", names)
        self._given_blocked = tuple(checked) if isinstance(names, Iterator) else names

    def _blocked(self) -> frozenset[str]:
        return frozenset(checked_names("blocked", self.blocked))  # a list may have changed since

    def _checked(self, state: TaggerState, texts: Any) -> Any:
        if state.text_columns is not None and is_table(texts):
            return texts_and_labels(texts, text_weights=state.text_columns).texts
        return _checked_inputs(state.vectorizer, texts)


def _utility(state: TaggerState, utility: str | None) -> str:
    """Return the utility to rank for: people expect the likeliest labels, in the order of the numbers they see."""
    chosen = "precision" if utility is None and state.calibration is not None else utility
    return check_utility("Tagger", chosen, state.calibration)


def _is_empty(vectorizer: TextVectorizer, X: Any) -> NDArray[np.bool_]:
    """Say which texts have neither a known word nor an embedding."""
    empty = vectorizer.rows_without_words(X)
    if vectorizer.embedding is not None and empty.any():
        empty[empty] = abs(sp.csr_array(X)[np.flatnonzero(empty)]).sum(axis=1) == 0
    return empty


def _labelled(
    vectorizer: TextVectorizer | None, texts: Any, labels: Any, **columns: Any
) -> tuple[Any, list[list[str]], dict[str, int] | None]:
    """Check texts (or rows, without a vectorizer) and their labels; also return the columns of a table."""
    if vectorizer is not None:
        data = texts_and_labels(texts, labels, **columns)
        data.require_labels()
        return data.texts, data.labels, data.text_columns
    rows = _checked_inputs(None, texts)
    given = label_lists(labels, label_names=columns["label_names"], label_separator=columns["label_separator"])
    if rows.shape[0] != len(given):
        raise ValueError(f"Tagger: got {counted(rows.shape[0], 'row')} but {counted(len(given), 'list')} of labels")
    return rows, given, None


def _checked_inputs(vectorizer: TextVectorizer | None, texts: Any) -> Any:
    if vectorizer is not None:
        return text_list(texts)
    if isinstance(texts, str) or (isinstance(texts, list) and texts and isinstance(texts[0], str)):
        raise TypeError("Tagger: this tagger has no vectorizer and takes a matrix, got texts")
    return texts if sp.issparse(texts) else np.asarray(texts)


def _short_texts(texts: list[str]) -> list[str]:
    """Pick a few short texts, evenly over the corpus."""
    least, most = _EXAMPLE_CHARS
    short = [text for text in texts if least <= len(text) <= most and text.isprintable()]
    short = short or [text for text in texts if least <= len(text) <= most] or [text[:most] for text in texts if text]
    step = max(1, len(short) // _N_EXAMPLES)
    return short[::step][:_N_EXAMPLES]
