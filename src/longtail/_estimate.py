"""What a fit is expected to take."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Estimate:
    """What a fit is expected to take.

    Attributes
    ----------
    seconds : float, wall-clock time with the threads asked for
    cpu_seconds : float, over all threads
    memory_bytes : int, peak of what fit allocates, the model included, without X and Y
    model_bytes : int, size of the fitted arrays
    probe_seconds : float, what the probe took
    """

    seconds: float
    cpu_seconds: float
    memory_bytes: int
    model_bytes: int
    probe_seconds: float

    def with_calibration(self, n_fits: float) -> Estimate:
        """Return what the fit takes with ``calibrate=True``: further fits, on so many times the rows."""
        times = 1 + n_fits
        return replace(self, seconds=times * self.seconds, cpu_seconds=times * self.cpu_seconds)


# Fits on more and more rows end with the first that takes so many CPU seconds.
_PROBE_SECONDS = 0.5
_FIRST_ROWS = 250
# How the cost of a fit may grow with the rows: as a power of their number.
_LEAST_GROWTH = 1.0
_GREATEST_GROWTH = 1.2


def probe_by_rows(fit: Callable[[int], int], n_rows: int, data_bytes: int, n_jobs: int) -> Estimate:
    """Fit on more and more rows until that takes a while, and extrapolate to all of them.

    Parameters
    ----------
    fit : callable(n_rows) -> size of the fitted model in bytes, on one thread
    n_rows : int
    data_bytes : int, size of the rows: a fit may copy them once
    n_jobs : int
    """
    begin = time.perf_counter()
    found: list[tuple[int, float, int]] = []
    size = min(n_rows, _FIRST_ROWS)

    def fit_quietly(n_rows: int) -> int:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are about so few rows, not about the fit that is asked for
            return fit(n_rows)

    fit_quietly(min(n_rows, 20))  # loads what the first fit of a process loads
    while True:
        cpu = time.process_time()
        model_bytes = fit_quietly(size)
        found.append((size, max(time.process_time() - cpu, 1e-6), model_bytes))
        if size == n_rows or found[-1][1] >= _PROBE_SECONDS:
            break
        size = min(n_rows, 2 * size)
    last_rows, last_cpu, last_bytes = found[-1]
    growth = _LEAST_GROWTH
    if len(found) > 1:
        rows, cpu, _ = found[-2]
        growth = min(max(math.log(last_cpu / cpu) / math.log(last_rows / rows), _LEAST_GROWTH), _GREATEST_GROWTH)
    cpu_seconds = last_cpu * (n_rows / last_rows) ** growth
    model_bytes = round(last_bytes * n_rows / last_rows)
    return Estimate(
        seconds=cpu_seconds / n_jobs,
        cpu_seconds=cpu_seconds,
        memory_bytes=2 * model_bytes + data_bytes,
        model_bytes=model_bytes,
        probe_seconds=time.perf_counter() - begin,
    )


def one_after_the_other(fits: Iterable[Estimate]) -> Estimate:
    """Add up fits that are made one after the other and whose models are kept."""
    parts = list(fits)
    return Estimate(
        seconds=sum(part.seconds for part in parts),
        cpu_seconds=sum(part.cpu_seconds for part in parts),
        memory_bytes=sum(part.model_bytes for part in parts)
        + max(part.memory_bytes - part.model_bytes for part in parts),
        model_bytes=sum(part.model_bytes for part in parts),
        probe_seconds=sum(part.probe_seconds for part in parts),
    )
