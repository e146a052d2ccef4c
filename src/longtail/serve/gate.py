"""Middleware: authentication, size limits, load shedding, time limits.

Plain ASGI on the event loop: its counters need no locks, and a refused request costs no thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from longtail import _core
from longtail._cancel import stoppable
from longtail.serve.board import Board
from longtail.serve.headers import SAFETY_HEADERS
from longtail.serve.limits import Limits
from longtail.serve.page_files import PAGE_FILES

_logger = logging.getLogger("longtail.serve")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Scope = MutableMapping[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PATHS = {
    "/api/tag": "tag",
    "/api/tag-batch": "tag-batch",
    "/api/explain": "explain",
    "/api/labels": "labels",
    "/api/examples": "examples",
    "/api/model": "model",
    "/api/reload": "reload",
    "/api/feedback": "feedback",
    "/api/feedback/count": "feedback",
    "/api/queue": "queue",
    "/models": "models",
    "/health": "health",
    "/v2/health/live": "health",
    "/v2/health/ready": "health",
    "/metrics": "metrics",
    **dict.fromkeys(PAGE_FILES, "page"),
}
_PREFIXES = {"/v1/projects": "annif", "/v2": "v2"}
# These need no key: the page asks for it, and a load balancer has none.
_OPEN = ("health", "page")
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_NOT_QUEUED = ("health", "metrics", "page")

# Bodies held at the same time may add up to this many bodies of the largest size.
_MAX_HELD_BODIES = 64
# A deadline that is noticed this late was missed by the service, not by its client.
_STARVED_SECONDS = 0.1


class RefusedError(Exception):
    """A request that is answered without reaching the application."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = list(headers)


class Gate:
    """Check host, key and size, bound the queue and the working time, count, and set the safety headers.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
    board : Board
    api_key : str or None
        When given, requests must carry it as `Authorization: Bearer KEY`, `X-API-Key: KEY` or the password of
        `Authorization: Basic`, which is all that clients such as Annif can send (`http://any:KEY@host/…`).
    allowed_hosts : names or None
        When given, the Host header must name one of these. Otherwise a web site could reach a service on loopback by
        pointing its own name there (DNS rebinding).
    """

    def __init__(
        self,
        app: App,
        *,
        limits: Limits,
        board: Board,
        api_key: str | None = None,
        allowed_hosts: Iterable[str] | None = None,
    ) -> None:
        self._app = app
        self._limits = limits
        self._board = board
        self._key_digest = None if api_key is None else _digest(api_key.encode())
        self._allowed_hosts = None if allowed_hosts is None else frozenset(host.lower() for host in allowed_hosts)
        self._in_flight = 0
        self._held_bytes = 0
        self._incomplete: dict[_Body, None] = {}  # the oldest first

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        endpoint = _endpoint(scope)
        status = 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                seconds = time.perf_counter() - begin
                timing = (b"server-timing", b"app;dur=%.3f" % (seconds * 1e3))
                message = {**message, "headers": [*message.get("headers", ()), *SAFETY_HEADERS, timing]}
            await send(message)

        try:
            await self._admit(endpoint, scope, receive, send_counted)
        except RefusedError as refused:
            await _send_error(send_counted, refused)
        except Exception:
            # Handled here rather than in the framework: this answer is counted and gets its headers like any other.
            _logger.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise  # half an answer was sent: the server must end the connection
            await _send_error(send_counted, RefusedError(500, "internal error; see the server log"))
        finally:
            self._board.add_request(endpoint, status, time.perf_counter() - begin)

    async def _admit(self, endpoint: str, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        self._check_host(headers)
        self._check_key(endpoint, headers)
        if endpoint in _NOT_QUEUED:
            await self._app(scope, receive, send)
            return
        self._check_queue()
        body = _Body()
        try:
            await self._read_body(headers, receive, body)
            self._check_queue()  # a place is taken only now: slow senders hold none
            await self._run(scope, body.take(), receive, send)
        finally:
            self._release(body)

    def _check_queue(self) -> None:
        if self._in_flight >= self._limits.n_threads + self._limits.queue_size:
            raise _busy()

    async def _run(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        """Run the application for a limited time, or until the client leaves.

        A request that is late, or runs when the service stops, is cancelled: it no longer waits for a thread, and
        kernels stop soon. It keeps its place until its thread is done, but its client is answered in time.
        """
        control = _core.Control()
        is_over = is_started = False
        # Cancelling this scope ends the wait for a thread, but not the wait for a thread that works.
        cancellable = anyio.CancelScope()

        async def send_in_time(message: Message) -> None:
            nonlocal is_started
            if not is_over:
                is_started = True
                await send(message)

        async def run() -> None:
            with cancellable, stoppable(control):
                await self._app(scope, _replay(body, receive), send_in_time)

        self._count_in_flight(+1)
        task = asyncio.create_task(run())
        task.add_done_callback(self._leave)
        awaited = {task}
        if self._in_flight > self._limits.n_threads:  # it has to wait: notice when its client leaves
            awaited.add(asyncio.create_task(_disconnected(receive)))
        try:
            done, _ = await asyncio.wait(
                awaited, timeout=self._limits.work_timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            control.cancel()
            task.cancel()
            raise
        finally:
            for other in awaited - {task}:
                other.cancel()
        if task in done:
            task.result()
            return
        is_over = True
        control.cancel()
        cancellable.cancel()
        if not done and not is_started:
            seconds = self._limits.work_timeout_seconds
            raise RefusedError(503, f"the request was not finished within {seconds:g} seconds; send less text")

    def _leave(self, task: asyncio.Task[None]) -> None:
        self._count_in_flight(-1)
        if not task.cancelled():
            task.exception()  # marks it as seen: a late one is not reported again

    def _count_in_flight(self, change: int) -> None:
        self._in_flight += change
        self._board.set_in_flight(self._in_flight)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        if self._allowed_hosts is None:
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if name not in self._allowed_hosts:
            raise RefusedError(403, f"this service does not answer for host {name!r}; see --allowed-host")

    def _check_key(self, endpoint: str, headers: dict[bytes, bytes]) -> None:
        if self._key_digest is None or endpoint in _OPEN:
            return
        given = headers.get(b"x-api-key", b"")
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer":
            given = token.strip()
        elif scheme.lower() == b"basic":
            given = _password(token.strip())
        # Digests have equal lengths, so the comparison takes the same time whatever was sent.
        if not hmac.compare_digest(_digest(given), self._key_digest):
            raise RefusedError(401, "this service needs an API key", [(b"www-authenticate", b"Bearer")])

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive, body: _Body) -> None:
        max_bytes = self._limits.max_request_bytes
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and (len(declared) > 19 or int(declared) > max_bytes):
            raise _too_large(max_bytes)
        body.gives_up_at = asyncio.get_running_loop().time() + self._limits.body_timeout_seconds
        self._incomplete[body] = None
        try:
            while True:
                message = await self._receive_in_time(receive, body)
                if message["type"] == "http.disconnect":
                    raise RefusedError(400, "the connection ended within the request")
                part = message.get("body", b"")
                body.parts.append(part)
                body.n_bytes += len(part)
                self._held_bytes += len(part)
                if body.n_bytes > max_bytes:
                    raise _too_large(max_bytes)
                is_complete = not message.get("more_body", False)
                if is_complete:
                    del self._incomplete[body]
                self._make_room()
                if body.is_dropped:
                    raise _dropped()
                if is_complete:
                    return
        finally:
            self._incomplete.pop(body, None)

    async def _receive_in_time(self, receive: Receive, body: _Body) -> Message:
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(body.gives_up_at) as body.waits:
                    message = await receive()
                    body.waits = None
            except TimeoutError:
                if not body.is_dropped:
                    late = loop.time() - body.gives_up_at
                    if late < _STARVED_SECONDS:
                        raise RefusedError(
                            408, "the body of the request took too long to arrive", [(b"connection", b"close")]
                        ) from None
                    # This process did not run, and the body may be here: the lost time is no fault of the client.
                    body.gives_up_at = loop.time() + late
                    continue
            if body.is_dropped:
                raise _dropped()
            return message

    def _make_room(self) -> None:
        """Drop the bodies that have been incomplete for longest: slow senders must not hold up those who send fast."""
        while self._held_bytes > self._limits.max_request_bytes * _MAX_HELD_BODIES:
            if not self._incomplete:
                raise _busy()
            oldest = next(iter(self._incomplete))
            del self._incomplete[oldest]
            oldest.is_dropped = True
            self._release(oldest)
            if oldest.waits is not None and not oldest.waits.expired():
                oldest.waits.reschedule(asyncio.get_running_loop().time())

    def _release(self, body: _Body) -> None:
        self._held_bytes -= body.n_bytes
        body.n_bytes = 0
        body.parts.clear()


@dataclass(eq=False)
class _Body:
    """The parts of a body, and their size in bytes."""

    parts: list[bytes] = field(default_factory=list)
    n_bytes: int = 0
    gives_up_at: float = 0.0
    is_dropped: bool = False
    waits: asyncio.Timeout | None = None  # of the part that is waited for

    def take(self) -> bytes:
        """Return the whole body and drop the parts."""
        parts, self.parts = self.parts, []
        return b"".join(parts)


def _endpoint(scope: Scope) -> str:
    """Name the endpoint for counters and rules; the path is relative to where the application is mounted."""
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    return PATHS.get(path) or next((name for prefix, name in _PREFIXES.items() if path.startswith(prefix)), "other")


def _busy() -> RefusedError:
    return RefusedError(503, "the service is busy; try again in a second", [(b"retry-after", b"1")])


def _dropped() -> RefusedError:
    busy = _busy()
    busy.headers.append((b"connection", b"close"))  # the rest of the body is not waited for
    return busy


def _too_large(max_bytes: int) -> RefusedError:
    # The connection stays open: the server discards the rest of the body, and the client can read this answer.
    return RefusedError(413, f"a request may have at most {max_bytes:,} bytes")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _password(credentials: bytes) -> bytes:
    """Return the password of Basic authentication; the user name does not matter."""
    try:
        return base64.b64decode(credentials, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""


def _replay(body: bytes, receive: Receive) -> Receive:
    """Pass the body that was read to the application, then what the connection sends next."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _disconnected(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_error(send: Send, refused: RefusedError) -> None:
    body = json.dumps({"error": str(refused)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *refused.headers]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
