"""Counters of all worker processes in shared memory.

The board is mapped before the workers are forked. Each worker writes only its own row, so no lock between processes is
needed, and any worker can answer /metrics for all of them. A restarted worker continues the row of its predecessor:
counters never decrease.
"""

from __future__ import annotations

import bisect
import mmap
import threading

import numpy as np

ENDPOINTS = (
    "tag",
    "tag-batch",
    "explain",
    "labels",
    "examples",
    "model",
    "reload",
    "feedback",
    "queue",
    "models",
    "annif",
    "v2",
    "health",
    "metrics",
    "page",
    "other",
)
STATUSES = (200, 304, 400, 401, 403, 404, 405, 408, 409, 413, 422, 431, 500, 503, 507)
BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)

_ENDPOINT_IDS = {name: i for i, name in enumerate(ENDPOINTS)}
_STATUS_IDS = {status: i for i, status in enumerate(STATUSES)}

_ROW = np.dtype(
    [
        ("requests", np.int64, (len(ENDPOINTS), len(STATUSES) + 1)),  # the last column counts all other statuses
        ("buckets", np.int64, (len(ENDPOINTS), len(BUCKETS) + 1)),
        ("seconds", np.float64, (len(ENDPOINTS),)),
        ("texts", np.int64),
        ("in_flight", np.int64),
        ("reloads", np.int64),
        ("failed_reloads", np.int64),
        ("reload_calls", np.int64),  # reload requests seen by this process; their sum is the wanted generation
    ]
)


class Board:
    """Counters by worker; row `n_workers` belongs to the supervisor."""

    def __init__(self, n_workers: int = 1) -> None:
        size_bytes = (n_workers + 1) * _ROW.itemsize
        self._memory = mmap.mmap(-1, size_bytes)  # anonymous and shared: forked workers see the same pages
        self.rows = np.frombuffer(self._memory, dtype=_ROW)
        self._row = self.rows[n_workers]
        self._lock = threading.Lock()

    def become_worker(self, worker_id: int) -> None:
        """Write to this worker's row from now on; called in the worker, right after the fork."""
        self._row = self.rows[worker_id]
        self._row["in_flight"] = 0
        self._lock = threading.Lock()

    def add_request(self, endpoint: str, status: int, seconds: float) -> None:
        """Count one answered request."""
        endpoint_id = _ENDPOINT_IDS[endpoint]
        with self._lock:
            self._row["requests"][endpoint_id, _STATUS_IDS.get(status, len(STATUSES))] += 1
            self._row["buckets"][endpoint_id, bisect.bisect_left(BUCKETS, seconds)] += 1
            self._row["seconds"][endpoint_id] += seconds

    def add_texts(self, n_texts: int) -> None:
        """Count texts that were tagged."""
        with self._lock:
            self._row["texts"] += n_texts

    def add_reload(self, *, failed: bool) -> None:
        """Count one reload of the model."""
        with self._lock:
            self._row["failed_reloads" if failed else "reloads"] += 1

    def set_in_flight(self, n_requests: int) -> None:
        """Publish how many requests this worker has accepted and not yet answered."""
        self._row["in_flight"] = n_requests

    def call_reload(self) -> None:
        """Ask every worker to reload the model; takes no lock, because signal handlers call it."""
        self._row["reload_calls"] += 1

    @property
    def n_reload_calls(self) -> int:
        """How often any process was asked to reload."""
        return int(self.rows["reload_calls"].sum())
