"""Limits below HTTP: connections, the size of a request's head, and the time that each part of a request may take.

ASGI applications see a request only when its head is complete, so these limits belong to the protocol. The class adds
counters and deadlines to uvicorn's own; the server calls `expire` on every connection about twice a second.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from longtail.serve.board import Board
from longtail.serve.headers import SAFETY_HEADERS
from longtail.serve.limits import Limits

# Requests on one connection that may wait for the one before them; browsers and HTTP libraries send none.
_MAX_PIPELINED = 16
# A refused client may still be sending. If the connection were closed at once, the kernel would reset it, and the
# client would not see the answer; so a little more is read and dropped.
_LINGER_SECONDS = 1.0
_LINGER_REQUESTS = 16  # in units of the largest request
_MAX_LINGERING = 64


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 connection, with limits.

    Parameters
    ----------
    limits : Limits
    board : Board
        Counts what is refused here.
    """

    def __init__(self, *args: Any, limits: Limits, board: Board, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._board = board
        self._network = ""
        self._deadline = math.inf
        self._stalled_at = math.inf  # since when the client does not take its answer
        self._is_refused = False
        self._unanswered: list[RequestResponseCycle] = []
        self._n_messages = 0
        self._is_in_body = False
        self._body_bytes = 0
        self._head_bytes = 0  # of the parts that are parsed
        self._other_bytes = 0  # received for this request and not body, parsed or not
        self._dropped_bytes = 0  # received after the answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._network = client_network(self.client[0] if self.client else "")
        self._restart_clock()
        if len(self.connections) > self._limits.max_connections + _MAX_LINGERING:
            transport.abort()
        elif len(self.connections) > self._limits.max_connections:
            self._refuse(503, "the service has too many open connections; try again in a second")
        elif self._n_from_same_network() > self._limits.max_connections_per_address:
            self._refuse(503, "too many open connections from this address; close some, or try again in a second")

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._drop(len(data))
            return
        n_messages, body_bytes = self._n_messages, self._body_bytes
        super().data_received(data)
        if n_messages and n_messages == self._n_messages:
            self._other_bytes += len(data) - (self._body_bytes - body_bytes)
            # Within a body these are the lines that frame its chunks, and trailing headers.
            allowed = self._limits.max_header_bytes + self._is_in_body * self._limits.max_request_bytes
            if self._other_bytes > allowed and not self._is_refused:
                self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._n_messages += 1
        self._head_bytes = self._other_bytes = self._body_bytes = self._dropped_bytes = 0
        self._restart_clock()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._add_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._add_head(len(name) + len(value) + 4)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MAX_PIPELINED:
            raise ValueError("too many requests are waiting on this connection")  # ends in send_400_response
        self._is_in_body = True
        super().on_headers_complete()
        self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete] + [self.cycle]
        self._restart_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disconnect()
        super().connection_lost(exc)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)
        if self.cycle.response_complete:
            self._drop(len(body))

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_body = False
        self._other_bytes = 0
        self._restart_clock()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._restart_clock()

    def send_400_response(self, msg: str) -> None:
        if self._head_bytes > self._limits.max_header_bytes:
            self._refuse_head()
        else:
            self._refuse(400, "the request is not valid HTTP/1.1")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled_at = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stalled_at = math.inf

    def expire(self, now: float) -> None:
        """End the connection if what it waits for is overdue."""
        patience = self._limits.body_timeout_seconds
        if self.transport.is_closing():  # the rest of an answer is still to be sent
            self._stalled_at = min(self._stalled_at, now)
        if now > self._stalled_at + patience or (now > self._deadline and (self._is_refused or self._is_in_body)):
            self._abort()
        elif now > self._deadline:
            if self._n_messages and self._head_bytes + self._other_bytes:
                self._refuse(408, "the head of the request took too long to arrive")
            else:
                self.transport.close()  # nothing was asked, so nothing is answered

    def postpone(self, seconds: float) -> None:
        """Move the deadlines: this process did not run for so long, and what it waits for may be here."""
        self._deadline += seconds
        self._stalled_at += seconds

    def _abort(self) -> None:
        """Drop the connection with everything that is not yet sent."""
        self._disconnect()
        self.transport.abort()

    def _disconnect(self) -> None:
        """Let the application's further messages go nowhere; uvicorn does so for the newest request only."""
        for cycle in self._unanswered:
            cycle.disconnected = True
            cycle.message_event.set()

    def _restart_clock(self) -> None:
        """Set the deadline of the part that is awaited now; while the application works there is none here."""
        if self._is_refused:
            return
        is_answered = self.cycle is None or self.cycle.response_complete
        if self._is_in_body and not self.pipeline:
            # The application answers with 408 first if it reads the body; this is for those that are answered early.
            self._deadline = self.loop.time() + self._limits.body_timeout_seconds + 1
        elif is_answered:
            self._deadline = self.loop.time() + self._limits.header_timeout_seconds
        else:
            self._deadline = math.inf

    def _drop(self, n_bytes: int) -> None:
        self._dropped_bytes += n_bytes
        if self._dropped_bytes > _LINGER_REQUESTS * self._limits.max_request_bytes:
            self._abort()

    def _add_head(self, n_bytes: int) -> None:
        self._head_bytes += n_bytes
        if self._head_bytes > self._limits.max_header_bytes:
            raise ValueError("the head of the request is too large")  # ends in send_400_response

    def _refuse_head(self) -> None:
        self._refuse(431, f"the head of a request may have at most {self._limits.max_header_bytes:,} bytes")

    def _refuse(self, status: int, message: str) -> None:
        """Answer, send nothing more, and read for a moment what the client still sends."""
        self._board.add_request("other", status, 0.0)
        if self.cycle is not None and not self.cycle.response_complete:
            self._abort()  # an answer to an earlier request may be half sent
            return
        self._is_refused = True
        self._deadline = self.loop.time() + _LINGER_SECONDS
        self._unset_keepalive_if_required()
        self.transport.write(_answer(status, message))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    def _n_from_same_network(self) -> int:
        return sum(getattr(other, "_network", "") == self._network for other in self.connections)


def client_network(host: str) -> str:
    """Return what counts as one client: an IPv4 address, or the /64 of an IPv6 address, which one host may own."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, 64), strict=False))


def _answer(status: int, message: str) -> bytes:
    body = json.dumps({"error": message}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
        *SAFETY_HEADERS,
    ]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode())]
    lines += [name + b": " + value for name, value in headers]
    return b"\r\n".join([*lines, b"", body])
