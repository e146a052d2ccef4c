"""Limits of one service."""

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
    "max_header_bytes": (Int(1024, 1 << 24),),
    "max_connections": (Int(1, 1_000_000),),
    "max_connections_per_address": (Int(1, 1_000_000),),
    "max_words": (Int(1, 1_000_000),),
    "header_timeout_seconds": (Real(0.001, 3600),),
    "body_timeout_seconds": (Real(0.001, 3600),),
    "work_timeout_seconds": (Real(0.001, 86400),),
    "stop_timeout_seconds": (Real(0, 3600),),
}


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of one service. Each worker process has a queue and connections of its own.

    Parameters
    ----------
    max_request_bytes : int, default 1 MiB
        Larger bodies are answered with 413 before they are read.
    max_text_chars : int, default 100,000
        Longest text, in characters.
    max_batch : int, default 256
        Most texts in one batch.
    max_top_k : int, default 100
        Most labels per text.
    max_words : int, default 1,000
        Most words in one explanation, those with the largest contributions.
    n_threads : int, default the CPUs this process may use, at least 2
        Requests worked on at the same time.
    queue_size : int, default 256
        Complete requests that may wait for a thread; further ones are answered with 503 and Retry-After.
    max_header_bytes : int, default 32 KiB
        Larger heads (request line and headers) are answered with 431.
    max_connections : int, default 512
        Open connections; further ones are answered with 503 and closed.
    max_connections_per_address : int, default 256
        Open connections from one IPv4 address or one IPv6 network (/64).
    header_timeout_seconds : float, default 10
        How long a client may take to send the head of a request; then 408.
    body_timeout_seconds : float, default 10
        How long a client may take to send a body (then 408), or to take an answer that is larger than the buffers.
    work_timeout_seconds : float, default 30
        How long a complete request may wait and be worked on; then 503.
    stop_timeout_seconds : float, default 10
        A service that is asked to stop ends after this time at the latest, whatever is still running.
    """

    max_request_bytes: int = 1 << 20
    max_text_chars: int = 100_000
    max_batch: int = 256
    max_top_k: int = 100
    max_words: int = 1_000
    n_threads: int = max(2, available_cpus())
    queue_size: int = 256
    max_header_bytes: int = 32 << 10
    max_connections: int = 512
    max_connections_per_address: int = 256
    header_timeout_seconds: float = 10.0
    body_timeout_seconds: float = 10.0
    work_timeout_seconds: float = 30.0
    stop_timeout_seconds: float = 10.0

    def __post_init__(self) -> None:
        check_params("Limits", vars(self), _RULES)
