"""`annif hyperopt`: try parameters in the ranges that the estimator declares."""

from __future__ import annotations

from typing import Any

from annif.backend.hyperopt import HPObjective, HPRecommendation, HyperparameterOptimizer
from annif.eval import EvaluationBatch

from longtail.tuning import OneOf
from longtail_annif.settings import make_tagger, read_limit


class Objective(HPObjective):
    """Train with one choice of parameters and measure it on the validation documents."""

    @classmethod
    def objective(cls, trial: Any, args: dict[str, Any]) -> float:
        backend, metric = args["backend"], args["metric"]
        tagger = args["tagger"]
        chosen = {name: _suggested(trial, name, found) for name, found in tagger.estimator._ranges.items()}
        tagger = make_tagger(dict(backend.params) | chosen, n_jobs=args["n_threads"]).fit(*args["documents"])
        batch = EvaluationBatch(backend.project.subjects)
        limit = read_limit(backend.params)
        batch.evaluate_many(backend.suggestions(tagger, args["texts"], limit), args["gold"])
        return batch.results(metrics=[metric])[metric]


class Optimizer(HyperparameterOptimizer):
    """Hyperparameter optimizer of the longtail backend."""

    def _prepare(self, n_jobs: int = 1) -> dict[str, Any]:
        validation = list(self._corpus.documents)
        return {
            "backend": self._backend,
            "tagger": make_tagger(self._backend.params),
            "documents": self._backend.training_documents(),
            "texts": self._backend.texts_of(validation),
            "gold": [document.subject_set for document in validation],
            "metric": self._metric,
            "n_threads": None if n_jobs == 1 else 1,
        }

    def _postprocess(self, study: Any) -> HPRecommendation:
        lines = [f"{name}={value}" for name, value in study.best_params.items()]
        return HPRecommendation(lines=lines, score=study.best_value)


def _suggested(trial: Any, name: str, found: Any) -> Any:
    if isinstance(found, OneOf):
        return trial.suggest_categorical(name, list(found.values))
    if found.is_whole:
        return trial.suggest_int(name, found.low, found.high, log=found.log)
    return trial.suggest_float(name, found.low, found.high, log=found.log)
