"""The spaCy component `longtail`: labels of a saved Tagger in `doc.cats`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import minibatch

import longtail as lt
from longtail.tagging import takes_texts


@Language.factory(
    "longtail", assigns=["doc.cats"], default_config={"model": None, "top_k": 10, "threshold": None, "n_jobs": 1}
)
def make_component(
    nlp: Language,
    name: str,
    model: str | None,
    top_k: int | None,
    threshold: float | str | None,
    n_jobs: int | None,
) -> LabelsComponent:
    """Make the component from a pipeline's configuration."""
    return LabelsComponent(model, top_k=top_k, threshold=threshold, n_jobs=n_jobs)


class LabelsComponent:
    """Put the labels of each document into `doc.cats`, with scores in [0, 1].

    Scores are probabilities if the tagger is calibrated, else the logistic function of its scores.

    Parameters
    ----------
    model : path of a saved Tagger, optional
        Loaded when it is first used. A pipeline that was saved has its own copy and does not read the path again.
    top_k, threshold : as for `Tagger.tag`
    n_jobs : int or None
        Threads; None means all that may be used.
    """

    def __init__(
        self, model: str | None = None, *, top_k: int | None = 10, threshold: Any = None, n_jobs: int | None = 1
    ) -> None:
        self._path = model
        self._tagger: lt.Tagger | None = None
        self._n_jobs = n_jobs
        self.top_k = top_k
        self.threshold = threshold

    @property
    def tagger(self) -> lt.Tagger:
        """The tagger; loaded when it is first used."""
        if self._tagger is None:
            if self._path is None:
                raise ValueError('longtail: model must be the path of a saved Tagger: config={"model": "tags.model"}')
            self._tagger = self._load(self._path)
        return self._tagger

    def __call__(self, doc: Doc) -> Doc:
        """Label one document."""
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 256) -> Iterator[Doc]:
        """Label documents in batches."""
        for docs in minibatch(stream, batch_size):
            rows = self.tagger.tag([doc.text for doc in docs], self.top_k, threshold=self.threshold)
            for doc, tags in zip(docs, rows, strict=True):
                doc.cats = {**doc.cats, **{tag.label: tag.unit_score for tag in tags}}
                yield doc

    def to_disk(self, path: str | Path, *, exclude: Any = ()) -> None:
        """Save the tagger with the pipeline."""
        lt.save(self.tagger, path, overwrite=True)

    def from_disk(self, path: str | Path, *, exclude: Any = ()) -> LabelsComponent:
        """Load the tagger of a saved pipeline."""
        self._tagger = self._load(path)
        return self

    def to_bytes(self, *, exclude: Any = ()) -> bytes:
        """Refuse: spaCy would otherwise leave the model out without a word."""
        raise NotImplementedError(
            "longtail: the model is a directory of mapped arrays, which bytes cannot hold; save the pipeline with "
            'nlp.to_disk(path), or leave the component out with nlp.to_bytes(exclude=["longtail"])'
        )

    def from_bytes(self, data: bytes, *, exclude: Any = ()) -> LabelsComponent:
        """Refuse, as `to_bytes` does."""
        raise NotImplementedError("longtail: a model is not read from bytes; load the pipeline with spacy.load(path)")

    def _load(self, path: str | Path) -> lt.Tagger:
        model = lt.load(path)
        if not takes_texts(model):
            raise TypeError(f"longtail: model must be a Tagger of texts, got a {type(model).__name__} in {path}")
        return model.with_threads(self._n_jobs)
