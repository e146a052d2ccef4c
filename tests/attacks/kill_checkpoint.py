"""Two trainers start together on one checkpoint and are killed at random moments: no saved model is ever wrong.

    python -m tests.attacks.kill_checkpoint --n 100
    python -m tests.attacks.kill_checkpoint --n 100 --estimator GBDTSparse
    python -m tests.attacks.kill_checkpoint --n 100 --estimator LabelTree --labels 1000  # a shard for each small block

In every round both trainers fit with the same checkpoint and save; one of them, or both, get SIGKILL after a random
delay. A trainer may be killed, be refused because the other one owns the checkpoint, or finish; a model that was saved
must have the bytes of an undisturbed fit. Rounds go on with the same checkpoint until a trainer has finished, so later
ones resume. Prints one JSON line; exits with code 1 if anything else happened.
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
from pathlib import Path

import longtail as lt
from longtail.execution import CheckpointInUse
from tests.contract.estimators import ESTIMATORS
from tests.execution import fit_and_wait
from tests.execution.kill_and_resume import Model, read_model

_REFUSED = 3


class Trainers:
    """Fits one estimator on one data set, in children that may be killed."""

    def __init__(self, estimator: str, n_labels: int, folder: Path) -> None:
        self._estimator, self._folder = estimator, folder
        self._X, self._Y = fit_and_wait.make_data(n_labels)
        self._fit(None, folder / "expected")
        begin = time.perf_counter()
        self._fit(folder / "probe", folder / "expected")
        self.seconds = time.perf_counter() - begin
        self._expected: Model = read_model(folder / "expected")

    def _fit(self, checkpoint: Path | None, place: Path) -> None:
        model = ESTIMATORS[self._estimator]().fit(self._X, self._Y, checkpoint=checkpoint)
        lt.save(model, place, overwrite=True)

    def start(self, checkpoint: Path, place: Path) -> int:
        """Start a trainer; return its process id."""
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            self._fit(checkpoint, place)
            code = 0
        except CheckpointInUse:
            code = _REFUSED
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(code)

    def play_round(self, rng: random.Random, checkpoint: Path) -> collections.Counter[str]:
        """Start two trainers, kill one or both, and return what became of them."""
        places = [self._folder / f"model-{number}" for number in range(2)]
        children = [self.start(checkpoint, place) for place in places]
        time.sleep(rng.choice((0.3, 1, 2)) * rng.uniform(0, self.seconds))
        for child in rng.choice((children, children[:1], children[1:])):
            os.kill(child, signal.SIGKILL)
        counts: collections.Counter[str] = collections.Counter(rounds=1)
        for child, place in zip(children, places, strict=True):
            outcome = self._outcome(child)
            if outcome == "finished" and read_model(place) != self._expected:
                outcome = "wrong"
            counts[outcome] += 1
        return counts

    @staticmethod
    def _outcome(child: int) -> str:
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            return "killed" if os.WTERMSIG(status) == signal.SIGKILL else "crashed"
        return {0: "finished", _REFUSED: "refused"}.get(os.WEXITSTATUS(status), "failed")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100, help="kills (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--estimator", choices=list(ESTIMATORS), default="DiSMEC")
    parser.add_argument("--labels", type=int, default=5000, help="of the data (default 5000)")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    counts: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="kill-checkpoint-") as folder:
        trainers = Trainers(options.estimator, options.labels, Path(folder))
        checkpoint = Path(folder, "run")
        while counts["killed"] < options.n:
            found = len(list(checkpoint.rglob("shard-*")))
            counts["shards found"] += found
            counts["resumed rounds"] += found > 0
            outcome = trainers.play_round(rng, checkpoint)
            counts += outcome
            if outcome["finished"]:
                shutil.rmtree(checkpoint)
    bad = {name: counts[name] for name in ("wrong", "crashed", "failed")}
    print(json.dumps({**vars(options), "seconds_one_fit": round(trainers.seconds, 3), **counts, **bad}))
    sys.exit(any(bad.values()))


if __name__ == "__main__":
    main()
