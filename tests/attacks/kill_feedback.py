"""Post feedback from many clients while workers are killed; every answered post must be there exactly once.

    python -m tests.attacks.kill_feedback --posts 10000 --clients 16 --workers 2 --kills 40

A client repeats a post, with the same id, until it is answered. Prints one JSON line; the exit code is 1 if a post is
missing, is there twice or differs from what was sent.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import longtail as lt
from longtail.feedback import feedback_path
from tests.attacks.http_client import Connection, post
from tests.serve.models import learnt_tagger
from tests.serve.service import Service


class Attack:
    """The state of one run."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.model = folder / "tags.model"
        lt.save(learnt_tagger(), self.model)
        self.service = Service(self.model, "--feedback", "--workers", str(options.workers))
        self.waiting = list(range(options.posts))
        self.answered: set[int] = set()
        self.seen: collections.Counter[str] = collections.Counter()
        self.n_killed = 0

    async def run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(self.options.clients)))

    async def _client(self) -> None:
        number = -1
        while self.waiting or number >= 0:
            try:
                async with Connection(self.service.port) as connection:
                    while self.waiting or number >= 0:
                        number = self.waiting.pop() if number < 0 else number
                        status, answer = await connection.ask(post("/api/feedback", body(number)))
                        self.seen[f"{status} {'stored' if answer.get('stored') else 'there already or refused'}"] += 1
                        if status == 200:
                            self.answered.add(number)
                            number = -1
                            self._kill_if_due()
                        else:
                            await asyncio.sleep(0.05)
            except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
                self.seen["connection lost"] += 1
                if self.service.process.poll() is not None:
                    raise RuntimeError("the service ended: " + "".join(self.service.lines)) from None
                await asyncio.sleep(0.05)

    def _kill_if_due(self) -> None:
        """Kill a worker after every so many answers: posts of other clients are under way."""
        if len(self.answered) * (self.options.kills + 1) >= (self.n_killed + 1) * self.options.posts:
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(random.choice(self.service.worker_ids()), signal.SIGKILL)
            self.n_killed += 1

    def verify(self) -> list[str]:
        """Compare the file with what was sent."""
        wrong: list[str] = []
        found: collections.Counter[str] = collections.Counter()
        store = lt.FeedbackStore(feedback_path(self.model), must_exist=True)
        for stored in store:
            item = stored.feedback
            found[item.id] += 1
            sent = body(int(item.id))
            if (item.text, list(item.added), item.author) != (sent["text"], sent["added"], sent["author"]):
                wrong.append(f"{item.id} differs")
        store.close()
        wrong += [f"{number} is missing" for number in self.answered if found[str(number)] == 0]
        wrong += [f"{number} is there {n} times" for number, n in found.items() if n > 1]
        if len(self.answered) != self.options.posts:
            wrong.append(f"{self.options.posts - len(self.answered)} posts were never answered")
        return wrong


def body(number: int) -> dict[str, object]:
    """Make a post that can be recognised."""
    text = f"text {number} " + "web " * (number % 50)
    return {"id": str(number), "text": text, "added": [f"label {number % 7}"], "author": f"client {number % 16}"}


def attack(options: argparse.Namespace) -> dict[str, object]:
    """Run once; return what happened."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run = Attack(options, Path(folder))
        begin = time.monotonic()
        try:
            asyncio.run(run.run())
        finally:
            run.service.client.close()
            run.service.kill()  # not even a proper end
        seconds = time.monotonic() - begin
        return {
            "posts": options.posts,
            "clients": options.clients,
            "workers": options.workers,
            "killed_workers": run.n_killed,
            "seconds": round(seconds, 1),
            "answers": dict(run.seen),
            "wrong": run.verify(),
        }


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="where the model and its feedback are; default: the system's")
    report = attack(parser.parse_args(arguments))
    print(json.dumps(report))
    return 1 if report["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
