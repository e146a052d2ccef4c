"""Run `longtail serve` for minutes under honest load, abuse, reloads and killed workers; print one JSON line.

    python -m tests.attacks.soak_service --minutes 30 --limit-seconds 10 --kill-seconds 0     # the long soak
    python -m tests.attacks.soak_service --minutes 20 --limit-seconds 10 --kill-seconds 10    # a hundred kills

The row for docs/reliability.md goes to standard error.

Honest clients must see correct answers or documented errors only: 503 when the service is busy, and a lost connection
within two seconds after a worker was killed (with --kill-seconds 0 none is killed, and none may be lost). Abusive
clients must see the documented refusal. One worker is never killed; its memory over time shows leaks. The exit code is
1 if anything else happened.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import longtail as lt
from tests.attacks import service_abuse
from tests.attacks.http_client import Connection, post
from tests.serve.service import Service

_KEY_WORDS = ["web server", "mail reader", "music player", "chess game", "text editor", "image viewer"]
# The kernel closes the connections of a killed worker at once; what clients see later has another reason.
_KILL_GRACE_SECONDS = 2.0


def make_model(version: str) -> lt.Tagger:
    """Learn to give each text the label of its two words; the version is part of the label."""
    texts, labels = [], []
    for start in ("a small", "a big", "the old", "the new"):
        for words in _KEY_WORDS:
            texts.append(f"{start} {words}")
            labels.append([f"{words} {version}"])
    return lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels)


class Soak:
    """The state of one run: the service, what its clients saw, and when workers were killed."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.model = folder / "soak.model"
        self.taggers = [make_model("one"), make_model("two")]
        lt.save(self.taggers[0], self.model)
        seconds = str(options.limit_seconds)
        limits = ["--header-timeout-seconds", seconds, "--body-timeout-seconds", seconds]
        self.service = Service(self.model, "--workers", str(options.workers), *limits)
        self.survivor = self.service.worker_ids()[0]
        self.begin = time.monotonic()
        self.end = self.begin + options.minutes * 60
        self.is_stopping = False
        self.killed_at = -1e9
        self.answers: collections.Counter[str] = collections.Counter()
        self.unexpected: collections.Counter[str] = collections.Counter()
        self.abuse: collections.Counter[str] = collections.Counter()
        self.done: collections.Counter[str] = collections.Counter()
        self.memory: list[dict[str, float]] = []

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    @property
    def was_just_killed(self) -> bool:
        return time.monotonic() - self.killed_at < _KILL_GRACE_SECONDS

    async def run(self) -> dict[str, Any]:
        abusers = [abuse for abuse in service_abuse.ABUSES for _ in range(self.options.abusers)]
        tasks = [
            *(self._honest(random.Random(seed)) for seed in range(self.options.clients)),
            *(self._abuse(abuse) for abuse in abusers),
            self._every(self.options.reload_seconds, self._reload),
            *([self._every(self.options.kill_seconds, self._kill)] if self.options.kill_seconds else []),
            self._every(max(0.5, self.options.minutes * 60 / 40), self._measure),
        ]
        await asyncio.gather(*tasks)
        return self.report(await self._stop_under_load())

    # ---- clients ----------------------------------------------------------------------------------------------

    async def _honest(self, rng: random.Random) -> None:
        while not self.is_over:
            try:
                async with Connection(self.service.port) as connection:
                    for _ in range(rng.randrange(1, 400)):
                        if self.is_over:
                            return
                        await self._ask(connection, rng)
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
                if self.is_stopping:
                    self.answers[f"{type(error).__name__} while stopping"] += 1
                    return
                counts = self.answers if self.was_just_killed else self.unexpected
                counts[f"{type(error).__name__} {'after a kill' if self.was_just_killed else 'without a kill'}"] += 1
                await asyncio.sleep(0.05)

    async def _ask(self, connection: Connection, rng: random.Random) -> None:
        words = rng.choice(_KEY_WORDS)
        kind = rng.choices(("tag", "tag-batch", "explain", "long explain", "health"), (80, 8, 8, 1, 3))[0]
        if kind == "tag":
            status, answer = await connection.ask(post("/api/tag", {"text": f"a {words}", "top_k": 1}))
            is_right = status != 200 or answer["labels"][0]["label"].startswith(words)
        elif kind == "tag-batch":
            status, answer = await connection.ask(post("/api/tag-batch", {"texts": [words] * 20, "top_k": 1}))
            is_right = status != 200 or all(row[0]["label"].startswith(words) for row in answer["rows"])
        elif kind == "health":
            status, answer = await connection.ask(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            is_right = status == 200 and answer["status"] == "ok"
        else:
            text = f"a {words} " * (9_000 if kind == "long explain" else 1)
            request = post("/api/explain", {"text": text[:100_000], "label": f"{words} {rng.choice(('one', 'two'))}"})
            status, answer = await connection.ask(request)
            # The label may belong to the other model: then it is unknown.
            is_right = status != 200 or answer["words"][0]["word"] in words
        is_documented = is_right and status in (200, 503, *((422,) if "explain" in kind else ()))
        (self.answers if is_documented else self.unexpected)[f"{kind} {status}{'' if is_right else ' wrong'}"] += 1
        await asyncio.sleep(rng.random() if status == 503 else self.options.pause_seconds)

    async def _abuse(self, abuse: service_abuse.Abuse) -> None:
        while not self.is_over:
            try:
                outcome = await asyncio.wait_for(abuse.run(self.service.port), 60)
            except (ConnectionError, asyncio.IncompleteReadError):
                outcome = "connection lost"
            except TimeoutError:
                outcome = "hangs"
            is_explained = outcome in abuse.expected or (outcome == "connection lost" and self.was_just_killed)
            (self.abuse if is_explained else self.unexpected)[f"{abuse.name}: {outcome}"] += 1
            await asyncio.sleep(0.2)

    # ---- what happens to the service --------------------------------------------------------------------------

    async def _every(self, seconds: float, action: Callable[[], Awaitable[None]]) -> None:
        while not self.is_over:
            await asyncio.sleep(min(seconds, max(0.0, self.end - time.monotonic())))
            if not self.is_over:
                await action()

    async def _reload(self) -> None:
        self.done["reloads"] += 1
        tagger = self.taggers[self.done["reloads"] % 2]
        await asyncio.to_thread(lt.save, tagger, self.model, overwrite=True)
        if self.done["reloads"] % 3 == 0:
            self.service.signal(signal.SIGHUP)

    async def _kill(self) -> None:
        victims = [process_id for process_id in self.service.worker_ids() if process_id != self.survivor]
        if victims:
            self.killed_at = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(victims), signal.SIGKILL)
                self.done["killed workers"] += 1

    async def _measure(self) -> None:
        workers = self.service.worker_ids()
        if self.survivor not in workers:
            self.unexpected["the worker that was never killed is gone"] += 1
            return
        self.memory.append(
            {
                "seconds": round(time.monotonic() - self.begin),
                "survivor_mb": _memory_mb(self.survivor, "Rss"),
                "all_pss_mb": round(sum(_memory_mb(pid, "Pss") for pid in (self.service.process.pid, *workers)), 1),
                "survivor_files": len(list(Path(f"/proc/{self.survivor}/fd").iterdir())),
            }
        )

    async def _stop_under_load(self) -> float:
        """Stop the service while requests run; return the seconds it took."""
        self.end = time.monotonic() + 60
        self.is_stopping = True
        clients = [asyncio.create_task(self._honest(random.Random(seed))) for seed in range(16)]
        await asyncio.sleep(0.5)
        begin = time.monotonic()
        self.service.signal(signal.SIGTERM)
        await asyncio.to_thread(self.service.process.wait, 60)
        seconds = time.monotonic() - begin
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        if self.service.process.returncode != 0:
            self.unexpected[f"exit code {self.service.process.returncode}"] += 1
        if seconds > 11:
            self.unexpected["stopped too late"] += 1
        return seconds

    def report(self, stop_seconds: float) -> dict[str, Any]:
        log = collections.Counter(re.sub(r"\d+", "N", line.strip()) for line in self.service.lines[1:])
        n_answers = sum(n for kind, n in self.answers.items() if re.search(r" \d{3}$", kind))
        return {
            "minutes": self.options.minutes,
            "clients": self.options.clients,
            "abusers": self.options.abusers * len(service_abuse.ABUSES),
            "workers": self.options.workers,
            "answers_per_second": round(n_answers / (self.options.minutes * 60), 1),
            "answers": dict(self.answers.most_common()),
            "abuse": dict(sorted(self.abuse.items())),
            "unexpected": dict(self.unexpected.most_common()),
            "done": dict(self.done),
            "stop_seconds": round(stop_seconds, 2),
            "log": dict(log.most_common(20)),
            "memory": self.memory,
        }


def table_row(report: dict[str, Any], limit_seconds: float) -> str:
    """Return the line of the run for the table in docs/reliability.md."""
    answers, n_killed = report["answers"], report["done"].get("killed workers", 0)
    n_answers = sum(n for kind, n in answers.items() if re.search(r" \d{3}$", kind))
    n_lost = sum(n for kind, n in answers.items() if kind.endswith("after a kill"))
    memory = [found["survivor_mb"] for found in report["memory"]] or [0.0]
    cells = [
        f"{n_killed} workers killed" if n_killed else "no worker killed",
        f"{report['minutes']:g}",
        f"{limit_seconds:g} s",
        f"{n_answers:,}",
        ", ".join(f"{n:,} {kind}" for kind, n in report["unexpected"].items()) or "0",
        f"{n_lost}" if n_killed else "",
        f"{report['stop_seconds']:.1f}",
        ", ".join(f"{memory[at]:.0f}" for at in (0, len(memory) // 2, -1)) + " MB",
    ]
    return f"| {' | '.join(cells)} |"


def _memory_mb(process_id: int, field: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process_id}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return round(int(line.split()[1]) / 1024, 1)
    return 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--clients", type=int, default=64, help="honest clients")
    parser.add_argument("--pause-seconds", type=float, default=0.0, help="of an honest client after each answer")
    parser.add_argument("--abusers", type=int, default=2, help="clients for each kind of abuse")
    parser.add_argument("--workers", type=int, default=2, help="at least 2: one is never killed")
    parser.add_argument("--limit-seconds", type=float, default=2.0, help="for heads and bodies; more if CPUs are busy")
    parser.add_argument("--reload-seconds", type=float, default=5.0)
    parser.add_argument("--kill-seconds", type=float, default=10.0, help="0: kill none")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options, Path(folder))
        try:
            report = asyncio.run(soak.run())
        finally:
            soak.service.client.close()
            soak.service.kill()
    print(json.dumps(report))
    print(table_row(report, options.limit_seconds), file=sys.stderr)
    return 1 if report["unexpected"] else 0


if __name__ == "__main__":
    sys.exit(main())
