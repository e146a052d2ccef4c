"""Baselines that the papers compare with."""

from longtail.baselines.leml import LEML
from longtail.baselines.popularity import Popularity

__all__ = ["LEML", "Popularity"]
