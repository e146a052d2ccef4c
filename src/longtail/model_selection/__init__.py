"""Splits of rows that keep rare labels on every side, and cross-validation with them."""

from longtail.model_selection.stratification import stratified_folds, stratified_split
from longtail.model_selection.validation import StratifiedFolds, StratifiedShuffles, cross_val_score, cross_validate

__all__ = [
    "StratifiedFolds",
    "StratifiedShuffles",
    "cross_val_score",
    "cross_validate",
    "stratified_folds",
    "stratified_split",
]
