"""Keep the workers of the service running. Workers are forked, so this is for POSIX systems only."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import select
import signal
import time
from collections.abc import Callable
from typing import NoReturn

from longtail import _os

_logger = logging.getLogger("longtail.serve")
_EARLY_SECONDS = 1.0
_MAX_EARLY_DEATHS = 5


class Supervisor:
    """Keep `n_workers` processes running; pass signals on to them."""

    def __init__(
        self,
        work: Callable[[int, int, Callable[[], None]], None],
        reload: Callable[[], None],
        n_workers: int,
        stop_timeout_seconds: float,
    ) -> None:
        """`work(worker_id, life, on_started)` runs in a worker until the descriptor `life` is at its end."""
        self._serve = work
        self._reload = reload
        self._stop_timeout_seconds = stop_timeout_seconds
        self._n_workers = n_workers
        self._worker_ids: dict[int, int] = {}  # by process id
        self._started_at: dict[int, float] = {}
        self._n_early_deaths = 0
        self._start_at: dict[int, float] = {}  # by worker id: workers that wait to be started again
        self._is_stopping = False
        self._give_up_at = math.inf
        # Workers read this pipe. It is closed when the supervisor ends, however it dies, and then they stop too.
        self._life, self._death = os.pipe()
        self._ready, self._report_ready = os.pipe()

    def run(self, on_started: Callable[[], None] | None) -> int:
        # Signals are blocked and waited for, so that no handler interrupts anything and none is lost.
        old_mask = _os.block_signals()
        try:
            for worker_id in range(self._n_workers):
                self._start(worker_id, old_mask)
            while self._worker_ids and time.monotonic() < self._give_up_at:
                if on_started and select.select([self._ready], [], [], 0)[0]:
                    on_started()
                    on_started = None
                self._start_waiting(old_mask)
                next_at = min(self._give_up_at, *self._start_at.values(), time.monotonic() + 3600)
                seconds = max(0.0, next_at - time.monotonic())
                received = _os.wait_for_signal(0.01 if on_started else seconds)
                if received is not None:
                    self._handle(received, old_mask)
            return 0 if self._is_stopping else 1
        finally:
            self._kill_rest()
            _os.unblock_signals(old_mask)

    def _handle(self, signal_number: int, mask: set[int]) -> None:
        if signal_number == _os.RELOAD:
            self._reload()
        elif signal_number == _os.CHILD_ENDED:
            self._reap_and_replace(mask)
        else:
            self._is_stopping = True
            self._start_at.clear()
            # Workers end by themselves in time; half a second later they are killed.
            self._give_up_at = min(self._give_up_at, time.monotonic() + self._stop_timeout_seconds + 0.5)
            self._send(signal.SIGTERM)

    def _start(self, worker_id: int, mask: set[int]) -> None:
        process_id = _os.fork()
        if process_id == 0:
            self._work(worker_id, mask)
        self._worker_ids[process_id] = worker_id
        self._started_at[process_id] = time.monotonic()

    def _work(self, worker_id: int, mask: set[int]) -> NoReturn:
        code = 1
        try:
            os.close(self._death)
            signal.signal(_os.RELOAD, signal.SIG_IGN)  # the supervisor asks for reloads through the board
            _os.unblock_signals(mask)
            self._serve(worker_id, self._life, self._report)
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            _logger.exception("worker %d failed", worker_id)
        finally:
            os._exit(code)  # skips the supervisor's clean-up, which this process inherited

    def _report(self) -> None:
        os.write(self._report_ready, b"r")

    def _reap_and_replace(self, mask: set[int]) -> None:
        while self._worker_ids:
            ended = _os.ended_child()
            if ended is None:
                return
            process_id, code = ended
            worker_id = self._worker_ids.pop(process_id)
            is_early = time.monotonic() - self._started_at.pop(process_id) < _EARLY_SECONDS
            if self._is_stopping:
                continue
            _logger.warning("worker %d ended with status %d", worker_id, code)
            self._n_early_deaths = self._n_early_deaths + 1 if is_early else 0
            if self._n_early_deaths < _MAX_EARLY_DEATHS:
                self._start(worker_id, mask)
            elif self._worker_ids:  # the others still serve
                self._start_at[worker_id] = time.monotonic() + _EARLY_SECONDS
            else:
                _logger.error("workers exit as soon as they start; giving up")

    def _start_waiting(self, mask: set[int]) -> None:
        for worker_id, at in list(self._start_at.items()):
            if time.monotonic() >= at and not self._is_stopping:
                del self._start_at[worker_id]
                self._start(worker_id, mask)

    def _send(self, signal_number: int) -> None:
        for process_id in self._worker_ids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal_number)

    def _kill_rest(self) -> None:
        self._send(_os.KILL)
        for process_id in self._worker_ids:
            with contextlib.suppress(ChildProcessError):
                _os.wait_for_child(process_id)
        for end in (self._life, self._death, self._ready, self._report_ready):
            os.close(end)
