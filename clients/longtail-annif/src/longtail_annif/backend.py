"""The longtail backend: a Tagger whose labels are the URIs of the project's vocabulary."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from annif.backend.backend import AnnifLearningBackend
from annif.backend.hyperopt import AnnifHyperoptBackend
from annif.exception import NotInitializedException, NotSupportedException, OperationFailedException
from annif.suggestion import SuggestionBatch
from scipy.special import expit

import longtail as lt
from longtail_annif.settings import make_tagger, needs_analyzer, read_limit, unknown_settings

if TYPE_CHECKING:
    from annif.corpus import Document, DocumentCorpus

Documents = tuple[list[str], list[list[str]]]
_MAX_LINE_BYTES = 2**31 - 1


class LongtailBackend(AnnifHyperoptBackend, AnnifLearningBackend):
    """Train and use a longtail model.

    The training documents are kept beside the model (``longtail-train.jsonl``), for `learn`, `hyperopt` and
    ``train --cached``.
    """

    name = "longtail"
    MODEL_FILE = "longtail-model"
    TRAIN_FILE = "longtail-train.jsonl"

    _tagger: lt.Tagger | None = None
    _subjects: tuple[lt.Tagger, np.ndarray] | None = None  # subject ids of the labels of a tagger

    def initialize(self, parallel: bool = False) -> None:
        """Load the model; with several processes, each uses one thread."""
        if self._tagger is None:
            path = Path(self.datadir, self.MODEL_FILE)
            if not path.exists():
                raise NotInitializedException(f"model {path} not found", backend_id=self.backend_id)
            with self._readable_errors():
                self._tagger = lt.load(path)
        if parallel:
            self._tagger = self._tagger.with_threads(1)

    def get_hp_optimizer(self, corpus: DocumentCorpus, metric: str) -> Any:
        """Search the ranges that the estimator declares, on the given documents."""
        from longtail_annif.tuning import Objective, Optimizer

        return Optimizer(self, corpus, metric, Objective)

    def suggestions(self, tagger: lt.Tagger, texts: list[str], limit: int) -> SuggestionBatch:
        """Rank subjects; scores are the logistic function of the model's."""
        subject_ids = self._subject_ids(tagger)
        vectorizer = tagger.vectorizer
        rows = vectorizer.transform(texts, n_jobs=tagger.estimator.n_jobs)
        label_ids, scores = tagger.estimator.predict_top_k(rows, min(limit, tagger.n_labels_))
        found = np.where(label_ids < 0, -1, subject_ids[label_ids])
        found[vectorizer.rows_without_words(rows)] = -1  # no word is known: no suggestion
        is_known = found >= 0
        indptr = np.concatenate(([0], np.cumsum(is_known.sum(axis=1))))
        values = expit(scores[is_known], dtype=np.float32)
        shape = (len(texts), len(self.project.subjects))
        return SuggestionBatch(sp.csr_array((values, found[is_known], indptr), shape=shape))

    def texts_of(self, documents: Iterable[Document]) -> list[str]:
        """Return the texts; through Annif's analyzer if the vectorizer cannot do its work."""
        if not needs_analyzer(self.params):
            return [document.text for document in documents]
        tokenize = self.project.analyzer.tokenize_words
        return [" ".join(tokenize(document.text)) for document in documents]

    def training_documents(self) -> Documents:
        """Read the documents of the last training."""
        path = Path(self.datadir, self.TRAIN_FILE)
        if not path.exists():
            raise NotInitializedException(f"training data {path} not found", backend_id=self.backend_id)
        texts, labels = lt.datasets.read_text(path, max_line_bytes=_MAX_LINE_BYTES)
        return texts, labels

    # ---- what Annif calls -----------------------------------------------------------------------------------------

    def _train(self, corpus: DocumentCorpus | str, params: dict[str, Any], jobs: int = 0) -> None:
        documents = self.training_documents() if corpus == "cached" else self._read(corpus)
        self._fit(documents, params, jobs)

    def _learn(self, corpus: DocumentCorpus, params: dict[str, Any]) -> None:
        """Train again with more documents; new subjects of a known text replace its old ones."""
        self._fit(_merged(self.training_documents(), self._read(corpus)), params)

    def _suggest_batch(self, documents: list[Document], params: dict[str, Any]) -> SuggestionBatch:
        with self._readable_errors():
            limit = read_limit(params)
        return self.suggestions(self._tagger, self.texts_of(documents), limit)

    # ---- inner parts ----------------------------------------------------------------------------------------------

    def _read(self, corpus: DocumentCorpus) -> Documents:
        documents = [document for document in corpus.documents if document.subject_set]
        if not documents:
            raise NotSupportedException(f"Cannot train {self.name} project with no documents")
        subjects = self.project.subjects
        labels = [[subjects[subject_id].uri for subject_id in document.subject_set] for document in documents]
        return self.texts_of(documents), labels

    def _fit(self, documents: Documents, params: dict[str, Any], jobs: int = 0) -> None:
        with self._readable_errors():
            for name in unknown_settings(params):
                self.warning(f"unknown setting {name} has no effect")
            tagger = make_tagger(params, n_jobs=jobs or None)
            self.info(f"training {tagger.estimator!r} on {len(documents[0])} documents")
            tagger.fit(*documents)
            # Documents first: after a crash in between, `learn` repeats what the old model lacks.
            lt.datasets.write_text(Path(self.datadir, self.TRAIN_FILE), *documents, overwrite=True)
            lt.save(tagger, Path(self.datadir, self.MODEL_FILE), overwrite=True)
        self._tagger = tagger.with_threads(None)

    def _subject_ids(self, tagger: lt.Tagger) -> np.ndarray:
        """Return the subject id of each label; -1 if the vocabulary no longer has it or the project excludes it."""
        if self._subjects is None or self._subjects[0] is not tagger:
            known = {subject.uri: subject_id for subject_id, subject in self.project.subjects.active}
            names = tagger.label_names_
            ids = np.array([known.get(uri, -1) for uri in names], np.int32)
            if missing := [uri for uri in names if uri not in known]:
                self.warning(
                    f"{len(missing)} of {len(names)} labels of the model are not in the project's vocabulary and are "
                    f"never suggested, such as {missing[0]}; training again leaves them out of the model"
                )
            self._subjects = tagger, ids
        return self._subjects[1]

    @contextlib.contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Turn errors about values and files into Annif's, which its commands print as one line."""
        try:
            yield
        except (ValueError, TypeError, ImportError, OSError) as error:
            raise OperationFailedException(str(error), backend_id=self.backend_id) from error


def _merged(old: Documents, new: Documents) -> Documents:
    latest = dict(zip(*new, strict=True))
    rows = [(text, latest.get(text, names)) for text, names in zip(*old, strict=True)]
    known = set(old[0])
    rows += [(text, names) for text, names in latest.items() if text not in known]
    return [text for text, _ in rows], [names for _, names in rows]
