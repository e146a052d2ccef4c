"""The gate before the application: who may come in, how much, and how many at once.

It is plain ASGI and runs on the event loop, so its counters need no locks and a refused request costs no thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from longtail.serve.board import Board
from longtail.serve.limits import Limits

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
    "/health": "health",
    "/metrics": "metrics",
    "/": "page",
    "/app.js": "page",
    "/style.css": "page",
    "/favicon.svg": "page",
}
# These stay open when a key is set: the page asks for the key, and a load balancer has none.
_OPEN = ("health", "page")
_NOT_QUEUED = ("health", "metrics", "page")

_SAFETY = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class RefusedError(Exception):
    """A request that is answered without reaching the application."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status = status
        self.headers = list(headers)


class Gate:
    """Check host, key and size, bound the queue, count, and set the safety headers.

    Parameters
    ----------
    app : ASGI application
    limits : Limits
    board : Board
    api_key : str or None
        When given, requests must carry it as `Authorization: Bearer KEY` or `X-API-Key: KEY`.
    allowed_hosts : names or None
        When given, the Host header must name one of these: a page from elsewhere cannot reach a service on
        loopback by pointing its own name there.
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        endpoint = PATHS.get(scope["path"], "other")
        status = 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                seconds = time.perf_counter() - begin
                timing = (b"server-timing", b"app;dur=%.3f" % (seconds * 1e3))
                message = {**message, "headers": [*message.get("headers", ()), *_SAFETY, timing]}
            await send(message)

        try:
            await self._admit(endpoint, scope, receive, send_counted)
        except RefusedError as refused:
            await _send_error(send_counted, refused)
        except Exception:
            # Here rather than in the framework, so that this answer is counted and has its headers like any other.
            _logger.exception("%s %s failed", scope["method"], scope["path"])
            if status:
                raise  # half an answer was sent: the server must end the connection
            await _send_error(send_counted, RefusedError(500, "the service made a mistake; its log says more"))
        finally:
            self._board.add_request(endpoint, status, time.perf_counter() - begin)

    async def _admit(self, endpoint: str, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"])
        self._check_host(headers)
        self._check_key(endpoint, headers)
        if endpoint in _NOT_QUEUED:
            await self._app(scope, receive, send)
            return
        if self._in_flight >= self._limits.n_threads + self._limits.queue_size:
            raise RefusedError(503, "the service is busy; try again in a second", [(b"retry-after", b"1")])
        self._in_flight += 1
        self._board.set_in_flight(self._in_flight)
        try:
            body = await self._read_body(headers, receive)
            await self._app(scope, _replay(body, receive), send)
        finally:
            self._in_flight -= 1
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
        # Digests have one length, and their comparison takes one time, whatever was sent.
        if not hmac.compare_digest(_digest(given), self._key_digest):
            raise RefusedError(401, "this service needs an API key", [(b"www-authenticate", b"Bearer")])

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        max_bytes = self._limits.max_request_bytes
        declared = headers.get(b"content-length", b"0")
        if declared.isdigit() and len(declared) < 20 and int(declared) > max_bytes:
            raise _too_large(max_bytes)
        parts: list[bytes] = []
        n_bytes = 0
        try:
            async with asyncio.timeout(self._limits.body_timeout_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise RefusedError(400, "the connection ended within the request")
                    parts.append(message.get("body", b""))
                    n_bytes += len(parts[-1])
                    if n_bytes > max_bytes:
                        raise _too_large(max_bytes)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise RefusedError(408, "the request took too long to arrive", [(b"connection", b"close")]) from None


def _too_large(max_bytes: int) -> RefusedError:
    # The rest of the body is not read, so the connection cannot be used again.
    return RefusedError(413, f"a request may have at most {max_bytes:,} bytes", [(b"connection", b"close")])


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the application the body that was read, then whatever the connection says next."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


async def _send_error(send: Send, refused: RefusedError) -> None:
    body = json.dumps({"error": str(refused)}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *refused.headers]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
