"""Ranking metrics for many labels, plain and propensity-scored.

Every metric is in percent. `evaluate` computes them all in one pass, `Evaluator` does so batch
by batch.
"""

from longtail.metrics.evaluation import Evaluation, Evaluator, evaluate
from longtail.metrics.macro import (
    Interval,
    LabelTable,
    balanced_accuracy_at_k,
    confidence_interval,
    decision_table,
    label_table,
    macro_f1_at_k,
    macro_precision_at_k,
    macro_recall_at_k,
)
from longtail.metrics.plain import (
    adg,
    coverage_at_k,
    f_beta_at_k,
    hamming_loss,
    mrr,
    ndcg_at_k,
    precision_at_k,
    recall_at_k,
)
from longtail.metrics.propensity_scored import (
    psadg,
    psf_beta_at_k,
    pshamming_loss,
    psmrr,
    psndcg_at_k,
    psprecision_at_k,
    psrecall_at_k,
)
from longtail.metrics.tail import LabelGroup, TailEvaluation, evaluate_tail

__all__ = [
    "Evaluation",
    "Evaluator",
    "Interval",
    "LabelGroup",
    "LabelTable",
    "TailEvaluation",
    "adg",
    "balanced_accuracy_at_k",
    "confidence_interval",
    "coverage_at_k",
    "decision_table",
    "evaluate",
    "evaluate_tail",
    "f_beta_at_k",
    "hamming_loss",
    "label_table",
    "macro_f1_at_k",
    "macro_precision_at_k",
    "macro_recall_at_k",
    "mrr",
    "ndcg_at_k",
    "precision_at_k",
    "psadg",
    "psf_beta_at_k",
    "pshamming_loss",
    "psmrr",
    "psndcg_at_k",
    "psprecision_at_k",
    "psrecall_at_k",
    "recall_at_k",
]
