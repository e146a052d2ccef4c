"""Changes of a fitted tagger: calibration, labels, corrections, vocabulary."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from longtail._progress import Progress
from longtail._rules import Real, check_value
from longtail._words import counted
from longtail.calibration import Calibration, Measure
from longtail.datasets.in_memory import is_table, label_lists, text_list
from longtail.tagging.inputs import labelled_inputs
from longtail.tagging.label_changes import with_new_labels, with_renamed_labels, without_labels
from longtail.tagging.label_names import checked_names
from longtail.tagging.learning import Learnt, Verdicts, learn
from longtail.tagging.name_matching import learn_weights
from longtail.tagging.text_predictor import TextPredictor
from longtail.vocabulary import Vocabulary


class ChangeableTagger(TextPredictor):
    """The ways to change a fitted tagger. Each computes a new state first and puts it in place last, as one object."""

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
        inputs, given, _ = labelled_inputs(
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
            Whether `labels` are all labels of a text. If not, a label that is neither right nor wrong may be missing;
            a calibrated tagger estimates from all texts how often a right label is.
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
