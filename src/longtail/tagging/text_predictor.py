"""From texts to answers: tags, rankings, decisions, measures, explanations."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail._matrices import checked_weights
from longtail._rules import Choice, Int, Nothing, Real, check_value
from longtail._threads import resolve_n_jobs
from longtail._topk import DEEP_TOP_K, Tag, TopK, tags_of
from longtail.calibration import find_hits
from longtail.datasets.in_memory import text_list
from longtail.decisions import Threshold, check_utility, choose
from longtail.metrics import Evaluation, evaluate
from longtail.propensity import from_counts
from longtail.tagging.explanations import Explanation, explain_text
from longtail.tagging.fitted_tagger import FittedTagger
from longtail.tagging.inputs import without_features
from longtail.tagging.label_names import checked_names, indicator
from longtail.tagging.name_matching import proba_of
from longtail.tagging.ranking import rank_allowed
from longtail.tagging.state import TaggerState


class TextPredictor(FittedTagger):
    """Everything that a fitted tagger answers for texts."""

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
            Leave these out, besides those that are `blocked`; labels of the model or of its vocabulary.
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
        banned = [*self._blocked(), *state.known_names("exclude", exclude or ())]
        if state.vocabulary is not None:
            banned += state.vocabulary.retired
        depth = DEEP_TOP_K if top_k is None else top_k
        X = state.rows(self._checked(state, texts))
        included = None if include is None else checked_names("include", include)
        found = choose(
            "Tagger",
            lambda rows, n: rank_allowed(state, X if rows is None else X[rows], n, included, banned),
            calibration,
            depth,
            by_value=state.estimator.value_ranker(X) if included is None and not banned else None,
            threshold=threshold,
            utility=utility,
            max_loss=max_loss,
            n_threads=resolve_n_jobs(state.estimator.n_jobs),
        )
        if state.vectorizer is not None:
            found.label_ids[without_features(state.vectorizer, X)] = -1
        return tags_of(*found, state.label_names)

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

    def evaluate(self, texts: Any, labels: Sequence[Iterable[str]], *, data: str | None = None) -> Evaluation:
        """Measure the ranking on labelled texts; the numbers also go into the model card.

        `data` is what the card calls these texts, for instance the name of their file.

        Labels that the tagger does not know cannot be ranked and do not count; `encode` reports how many there are.
        """
        state = self._whole()
        Y, _ = state.encode(labels)
        if Y.nnz == 0:
            raise ValueError("Tagger: no text has a label that the tagger knows; there is nothing to measure")
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


def _utility(state: TaggerState, utility: str | None) -> str:
    """Return the utility to rank for: people expect the likeliest labels, in the order of the numbers they see."""
    chosen = "precision" if utility is None and state.calibration is not None else utility
    return check_utility("Tagger", chosen, state.calibration)
