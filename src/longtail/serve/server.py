"""Run the application: one socket, one or more worker processes, signals."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import ipaddress
import logging
import math
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, cast

import uvicorn

from longtail.serve.board import Board
from longtail.serve.connections import LimitedProtocol
from longtail.serve.gate import LOOPBACK_NAMES
from longtail.serve.limits import Limits
from longtail.serve.several import ModelSettings, Service

_logger = logging.getLogger("longtail.serve")
_BACKLOG = 1024
# A worker accepts at most this many waiting connections at a time, so that a burst spreads over the workers.
_ACCEPTS_AT_ONCE = 4
_TICKS_PER_SWEEP = 5  # of uvicorn's main loop, a tenth of a second each
_SWEEP_SECONDS = 0.5
_MAX_EARLY_DEATHS = 5
_EARLY_SECONDS = 1.0


def serve(
    models: Path | Mapping[str, ModelSettings],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    n_workers: int = 1,
    limits: Limits | None = None,
    api_key: str | None = None,
    allowed_hosts: Iterable[str] = (),
    verify: bool = True,
    on_ready: Callable[[str], None] = lambda url: None,
) -> int:
    """Serve one model or several until SIGTERM or Ctrl-C; SIGHUP reloads them. Return the exit code.

    Models are loaded once and the workers are forked from this process: they share its mapped arrays, and other memory
    as long as they do not write to it. `limits` hold for connections, and for the requests of a model given by its
    path; so does `api_key`.
    """
    limits = limits or Limits()
    if isinstance(models, Path):
        models = {"model": ModelSettings(source=models, limits=limits, api_key=api_key)}
    boards = {name: Board(n_workers) for name in models}
    names = _host_names(host, allowed_hosts)
    with _listen(host, port) as listener:  # first: clients that connect while the model is loaded wait
        app = Service(models, allowed_hosts=names, boards=boards, verify=verify)
        config = _make_config(app, limits, next(iter(boards.values())))
        url = _url(host, listener.getsockname()[1])
        if n_workers == 1 or not hasattr(os, "fork"):
            _become_worker(boards.values(), 0)
            if hasattr(signal, "SIGHUP"):
                signal.signal(signal.SIGHUP, lambda *_: _call_reload(boards.values()))
            _freeze_memory()
            _run_server(config, listener, limits, on_started=lambda: on_ready(url))
            return 0
        return _Supervisor(config, listener, limits, list(boards.values()), n_workers).run(
            on_started=lambda: on_ready(url)
        )


def _become_worker(boards: Iterable[Board], worker_id: int) -> None:
    for board in boards:
        board.become_worker(worker_id)


def _call_reload(boards: Iterable[Board]) -> None:
    for board in boards:
        board.call_reload()


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a service bound to `host`."""
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
    return [*LOOPBACK_NAMES, f"[{host}]" if ":" in host else host, *allowed]


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(f"cannot listen on {host} port {port}: {error.strerror}; choose another --port") from None


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn that reports when it is ready, enforces the connections' deadlines, and always stops in time."""

    def __init__(
        self,
        config: uvicorn.Config,
        listener: socket.socket,
        limits: Limits,
        on_started: Callable[[], None],
        life: int | None,
    ) -> None:
        super().__init__(config)
        self._listener = listener
        self._on_started = on_started
        self._life = life
        self._swept_at = math.inf
        self.stop_watch = _StopWatch(limits.stop_timeout_seconds)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._life is not None:
            asyncio.get_running_loop().add_reader(self._life, self._stop_as_orphan)
        await super().startup(sockets)
        # uvicorn has set the backlog to the number of connections to accept at once; the kernel may queue more.
        self._listener.listen(_BACKLOG)
        if self.started:
            self._on_started()

    def _stop_as_orphan(self) -> None:
        """Stop this worker: the supervisor is gone, and its end of the pipe closed."""
        asyncio.get_running_loop().remove_reader(cast(int, self._life))
        os.kill(os.getpid(), signal.SIGTERM)

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_PER_SWEEP == 0:
            now = asyncio.get_running_loop().time()
            late = now - self._swept_at - _SWEEP_SECONDS
            self._swept_at = now
            for connection in list(self.server_state.connections):
                if isinstance(connection, LimitedProtocol):
                    if late > _SWEEP_SECONDS:
                        connection.postpone(late)
                    connection.expire(now)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            self.stop_watch.start()
        super().handle_exit(sig, frame)


class _StopWatch:
    """End this process some time after `start`, even if threads still run: Python would wait for them for ever."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def start(self) -> None:
        if hasattr(signal, "setitimer"):
            # The kernel's own timer, in case native code keeps all Python threads from running.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, self._seconds + 1)
        # No thread may be left to the system. This runs in a signal handler: an error would lose the signal.
        with contextlib.suppress(RuntimeError):
            self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _end(self) -> None:
        _logger.warning("requests were still running after %g seconds; stopping without them", self._seconds)
        os._exit(0)


def _make_config(app: Service, limits: Limits, board: Board) -> uvicorn.Config:
    config = uvicorn.Config(
        cast(Any, app),
        http=cast(Any, functools.partial(LimitedProtocol, limits=limits, board=board)),
        access_log=False,
        log_config=None,
        log_level="error",  # clients' mistakes are answered and counted, not logged
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ws="none",
        backlog=_ACCEPTS_AT_ONCE,
        timeout_graceful_shutdown=max(1, math.ceil(limits.stop_timeout_seconds * 0.9)),
    )
    config.load()  # imports what is needed before the workers are forked, so that they share it
    return config


def _run_server(
    config: uvicorn.Config,
    listener: socket.socket,
    limits: Limits,
    on_started: Callable[[], None],
    life: int | None = None,
) -> None:
    # After a graceful stop uvicorn raises the signal again, for the handler that was installed before.
    signal.signal(signal.SIGTERM, _exit)
    server = _Server(config, listener, limits, on_started, life)
    threads = set(threading.enumerate())
    try:
        with contextlib.suppress(KeyboardInterrupt, SystemExit):
            server.run(sockets=[listener])
    finally:
        # Python waits for threads when it exits: the watch must go on if one still works.
        if all(thread.daemon for thread in set(threading.enumerate()) - threads):
            server.stop_watch.cancel()


def _exit(*_: object) -> NoReturn:
    raise SystemExit(0)


class _Supervisor:
    """Keep `n_workers` processes running; pass signals on to them."""

    def __init__(
        self, config: uvicorn.Config, listener: socket.socket, limits: Limits, boards: list[Board], n_workers: int
    ) -> None:
        self._config = config
        self._listener = listener
        self._limits = limits
        self._boards = boards
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
        signals = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
        # Signals are blocked and waited for, so that no handler interrupts anything and none is lost.
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            _freeze_memory()
            for worker_id in range(self._n_workers):
                self._start(worker_id, old_mask)
            while self._worker_ids and time.monotonic() < self._give_up_at:
                if on_started and select.select([self._ready], [], [], 0)[0]:
                    on_started()
                    on_started = None
                self._start_waiting(old_mask)
                next_at = min(self._give_up_at, *self._start_at.values(), time.monotonic() + 3600)
                seconds = max(0.0, next_at - time.monotonic())
                received = signal.sigtimedwait(signals, 0.01 if on_started else seconds)
                if received:
                    self._handle(received.si_signo, old_mask)
            return 0 if self._is_stopping else 1
        finally:
            self._kill_rest()
            gc.unfreeze()
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)

    def _handle(self, signal_number: int, mask: set[int]) -> None:
        if signal_number == signal.SIGHUP:
            _call_reload(self._boards)
        elif signal_number == signal.SIGCHLD:
            self._reap_and_replace(mask)
        else:
            self._is_stopping = True
            self._start_at.clear()
            # Workers end by themselves in time; half a second later they are killed.
            self._give_up_at = min(self._give_up_at, time.monotonic() + self._limits.stop_timeout_seconds + 0.5)
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
            signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the supervisor asks for reloads through the board
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            _become_worker(self._boards, worker_id)
            _run_server(self._config, self._listener, self._limits, on_started=self._report, life=self._life)
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
            process_id, status = os.waitpid(-1, os.WNOHANG)
            if process_id == 0:
                return
            worker_id = self._worker_ids.pop(process_id)
            is_early = time.monotonic() - self._started_at.pop(process_id) < _EARLY_SECONDS
            if self._is_stopping:
                continue
            _logger.warning("worker %d ended with status %d", worker_id, os.waitstatus_to_exitcode(status))
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
        self._send(signal.SIGKILL)
        for process_id in self._worker_ids:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process_id, 0)
        for end in (self._life, self._death, self._ready, self._report_ready):
            os.close(end)


def _freeze_memory() -> None:
    """Take what is loaded out of garbage collection: collections get shorter, and workers go on sharing its pages."""
    gc.collect()
    gc.freeze()
