"""Kill fits that have a checkpoint, resume them, and compare the model with that of an undisturbed fit, byte for byte.

    python -m tests.execution.kill_and_resume Popularity --n 100      # SIGKILL at random moments, until 100 kills
    python -m tests.execution.kill_and_resume Popularity --every-step # before every single file operation of the fit

Estimators are those of the contract suite. Prints one JSON line for each.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import longtail as lt
from tests.contract.estimators import ESTIMATORS

Model = dict[str, bytes]
_FILE_EVENTS = ("open", "os.", "shutil.", "fcntl.", "ctypes.dlsym")


def make_data(estimator: str) -> tuple[sp.csr_array, sp.csr_array]:
    """Return rows and labels; those of Popularity are wide, so that it has several tasks."""
    rng = np.random.default_rng(0)
    n_labels = 140_000 if estimator == "Popularity" else 12
    Y = sp.lil_array((60, n_labels), dtype=np.float32)
    for row in range(60):
        Y[row, rng.integers(n_labels, size=3)] = 1
    X = rng.random((60, 9)).astype(np.float32)
    X[:, :9] += 2 * (np.arange(60)[:, None] % 9 == np.arange(9))
    return sp.csr_array(X), sp.csr_array(Y)


def in_child(work: Callable[[], None]) -> int:
    """Run ``work`` in a child process and return its id: threads and signals stay there."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def was_killed(child: int) -> bool:
    """Wait for a child; a child that failed by itself fails the test."""
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"the fit failed with status {status}"
    return os.WIFSIGNALED(status)


def read_model(path: Path) -> Model:
    """Return the files of a saved model."""
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.*") if file.is_file()}


class Killer:
    """Fits one estimator on one data set, in children that may be killed."""

    def __init__(self, estimator: str, folder: Path) -> None:
        self.name, self.folder = estimator, folder
        self.X, self.Y = make_data(estimator)
        # Imports what fits and saving import, once for all children: kills should hit the fit, not its imports.
        lt.save(ESTIMATORS[estimator]().fit(self.X, self.Y, executor="inline"), folder / "model")
        began = time.perf_counter()
        assert not was_killed(in_child(lambda: self._fit(None)))
        self.seconds = time.perf_counter() - began
        self.expected = read_model(folder / "model")

    def _fit(self, checkpoint: Path | None) -> None:
        model = ESTIMATORS[self.name]().set_params(n_jobs=2)
        model.fit(self.X, self.Y, checkpoint=checkpoint)
        lt.save(model, self.folder / "model", overwrite=True)

    def check(self) -> None:
        """Compare the model of the last fit that came through with the undisturbed one."""
        found = read_model(self.folder / "model")
        assert found.keys() == self.expected.keys()
        for file, data in found.items():
            assert data == self.expected[file], f"{file} differs after {self.name} was resumed"

    def at_random(self, n_kills: int, rng: random.Random) -> collections.Counter[str]:
        """Kill and resume fits until there were enough kills; compare every fit that came through."""
        counts: collections.Counter[str] = collections.Counter()
        while counts["kills"] < n_kills:
            checkpoint = self.folder / f"checkpoint-{counts['fits']}"
            killed = True
            while killed:
                child = in_child(lambda place=checkpoint: self._fit(place))
                # Resumed fits are shorter: short waits hit them, too. The last one in a while is left alone.
                time.sleep(rng.choice((0.3, 1, 2)) * rng.uniform(0, self.seconds))
                os.kill(child, signal.SIGKILL)
                killed = was_killed(child)
                counts["kills"] += killed
                counts["shards found"] += len(list(checkpoint.glob("shard-*")))
            self.check()
            shutil.rmtree(checkpoint)
            counts["fits"] += 1
        return counts

    def at_every_step(self) -> collections.Counter[str]:
        """Kill a fit before its first, second, ... file operation, and resume each."""
        counts: collections.Counter[str] = collections.Counter()
        killed = True
        while killed:
            checkpoint = self.folder / f"checkpoint-{counts['fits']}"
            step = counts["fits"] + 1
            killed = was_killed(in_child(lambda place=checkpoint, step=step: self._fit_until(place, step)))
            assert not was_killed(in_child(lambda place=checkpoint: self._fit(place)))
            self.check()
            leftovers = [path.name for path in checkpoint.iterdir() if path.name.endswith(".longtail-tmp")]
            assert not leftovers, f"{leftovers} stay"
            shutil.rmtree(checkpoint)
            counts["fits"] += 1
            counts["kills"] += killed
        return counts

    def _fit_until(self, checkpoint: Path, step: int) -> None:
        n_steps = 0

        def count(event: str, _: object) -> None:
            nonlocal n_steps
            if event.startswith(_FILE_EVENTS):
                n_steps += 1
                if n_steps == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(count)
        ESTIMATORS[self.name]().set_params(n_jobs=2).fit(self.X, self.Y, checkpoint=checkpoint)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("estimators", nargs="+", choices=list(ESTIMATORS), metavar="ESTIMATOR")
    parser.add_argument("--n", type=int, default=100, help="kills (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every-step", action="store_true")
    options = parser.parse_args()
    for estimator in options.estimators:
        with tempfile.TemporaryDirectory(prefix="kill-and-resume-") as folder:
            killer = Killer(estimator, Path(folder))
            if options.every_step:
                counts = killer.at_every_step()
            else:
                counts = killer.at_random(options.n, random.Random(options.seed))
        print(json.dumps({"estimator": estimator, "seconds_one_fit": round(killer.seconds, 3), **counts}), flush=True)


if __name__ == "__main__":
    main()
