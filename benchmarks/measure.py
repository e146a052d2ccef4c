"""What every benchmark shares: timing, peak memory, a description of the machine, one JSON line per result.

A benchmark answers one question. It is a script that makes a record (data set, size, threads, settings), adds what it
measured and emits it:

    options = make_parser(__doc__).parse_args()
    record = {"question": "metrics", "n_rows": len(top), "threads": 1}
    emit(record | measure(lambda: evaluate(top, Y), options.repeats), save="metrics" if options.save else None)
"""

import argparse
import json
import multiprocessing
import platform
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from longtail.bench.machine import describe_machine

_HERE = Path(__file__).resolve().parent
RESULTS = _HERE / "results"


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Make a parser with the options that every benchmark has: --repeats and --save."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5, help="runs; median, min and max are reported (default 5)")
    parser.add_argument("--save", action="store_true", help="also append the lines to benchmarks/results/")
    return parser


def measure(fn: Callable[[], object], repeats: int = 5, *, warm_ups: int = 0) -> dict[str, float]:
    """Call `fn` repeatedly and give the median, least and greatest wall and CPU seconds of a call.

    CPU seconds are user and system time of all threads and of finished child processes. `warm_ups` calls go before
    and are not timed: use one where the first call pays for imports or page faults that are not the question.
    """
    return measure_in_turn([fn], repeats, warm_ups=warm_ups)[0]


def measure_in_turn(
    fns: Sequence[Callable[[], object]], repeats: int = 5, *, warm_ups: int = 0
) -> list[dict[str, float]]:
    """Measure each of `fns` as `measure` does, a call of each in turn: ratios are then safe from a drifting clock."""
    if repeats < 1:
        raise ValueError(f"measure: repeats must be an int >= 1, got {repeats!r}")
    for fn in fns:
        for _ in range(warm_ups):
            fn()
    wall: list[list[float]] = [[] for _ in fns]
    cpu: list[list[float]] = [[] for _ in fns]
    for _ in range(repeats):
        for at, fn in enumerate(fns):
            cpu_before, wall_before = _cpu_seconds(), time.perf_counter()
            fn()
            wall[at].append(time.perf_counter() - wall_before)
            cpu[at].append(_cpu_seconds() - cpu_before)
    return [
        {"repeats": repeats} | _spread("wall_seconds", walls) | _spread("cpu_seconds", cpus)
        for walls, cpus in zip(wall, cpu, strict=True)
    ]


def peak_memory(fn: Callable[..., object], setup: Callable[[], Any] | None = None) -> dict[str, int]:
    """Run `fn` once in a fresh process and give its peak resident memory, in bytes.

    `fn` and `setup` must be module-level functions (the process is spawned, not forked). `setup` makes what `fn` gets
    as its only argument, for instance the loaded data; then `peak_bytes` is everything that was resident at the worst
    moment of `fn`, and `peak_growth_bytes` is how far that lies above what was resident before.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_report, args=(fn, setup, sender))
    process.start()
    sender.close()
    try:
        before, peak = receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"peak_memory: the process ended with exit code {process.exitcode}") from None
    process.join()
    return {"peak_bytes": peak, "peak_growth_bytes": max(0, peak - before)}


def emit(record: dict[str, Any], save: str | None = None) -> None:
    """Print a record with the machine and the time as one JSON line; append it to results/<save>.jsonl."""
    line = json.dumps(record | {"machine": describe_machine(), "time": datetime.now(UTC).isoformat(timespec="seconds")})
    print(line, flush=True)
    if save is not None:
        RESULTS.mkdir(exist_ok=True)
        with (RESULTS / f"{save}.jsonl").open("a") as file:
            file.write(line + "\n")


def _cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _spread(name: str, values: list[float]) -> dict[str, float]:
    numbers = {name: statistics.median(values), f"{name}_min": min(values), f"{name}_max": max(values)}
    return {key: float(f"{value:.4g}") for key, value in numbers.items()}


def _run_and_report(fn: Callable[..., object], setup: Callable[[], Any] | None, sender: Connection) -> None:
    arguments = () if setup is None else (setup(),)
    before = _resident_bytes("VmRSS")
    if (clear := Path("/proc/self/clear_refs")).exists():
        clear.write_text("5")  # forget the peak of the set-up
    fn(*arguments)
    sender.send((before, _resident_bytes("VmHWM")))
    sender.close()


def _resident_bytes(field: str) -> int:
    # Not ru_maxrss where it can be helped: over fork and exec it keeps the parent's peak.
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)
    return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith(field))
