"""Splits of rows that keep rare labels on every side."""

from longtail.model_selection.stratification import stratified_folds, stratified_split

__all__ = ["stratified_folds", "stratified_split"]
