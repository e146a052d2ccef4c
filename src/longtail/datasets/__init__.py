"""Read, write and make data sets: sparse rows with sparse labels, or raw text with label names."""

from longtail.datasets.xmc import read_xmc

__all__ = ["read_xmc"]
