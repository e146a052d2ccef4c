"""Run the application: one socket, one or more worker processes, signals."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import gc
import ipaddress
import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, cast

import uvicorn

from longtail import _os
from longtail.serve.board import Board
from longtail.serve.connections import LimitedProtocol
from longtail.serve.gate import LOOPBACK_NAMES
from longtail.serve.limits import Limits
from longtail.serve.several import ModelSettings, Service
from longtail.serve.supervisor import Supervisor

_logger = logging.getLogger("longtail.serve")
_BACKLOG = 1024
# A worker accepts at most this many waiting connections at a time, so that a burst spreads over the workers.
_ACCEPTS_AT_ONCE = 4
_TICKS_PER_SWEEP = 5  # of uvicorn's main loop, a tenth of a second each
_SWEEP_SECONDS = 0.5


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

        def work(worker_id: int, life: int, on_started: Callable[[], None]) -> None:
            _become_worker(boards.values(), worker_id)
            _run_server(config, listener, limits, on_started=on_started, life=life)

        supervisor = Supervisor(work, lambda: _call_reload(boards.values()), n_workers, limits.stop_timeout_seconds)
        _freeze_memory()
        try:
            return supervisor.run(on_started=lambda: on_ready(url))
        finally:
            gc.unfreeze()


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
        # create_server makes a plain OSError of what getaddrinfo raises, with the same number.
        is_host = error.errno in (errno.EADDRNOTAVAIL, socket.EAI_NONAME, socket.EAI_AGAIN)
        way_out = (
            "--host must be a name or an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all of them"
            if is_host
            else "choose another --port"
        )
        reason = str(error.strerror).partition(" (while")[0]  # the address is named already
        raise OSError(f"cannot listen on {host} port {port}: {reason}; {way_out}") from None


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
        # The kernel's own timer, in case native code keeps all Python threads from running.
        _os.end_process_after(self._seconds + 1)
        # No thread may be left to the system. This runs in a signal handler: an error would lose the signal.
        with contextlib.suppress(RuntimeError):
            self._timer.start()

    def cancel(self) -> None:
        self._timer.cancel()
        _os.end_process_after(0)

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


def _freeze_memory() -> None:
    """Take what is loaded out of garbage collection: collections get shorter, and workers go on sharing its pages."""
    gc.collect()
    gc.freeze()
