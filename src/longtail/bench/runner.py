"""Run the cells of a matrix, each in its own process, and append one line per cell to the results."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longtail import metrics, propensity
from longtail.bench.data import Prepared
from longtail.bench.extras import incomplete_gains, tail_contributions
from longtail.bench.machine import describe_machine
from longtail.bench.matrix import Cell, key_of
from longtail.bench.results import append_result, check_writable, read_results

_WORKER = Path(__file__).with_name("worker.py")
_TOP_K = 5
_MACRO = {"f1": "macro-F1", "recall": "macro-recall", "balanced_accuracy": "balanced-accuracy"}
_METRICS = tuple(f"{name}@{k}" for name in ("P", "nDCG", "PSP", "PSnDCG", "coverage") for k in (1, 3, 5))
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has no SIGKILL

Tell = Callable[[Cell, dict[str, Any] | None], None]


def run_matrix(
    cells: Sequence[Cell],
    results: Path,
    *,
    data_folder: Path = Path(),
    retry_failed: bool = False,
    timeout_seconds: float | None = None,
    tell: Tell = lambda cell, record: None,
) -> int:
    """Run the cells that have no line in `results` yet.

    Parameters
    ----------
    cells : sequence of Cell
        In this order.
    results : Path
        JSON lines; finished cells are skipped, new lines are appended.
    data_folder : Path
        Where relative data files lie.
    retry_failed : bool, default False
        Run failed cells again.
    timeout_seconds : float, optional
        Start no cell after this time.
    tell : callable
        Called before each cell, with None, and after it, with its record.

    Returns
    -------
    n_left : int
        Cells that were not started because of the timeout.
    """
    stored = read_results(results)
    done = {key_of(line) for line in stored if "failed" not in line}
    done |= set() if retry_failed else {key_of(line) for line in stored}
    todo = [cell for cell in cells if cell.key() not in done]
    if todo:
        check_writable(results)
    begin = time.monotonic()
    machine = describe_machine() if todo else {}
    with tempfile.TemporaryDirectory(prefix="longtail-bench-") as place:
        bench = _Bench(Path(place), data_folder)
        for n_done, cell in enumerate(todo):
            if timeout_seconds is not None and time.monotonic() - begin > timeout_seconds:
                return len(todo) - n_done
            tell(cell, None)
            try:
                prepared = bench.prepare(cell)
            except (OSError, ValueError, TypeError) as error:
                tell(cell, {"failed": str(error)})  # not a result: store nothing
                continue
            record = bench.run(cell, prepared) | {
                "machine": machine,
                "time": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            append_result(results, record)
            tell(cell, record)
    return 0


class _Bench:
    """Data sets on disk, prepared when first needed, and the processes that read them."""

    def __init__(self, place: Path, data_folder: Path) -> None:
        self._place = place
        self._data_folder = data_folder
        self._sets: dict[tuple[str, bool, str], Prepared] = {}

    def prepare(self, cell: Cell) -> Prepared:
        key = cell.data.name, cell.data.unit_rows, json.dumps(cell.data.missing, sort_keys=True)
        if key not in self._sets:
            self._sets[key] = Prepared(cell.data, self._data_folder, self._place / f"data-{len(self._sets)}")
        return self._sets[key]

    def run(self, cell: Cell, prepared: Prepared) -> dict[str, Any]:
        record = cell.identity() | prepared.sizes
        with tempfile.TemporaryDirectory(dir=self._place) as answer:
            try:
                find = cell.system.interpreter
                python = Path(sys.executable) if find is None else find()
                record |= _run_worker(cell, python, prepared.folder, Path(answer))
                label_ids = np.load(Path(answer) / "label_ids.npy")
                swept = [np.load(path) for path in sorted(Path(answer).glob("sweep-*.npy"))]
            except (RuntimeError, OSError) as error:
                return record | {"failed": str(error)}
        known = propensity.from_counts(prepared.label_counts, prepared.sizes["n_rows"])

        def measure(label_ids: NDArray[np.int32]) -> dict[str, float]:
            values = metrics.evaluate(label_ids, prepared.Y_test, propensity=known)
            return {name: round(values[name], 3) for name in _METRICS}

        for point, found in zip(record.get("sweep", []), swept, strict=True):
            point |= measure(found)
        if cell.system.extras.get("contributions"):
            record["contributions"] = tail_contributions(label_ids, prepared.Y_test, prepared.label_counts, known)
        if asked := cell.system.extras.get("incomplete"):
            known_of = (prepared.label_counts, prepared.sizes["n_rows"])
            record["incomplete"] = incomplete_gains(label_ids, prepared.Y_test, *known_of, **asked)
        counts = prepared.label_counts
        tail = metrics.evaluate_tail(label_ids, prepared.Y_test, counts, _TOP_K, propensity=known)
        macro = {f"{shown}@{_TOP_K}": round(tail.everything.measures[name].value, 3) for name, shown in _MACRO.items()}
        return record | measure(label_ids) | macro | {"tail": tail.to_dict()}


def _run_worker(cell: Cell, python: Path, data: Path, answer: Path) -> dict[str, Any]:
    """Run one system in a new process; RuntimeError gives the reason of a failure."""
    task = {
        "adapter": cell.system.adapter,
        "adapters": str(cell.system.adapters),
        "params": cell.system.params,
        "threads": cell.threads,
        "cpus": _cpus(cell.threads),
        "warm_ups": cell.warm_ups,
        "dense": cell.data.dense,
        "top_k": _TOP_K,
        "extras": cell.system.extras,
        "data": str(data),
        "answer": str(answer),
    }
    (answer / "task.json").write_text(json.dumps(task))
    # Keep our folder off the path, so that a peer cannot import our modules instead of its own.
    environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(cell.threads)) | {"PYTHONSAFEPATH": "1"}
    with (answer / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), str(_WORKER), str(answer / "task.json")],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
        try:
            process.wait(cell.limit_seconds)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"not finished within {cell.limit_seconds:g} s") from None
        finally:
            _end(process)
    if process.returncode or not (answer / "result.json").exists():
        raise RuntimeError(_reason(process.returncode, (answer / "log").read_text(errors="replace")))
    result: dict[str, Any] = json.loads((answer / "result.json").read_text())
    return result | {"pinned_cpus": task["cpus"]}


def _cpus(threads: int) -> list[int]:
    """Choose the CPUs a cell is pinned to: the last ones, since the first serve most interrupts."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    available = sorted(os.sched_getaffinity(0))
    return available[-threads:] if threads <= len(available) else []


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the worker and what it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, _KILL)
    elif process.poll() is None:
        process.kill()
    process.wait()


def _reason(code: int, log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for number, line in enumerate(lines):
        if " panicked at " in line:  # Rust prints the reason first, then notes
            lines = [" ".join(lines[number : number + 2])]
            break
    if -code == _KILL:  # not ours: a timeout is reported as such
        return "killed by the system (SIGKILL), as it does when memory runs out"
    if code < 0:
        signals = {int(number): number.name for number in signal.Signals}
        return f"ended by {signals.get(-code, f'signal {-code}')}" + (f" after: {lines[-1]}" if lines else "")
    return lines[-1] if lines else f"ended with exit code {code} and no message"
