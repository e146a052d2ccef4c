"""Clients that misuse the service, and the outcomes that its documentation promises."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.attacks.http_client import Connection, head, post

_TAG = post("/api/tag", {"text": "a web server"})


class Abuse(NamedTuple):
    """One kind of abuse: `run(port)` returns what it saw."""

    name: str
    run: Callable[[int], Awaitable[str]]
    expected: frozenset[str]


async def _status(connection: Connection) -> str:
    status, answer = await connection.answer()
    return f"{status}" if status == 200 or isinstance(answer.get("error"), str) else f"{status} without a reason"


async def slow_head(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\n")
        answer = asyncio.create_task(_status(connection))
        with contextlib.suppress(ConnectionError):
            while not answer.done():
                await connection.send(b"X-Slow: 1\r\n")
                await asyncio.sleep(0.3)
        return await answer


async def slow_body(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(head("/api/tag", 1000))
        answer = asyncio.create_task(_status(connection))
        with contextlib.suppress(ConnectionError):
            while not answer.done():
                await connection.send(b" ")
                await asyncio.sleep(0.3)
        return await answer


async def silence(port: int) -> str:
    async with Connection(port) as connection:
        return "closed" if await connection.reader.read() == b"" else "answered"


async def declared_too_large(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(head("/api/tag", 1 << 30))
        return await _status(connection)


async def sent_too_large(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(head("/api/tag", 4 << 20))
        with contextlib.suppress(ConnectionError):
            await connection.send(b"x" * (4 << 20))
        return await _status(connection)


async def chunked_too_large(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(b"POST /api/tag HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(40):
                await connection.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        return await _status(connection)


async def large_head(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * 300_000)
        with contextlib.suppress(ConnectionError):
            for _ in range(10):
                await connection.send(b"x" * 65536)
        return await _status(connection)


async def not_http(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(b"\x16\x03\x01\x02\x00 hello\r\n\r\n")
        return await _status(connection)


async def not_json(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(head("/api/tag", 3) + b"{a}")
        return await _status(connection)


async def too_long_a_text(port: int) -> str:
    async with Connection(port) as connection:
        await connection.send(post("/api/tag", {"text": "x" * 100_001}))
        return await _status(connection)


async def leaves_early(port: int) -> str:
    for _ in range(10):
        async with Connection(port) as connection:
            await connection.send(_TAG)
    return "left"


async def reads_nothing(port: int) -> str:
    """Ask for large answers and take none, until the service ends the connection."""
    async with Connection(port) as connection:
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        with contextlib.suppress(ConnectionError, TimeoutError):
            for _ in range(200):
                async with asyncio.timeout(1):
                    await connection.send(b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await asyncio.sleep(0.01)
    return "left"


async def many_connections(port: int) -> str:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(60):
            await stack.enter_async_context(Connection(port))
        await asyncio.sleep(1)
    return "left"


ABUSES = [
    # A client that goes on sending after the answer may see a reset connection instead.
    Abuse("slow head", slow_head, frozenset({"408", "503", "connection lost"})),
    Abuse("slow body", slow_body, frozenset({"408", "503", "connection lost"})),
    Abuse("silence", silence, frozenset({"closed"})),
    Abuse("declared too large", declared_too_large, frozenset({"413", "503"})),
    Abuse("sent too large", sent_too_large, frozenset({"413", "503"})),
    Abuse("chunked too large", chunked_too_large, frozenset({"413", "503"})),
    Abuse("large head", large_head, frozenset({"431", "503"})),
    Abuse("not HTTP", not_http, frozenset({"400", "503"})),
    Abuse("not JSON", not_json, frozenset({"422", "503"})),
    Abuse("too long a text", too_long_a_text, frozenset({"422", "503"})),
    Abuse("leaves early", leaves_early, frozenset({"left"})),
    Abuse("reads nothing", reads_nothing, frozenset({"left"})),
    Abuse("many connections", many_connections, frozenset({"left"})),
]
