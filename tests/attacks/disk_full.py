"""Let the disk be full at every page that a command writes: one line, exit code 2, and nothing half done.

    python -m tests.attacks.disk_full                    # every command, every page of 4 KiB
    python -m tests.attacks.disk_full --step 8 train     # every eighth page of one command

Each run gets a tmpfs of its own, a page larger than the one before, until the command succeeds. What it was to write
must then be there whole; before, it must be missing, or be what was there before. Needs the right to mount (as root, or
where user namespaces are allowed). Prints one JSON line; exits with code 1 if anything else happened.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import scipy.sparse as sp

import longtail as lt
from longtail.cli.app import main as run_command
from tests.models.make import make_labels, make_rows

_INSIDE = "LONGTAIL_INSIDE_MOUNT"
_PAGE_BYTES = 4096
_MAX_PAGES = 4000
_N_REPEATS = 25  # of the forty rows to predict, so that the answers fill several pages


class Place:
    """Inputs on a good disk, and a small disk to write to."""

    def __init__(self, folder: Path) -> None:
        self.good, self.small = folder / "good", folder / "small"
        self.good.mkdir()
        self.small.mkdir()
        self.data, self.many, self.model = self.good / "rows.txt", self.good / "many.txt", self.good / "m.model"
        lt.datasets.write_xmc(self.data, make_rows(), make_labels())
        lt.save(lt.DiSMEC(n_jobs=1).fit(make_rows(), make_labels()), self.model)
        lt.datasets.write_xmc(self.many, sp.vstack([make_rows()] * _N_REPEATS), sp.vstack([make_labels()] * _N_REPEATS))

    @contextlib.contextmanager
    def mounted(self, n_pages: int):  # type: ignore[no-untyped-def]
        size = f"size={n_pages * _PAGE_BYTES}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", size, "longtail-test", self.small], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "-l", self.small], check=True)


def commands(place: Place) -> dict[str, list[str]]:
    """Return the commands, each with what it writes below the small disk."""
    data, many, model, small = str(place.data), str(place.many), str(place.model), place.small
    bench = ["bench", "--train", data, "--test", data, "-s", "Popularity"]
    train = ["train", data, "-e", "DiSMEC", "--n-jobs", "1"]
    return {
        "train": [*train, "-o", f"{small}/out"],
        "train with checkpoint": [*train, "-o", f"{place.good}/out", "--overwrite", "--checkpoint", f"{small}/run"],
        "save over a model": ["calibrate", f"{small}/old", data],
        "predict": ["predict", model, many, "-o", f"{small}/out"],
        "predict to stdout": ["predict", model, many],
        "convert": ["convert", data, f"{small}/out"],
        "report": ["report", model, data, "-o", f"{small}/out.html"],
        "bench": [*bench, "--results", f"{small}/results.jsonl", "-o", f"{small}/pages"],
    }


def in_child(work: Callable[[], int]) -> tuple[int, str]:
    """Run in a forked process; return its exit code (negative: the signal) and its standard error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            os.dup2(writing, 2)
            sys.stderr = io.TextIOWrapper(open(2, "wb", buffering=0, closefd=False), write_through=True)  # noqa: SIM115
            code = work()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        told = stream.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), told.decode()


def run_one(name: str, arguments: list[str], place: Place) -> tuple[int, str]:
    def work() -> int:
        warnings.simplefilter("ignore")
        if name == "predict to stdout":
            os.dup2(os.open(place.small / "out", os.O_WRONLY | os.O_CREAT), 1)
            sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False))  # noqa: SIM115
        else:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 0
        try:
            run_command(arguments)
            sys.stdout.flush()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        return code

    return in_child(work)


def problem_of(name: str, code: int, told: str, place: Place) -> str | None:
    """Return what is wrong with the outcome of one run, or None."""
    if code not in (0, 2):
        return f"exit code {code}: {told[-500:]}"
    lines = [line for line in told.splitlines() if line.startswith("longtail: ")]
    if code == 2 and (len(lines) != 1 or "No space left" not in lines[0]):
        return f"not one line: {told[-500:]}"
    out = place.small / "out"
    try:
        if name in ("train", "save over a model"):
            model = place.small / ("old" if name != "train" else "out")
            if name != "train" or code == 0 or model.exists():
                lt.load(model, verify=True)
        elif name == "predict" and (code == 0 or out.exists()):
            assert out.read_text().count("\n") == 40 * _N_REPEATS, "half an answer"
        elif name == "convert" and (code == 0 or out.exists()):
            lt.datasets.read(out)
        elif name == "report" and (code == 0 or out.with_suffix(".html").exists()):
            assert out.with_suffix(".html").read_text().rstrip().endswith("</html>"), "half a report"
        elif name == "bench" and (place.small / "results.jsonl").exists():
            text = (place.small / "results.jsonl").read_text()
            assert code == 2 or text, "no results"
            for line in text.splitlines()[: None if code == 0 else -1]:
                json.loads(line)
    except (AssertionError, ValueError, OSError) as error:
        return f"after exit code {code}: {type(error).__name__}: {error}"
    return None


def attack(name: str, arguments: list[str], place: Place, step: int) -> tuple[collections.Counter[str], list[str]]:
    """Run one command with ever more space until it succeeds."""
    counts: collections.Counter[str] = collections.Counter()
    problems: list[str] = []
    n_used = 0
    if name == "save over a model":
        n_used = sum(-(-path.stat().st_size // _PAGE_BYTES) for path in place.model.rglob("*.*")) + 1
    for n_free in range(1, _MAX_PAGES, step):
        with place.mounted(n_used + n_free):
            if name == "save over a model":
                shutil.copytree(place.model, place.small / "old")
            code, told = run_one(name, arguments, place)
            problem = problem_of(name, code, told, place)
            counts["full" if code == 2 else "finished" if code == 0 else "failed"] += 1
            if problem is not None:
                problems.append(f"{name}, {n_free} pages: {problem}")
            if code == 0:
                return counts, problems
            if len(problems) > 3:
                return counts, problems
    problems.append(f"{name}: did not finish with {_MAX_PAGES} pages")
    return counts, problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="commands; default: all")
    parser.add_argument("--step", type=int, default=1, help="pages between two runs")
    options = parser.parse_args()
    if _INSIDE not in os.environ:
        again = [sys.executable, "-m", "tests.attacks.disk_full", *sys.argv[1:]]
        environment = {**os.environ, _INSIDE: "1"}
        return subprocess.run(
            ["unshare", "--map-root-user", "--mount", *again], env=environment, check=False
        ).returncode
    report: dict[str, dict[str, int]] = {}
    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="disk-full-") as folder:
        place = Place(Path(folder))
        for name, arguments in commands(place).items():
            if options.names and name not in options.names:
                continue
            counts, found = attack(name, arguments, place, options.step)
            report[name] = dict(counts)
            problems += found
    print(json.dumps({"step": options.step, "runs": report, "problems": problems}))
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
