"""Start `longtail serve` as a user does, and load it with requests."""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import httpx2 as httpx


class Service:
    """A running service; its standard error is kept for the tests to read."""

    def __init__(self, model: Path, *options: str, key: str | None = None, program: str = "longtail.cli.app") -> None:
        environment = {**os.environ, "LONGTAIL_API_KEY": key or ""}
        self.process = subprocess.Popen(
            [sys.executable, "-m", program, "serve", str(model), "--port", "0", *options],
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.lines: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(60) or "serving" not in "".join(self.lines):
            self.kill()
            raise AssertionError("the service did not start: " + "".join(self.lines))
        self.url = re.search(r"http://\S+", "".join(self.lines))[0]
        self.client = httpx.Client(base_url=self.url, headers={"x-api-key": key} if key else {}, timeout=30)

    def _read(self) -> None:
        for line in self.process.stderr:
            self.lines.append(line)
            if "serving" in line:
                self._ready.set()
        self._ready.set()  # it ended

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def worker_ids(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(process_id) for process_id in children.split()]

    def tag(self, text: str = "a small web server", **body) -> list[dict]:
        answer = self.client.post("/api/tag", json={"text": text, **body})
        answer.raise_for_status()
        return answer.json()["labels"]

    def version(self) -> str:
        return self.client.get("/health").json()["version"]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def stop(self) -> int:
        self.client.close()
        self.signal(signal.SIGTERM)
        code = self.process.wait(30)
        self._reader.join(10)
        self.process.stderr.close()
        return code

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(30)
        self._reader.join(10)
        self.process.stderr.close()


@contextlib.contextmanager
def serving(model: Path, *options: str, **settings: str | None):
    """Serve a model within the block."""
    service = Service(model, *options, **settings)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.stop()


def load(port: int, *, n_connections: int, seconds: float, body: dict, on_half=lambda: None) -> Counter:
    """Send requests on many kept-alive connections; count answers by status, and everything else by its name."""
    return asyncio.run(_load(port, n_connections, seconds, body, on_half))


async def _load(port: int, n_connections: int, seconds: float, body: dict, on_half) -> Counter:
    content = json.dumps(body).encode()
    request = (
        b"POST /api/tag HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (len(content), content)
    )
    counts: Counter = Counter()
    end = asyncio.get_running_loop().time() + seconds

    async def client() -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            while asyncio.get_running_loop().time() < end:
                writer.write(request)
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))
                counts[int(head.split()[1])] += 1
            writer.close()
            await writer.wait_closed()
        except Exception as error:
            counts[repr(error)] += 1

    async def interfere() -> None:
        await asyncio.sleep(seconds / 2)
        await asyncio.to_thread(on_half)

    await asyncio.gather(interfere(), *(client() for _ in range(n_connections)))
    return counts
