"""Baselines that the papers compare with."""

from longtail.baselines.popularity import Popularity

__all__ = ["Popularity"]
