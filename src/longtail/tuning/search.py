"""Which parameters to try next: at random, or where earlier trials went well.

The second is the tree-structured Parzen estimator of Bergstra et al. (2011) for parameters without a tree: the best
tenth of the trials and the others each give a density per parameter, and of a few draws from the good one the draw
with the greatest ratio good / bad is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from longtail._ranges import OneOf, Range

Search = Literal["random", "tpe"]

_N_RANDOM = 10  # random trials before the densities are used
_GOOD_SHARE = 0.1
# More draws or narrower kernels make the search greedy, and worse than random search on toy problems.
_N_DRAWS = 8
_LEAST_WIDTH = 0.1


def propose(
    search: Search,
    ranges: Mapping[str, Range],
    tried: Sequence[tuple[Mapping[str, Any], float]],
    random: np.random.Generator,
) -> dict[str, Any]:
    """Return parameters to try; `tried` holds earlier ones with their scores (greater is better)."""
    if search == "random" or len(tried) < _N_RANDOM:
        return {name: found.at(float(random.random())) for name, found in ranges.items()}
    order = np.argsort([-score for _, score in tried], kind="stable")
    n_good = max(3, round(_GOOD_SHARE * len(tried)))
    good, bad = ([tried[i][0] for i in part] for part in (order[:n_good], order[n_good:]))
    return {
        name: _draw(found, [params[name] for params in good], [params[name] for params in bad], random)
        for name, found in ranges.items()
    }


def _draw(found: Range, good: list[Any], bad: list[Any], random: np.random.Generator) -> Any:
    if isinstance(found, OneOf):
        chances = _chances(found, good)
        choices = random.choice(len(found.values), size=_N_DRAWS, p=chances)
        return found.values[int(choices[np.argmax((chances / _chances(found, bad))[choices])])]
    shares, others = (np.array([found.share_of(value) for value in values]) for values in (good, bad))
    bells = random.normal(random.choice(shares, size=_N_DRAWS), _width(shares))
    is_flat = (random.random(_N_DRAWS) < 1 / (len(shares) + 1)) | (bells < 0) | (bells >= 1)
    draws = np.where(is_flat, random.random(_N_DRAWS), bells)
    ratios = _density(shares, draws) / _density(others, draws)
    return found.at(float(draws[np.argmax(ratios)]))


def _chances(found: OneOf, values: list[Any]) -> NDArray[np.float64]:
    counts = np.array([1.0 + sum(value == known for value in values) for known in found.values])
    return np.asarray(counts / counts.sum())


def _width(shares: NDArray[np.float64]) -> float:
    return max(_LEAST_WIDTH, float(shares.std()) * len(shares) ** -0.2) if len(shares) else 1.0


def _density(shares: NDArray[np.float64], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a mixture of Gaussians over [0, 1] and a uniform part, which keeps the ratio finite."""
    width = _width(shares)
    bells = np.exp(-0.5 * ((at[:, None] - shares[None, :]) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    return np.asarray((bells.sum(axis=1) + 1) / (len(shares) + 1))
