"""A minimal asynchronous HTTP client that shows exactly what a server sent."""

from __future__ import annotations

import asyncio
import json
import re
from types import TracebackType
from typing import Any, Self

_TIMEOUT_SECONDS = 50.0


def post(path: str, body: dict[str, Any]) -> bytes:
    """Write a POST request with a JSON body."""
    content = json.dumps(body).encode()
    return head(path, len(content)) + content


def head(path: str, n_bytes: int) -> bytes:
    """Write the head of a POST request that declares this many bytes."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {n_bytes}"]
    return "\r\n".join([*lines, "", ""]).encode()


class Connection:
    """One connection that is kept alive."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def __aenter__(self) -> Self:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    async def ask(self, request: bytes) -> tuple[int, Any]:
        """Send a request; return the status and the JSON of the answer."""
        self.writer.write(request)
        return await self.answer()

    async def answer(self) -> tuple[int, Any]:
        """Read one answer; raise IncompleteReadError if the connection ends before it does."""
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            top = await self.reader.readuntil(b"\r\n\r\n")
            found = re.search(rb"content-length: (\d+)", top)
            body = await self.reader.readexactly(int(found[1]) if found else 0)
        status = int(top.split(maxsplit=2)[1])
        if b"connection: close" in top and status == 200:
            raise ConnectionResetError("the service closes this connection")
        return status, json.loads(body)

    async def send(self, content: bytes) -> None:
        """Send bytes as they are; returns when the transport has taken them."""
        self.writer.write(content)
        await self.writer.drain()
