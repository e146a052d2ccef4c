"""Run the application: one socket, one or more worker processes, signals."""

from __future__ import annotations

import contextlib
import gc
import ipaddress
import logging
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import uvicorn

from longtail.serve.app import create_app
from longtail.serve.board import Board
from longtail.serve.limits import Limits

if TYPE_CHECKING:
    from fastapi import FastAPI

_logger = logging.getLogger("longtail.serve")
_BACKLOG = 1024
# A worker takes at most this many waiting connections in one go, so that a burst spreads over the workers.
_ACCEPTS_AT_ONCE = 4
_MAX_EARLY_DEATHS = 5
_EARLY_SECONDS = 1.0
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def serve(
    model: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    n_workers: int = 1,
    limits: Limits | None = None,
    api_key: str | None = None,
    allowed_hosts: Iterable[str] = (),
    on_ready: Callable[[str], None] = lambda url: None,
) -> int:
    """Serve a model until SIGTERM or Ctrl-C; SIGHUP reloads it. Returns the exit code.

    The model is loaded once and the workers are forked from this process: they share its mapped arrays, and also its
    other memory as long as they do not write to it.
    """
    limits = limits or Limits()
    board = Board(n_workers)
    names = _host_names(host, allowed_hosts)
    with _listen(host, port) as listener:  # first: clients that come while the model is loaded wait and are served
        app = create_app(model, limits=limits, api_key=api_key, allowed_hosts=names, board=board)
        config = _make_config(app, limits)
        url = _url(host, listener.getsockname()[1])
        if n_workers == 1 or not hasattr(os, "fork"):
            board.become_worker(0)
            if hasattr(signal, "SIGHUP"):
                signal.signal(signal.SIGHUP, lambda *_: board.call_reload())
            _run_server(config, listener, on_started=lambda: on_ready(url))
            return 0
        return _Supervisor(config, listener, board, n_workers).run(on_started=lambda: on_ready(url))


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach a service bound to `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _host_names(host: str, allowed_hosts: Iterable[str]) -> list[str] | None:
    allowed = list(allowed_hosts)
    if not is_loopback(host) and not allowed:
        return None
    return [*_LOOPBACK_NAMES, f"[{host}]" if ":" in host else host, *allowed]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from None


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn, with a word when it is ready."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._listener = listener
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # uvicorn has set the queue to the number of connections to take at once; the kernel may queue more.
        self._listener.listen(_BACKLOG)
        if self.started:
            self._on_started()


def _make_config(app: FastAPI, limits: Limits) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        backlog=_ACCEPTS_AT_ONCE,
        timeout_graceful_shutdown=max(1, round(limits.stop_timeout_seconds)),
    )
    config.load()  # imports the protocols now: before the workers are forked, which then share them
    return config


def _run_server(config: uvicorn.Config, listener: socket.socket, on_started: Callable[[], None]) -> None:
    # uvicorn stops in good order and then repeats the signal for whoever handled it before: that is us, and it is done.
    signal.signal(signal.SIGTERM, _exit)
    with contextlib.suppress(KeyboardInterrupt, SystemExit):
        _Server(config, listener, on_started).run(sockets=[listener])


def _exit(*_: object) -> NoReturn:
    raise SystemExit(0)


class _Supervisor:
    """Keep `n_workers` processes running; pass signals on to them."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, board: Board, n_workers: int) -> None:
        self._config = config
        self._listener = listener
        self._board = board
        self._n_workers = n_workers
        self._worker_ids: dict[int, int] = {}  # by process id
        self._started_at: dict[int, float] = {}
        self._n_early_deaths = 0
        self._is_stopping = False
        # Workers read this pipe; it ends when the supervisor does, however it dies, and then they stop too.
        self._life, self._death = os.pipe()
        self._ready, self._report_ready = os.pipe()

    def run(self, on_started: Callable[[], None] | None) -> int:
        signals = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
        # Blocked and waited for: no handler runs at a bad moment, and none is lost.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            gc.collect()
            gc.freeze()  # keeps the collector from writing to the pages that the workers share
            for worker_id in range(self._n_workers):
                self._start(worker_id, old_mask)
            while self._worker_ids:
                if on_started and select.select([self._ready], [], [], 0)[0]:
                    on_started()
                    on_started = None
                received = signal.sigtimedwait(signals, 0.01 if on_started else 3600)
                if received:
                    self._handle(received.si_signo, old_mask)
            return 0 if self._is_stopping else 1
        finally:
            self._kill_rest()
            gc.unfreeze()
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)

    def _handle(self, signal_number: int, mask: set[int]) -> None:
        if signal_number == signal.SIGHUP:
            self._board.call_reload()
        elif signal_number == signal.SIGCHLD:
            self._bury_and_replace(mask)
        else:
            self._is_stopping = True
            self._send(signal.SIGTERM)

    def _start(self, worker_id: int, mask: set[int]) -> None:
        process_id = os.fork()
        if process_id == 0:
            self._work(worker_id, mask)
        self._worker_ids[process_id] = worker_id
        self._started_at[process_id] = time.monotonic()

    def _work(self, worker_id: int, mask: set[int]) -> NoReturn:
        code = 1
        try:
            os.close(self._death)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor tells by the board
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._board.become_worker(worker_id)
            _stop_when_orphaned(self._life)
            _run_server(self._config, self._listener, on_started=self._tell_ready)
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        except BaseException:
            _logger.exception("worker %d failed", worker_id)
        finally:
            os._exit(code)  # nothing of the supervisor's own clean-up belongs here

    def _tell_ready(self) -> None:
        os.write(self._report_ready, b"r")

    def _bury_and_replace(self, mask: set[int]) -> None:
        while self._worker_ids:
            process_id, status = os.waitpid(-1, os.WNOHANG)
            if process_id == 0:
                return
            worker_id = self._worker_ids.pop(process_id)
            is_early = time.monotonic() - self._started_at.pop(process_id) < _EARLY_SECONDS
            if self._is_stopping:
                continue
            _logger.warning("worker %d ended (%s)", worker_id, os.waitstatus_to_exitcode(status))
            self._n_early_deaths = self._n_early_deaths + 1 if is_early else 0
            if self._n_early_deaths < _MAX_EARLY_DEATHS:
                self._start(worker_id, mask)
            else:
                _logger.error("workers end as soon as they start; giving up")
                self._send(signal.SIGTERM)

    def _send(self, signal_number: int) -> None:
        for process_id in self._worker_ids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process_id, signal_number)

    def _kill_rest(self) -> None:
        self._send(signal.SIGKILL)
        for process_id in self._worker_ids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process_id, 0)
        for end in (self._life, self._death, self._ready, self._report_ready):
            os.close(end)


def _stop_when_orphaned(life: int) -> None:
    """End this worker in good order when the supervisor is gone."""
    import threading

    def wait() -> None:
        select.select([life], [], [])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="orphan watch").start()
