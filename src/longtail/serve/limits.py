"""What one service accepts before it refuses."""

from __future__ import annotations

from dataclasses import dataclass

from longtail._rules import Int, Real, Rule, check_params
from longtail._threads import available_cpus

_RULES: dict[str, tuple[Rule, ...]] = {
    "max_request_bytes": (Int(1024, 1 << 30),),
    "max_text_chars": (Int(1, 1 << 28),),
    "max_batch": (Int(1, 100_000),),
    "max_top_k": (Int(1, 10_000),),
    "n_threads": (Int(1, 1024),),
    "queue_size": (Int(0, 100_000),),
    "body_timeout_seconds": (Real(0.001, 3600),),
    "stop_timeout_seconds": (Real(0, 3600),),
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one service; each worker process keeps its own queue.

    Parameters
    ----------
    max_request_bytes : int, default 1 MiB
        Larger bodies are answered with 413 before they are read.
    max_text_chars : int, default 100,000
        Longest text, in characters.
    max_batch : int, default 256
        Most texts in one batch.
    max_top_k : int, default 100
        Most labels a text.
    n_threads : int, default the CPUs this process may use, at least 2
        Requests worked on at the same time.
    queue_size : int, default 256
        Requests that may wait for a thread; further ones are answered with 503 and Retry-After.
    body_timeout_seconds : float, default 10
        How long a client may take to send its body.
    stop_timeout_seconds : float, default 10
        How long a stopping service waits for the requests it has accepted.
    """

    max_request_bytes: int = 1 << 20
    max_text_chars: int = 100_000
    max_batch: int = 256
    max_top_k: int = 100
    n_threads: int = max(2, available_cpus())
    queue_size: int = 256
    body_timeout_seconds: float = 10.0
    stop_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        check_params("Limits", vars(self), _RULES)
