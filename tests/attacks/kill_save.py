"""Kill a process while it saves over a model, again and again: the old model or the new one is there, never a mix.

    python -m tests.attacks.kill_save --n 1000              # SIGKILL at random moments
    python -m tests.attacks.kill_save --every-step          # SIGKILL before every single file operation of a save
    python -m tests.attacks.kill_save --no-exchange ...     # as on file systems that cannot swap two directories

After each kill the model must load, with its checksums, without any repair; after all of them one more save must leave
nothing but the model. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import longtail as lt
from longtail import _os
from longtail._fitted import Facts, Fitted
from longtail.baselines.popularity import Ranking
from longtail.tagging.state import TaggerState

_N_LABELS = 5_000
_FILE_EVENTS = ("open", "os.", "shutil.", "fcntl.", "ctypes.dlsym")


def make_model(version: int) -> lt.Tagger:
    """Make a model whose every array and name tells its version."""
    facts = Facts(
        n_features_in=1,
        n_labels=_N_LABELS,
        n_rows=version,
        y_kind="sparse",
        unit_rows=False,
        instruction_set="unknown",
        label_counts=np.full(_N_LABELS, version, np.int64),
        y_dtype=np.dtype(np.float32),
    )
    ranking = np.roll(np.arange(_N_LABELS, dtype=np.int32), version)
    estimator = lt.Popularity()
    estimator._fitted = Fitted(facts, Ranking(ranking, np.full(_N_LABELS, version / 1e6, np.float32)))
    vectorizer = lt.TextVectorizer(min_df=1, max_features=version).fit([f"word{version}"])
    tagger = lt.Tagger()
    tagger._put(TaggerState(estimator, vectorizer, [f"{version} {label_id}" for label_id in range(_N_LABELS)]))
    return tagger


def read_version(path: Path) -> int:
    """Return the version of the model at ``path``; raise if its parts do not all agree."""
    tagger = lt.load(path, verify=True)
    assert isinstance(tagger, lt.Tagger)
    version = tagger.estimator.n_rows_
    expected = make_model(version)
    assert tagger.label_names_ == expected.label_names_, "a mix"
    assert tagger.vectorizer.params() == expected.vectorizer.params(), "a mix"
    assert tagger.vectorizer.vocabulary_ == expected.vectorizer.vocabulary_, "a mix"
    for name in expected.estimator._fitted_arrays():
        np.testing.assert_array_equal(getattr(tagger.estimator, name), getattr(expected.estimator, name))
    return version


def fork(work: Callable[[Callable[[str], None]], None]) -> tuple[int, int]:
    """Run ``work(tell)`` in a child; return its process id and the descriptor from which to read what it tells."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(reading)
        work(lambda text: os.write(writing, f"{text}\n".encode()) and None)
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(1)


def finish(child: int, reading: int) -> tuple[list[str], bool]:
    """Wait for a child; return what it told, and whether it was killed."""
    told = b""
    while piece := os.read(reading, 1 << 16):
        told += piece
    os.close(reading)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"the child failed with status {status}"
    return told.decode().split(), os.WIFSIGNALED(status)


def timed_save(path: Path) -> float:
    """Save version 1 and return the seconds it took."""
    began = time.perf_counter()
    lt.save(make_model(1), path, overwrite=True)
    return time.perf_counter() - began


def kill_at_random(path: Path, n_kills: int, rng: random.Random) -> collections.Counter[str]:
    """Let a child save one version after the other and kill it at a random moment."""
    counts: collections.Counter[str] = collections.Counter()
    one_save, version = min(timed_save(path) for _ in range(3)), 1
    for _ in range(n_kills):

        def save_without_end(tell: Callable[[str], None], first: int = version + 1) -> None:
            for number in itertools.count(first):
                model = make_model(number)
                tell("begin")
                lt.save(model, path, overwrite=True)
                tell("end")

        child, reading = fork(save_without_end)
        time.sleep(rng.uniform(0, 3 * one_save))
        os.kill(child, signal.SIGKILL)
        told, was_killed = finish(child, reading)
        assert was_killed
        found = read_version(path)
        least, most = version + told.count("end"), version + told.count("begin")
        assert least <= found <= most, f"found version {found}, not one of {least} and {most}"
        counts["between saves" if least == most else "old" if found == least else "new"] += 1
        counts["killed"] += 1
        version = found
    return counts


def kill_at_every_step(path: Path) -> collections.Counter[str]:
    """Kill a child before the first, the second, ... file operation of a save, until there are no more."""
    counts: collections.Counter[str] = collections.Counter()
    lt.save(make_model(1), path, overwrite=True)
    version, step = 1, 0
    while True:
        step += 1
        model = make_model(version + 1)

        def save(tell: Callable[[str], None], model: lt.Tagger = model, step: int = step) -> None:
            n_steps = 0

            def count(event: str, _: object) -> None:
                nonlocal n_steps
                if event.startswith(_FILE_EVENTS):
                    n_steps += 1
                    if n_steps == step:
                        os.kill(os.getpid(), signal.SIGKILL)

            sys.addaudithook(count)
            lt.save(model, path, overwrite=True)

        _, was_killed = finish(*fork(save))
        found = read_version(path)
        if not was_killed:
            assert found == version + 1
            return counts
        assert found in (version, version + 1)
        counts["killed"] += 1
        counts["old" if found == version else "new"] += 1
        version = found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100, help="kills (default 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every-step", action="store_true")
    parser.add_argument("--no-exchange", action="store_true")
    options = parser.parse_args()
    if options.no_exchange:
        _os._renameat2 = lambda *_: False
    with tempfile.TemporaryDirectory(prefix="kill-save-") as folder:
        path = Path(folder, "m")
        if options.every_step:
            counts = kill_at_every_step(path)
        else:
            counts = kill_at_random(path, options.n, random.Random(options.seed))
        lt.save(make_model(1), path, overwrite=True)
        names = [entry.name for entry in Path(folder).iterdir()]
        assert names == ["m"], f"{names} after the next save"
    print(json.dumps({**vars(options), **counts}))


if __name__ == "__main__":
    main()
