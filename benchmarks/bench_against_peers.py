"""How fast and how accurate are our systems beside their peers, on the same data and cores, in one run?

Every training runs in a process of its own, pinned to as many cores as it may use; systems take turns, so that a busy
minute of the machine hits all of them. Peers run in the environment that `make peers` builds. Prints one JSON line per
run and, at the end, medians and the ratio to the first system named.

Example: python benchmarks/bench_against_peers.py --data eurlex --systems DiSMEC parabel pecos_ovr --repeats 3 --save
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import emit

import longtail as lt

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
OURS = {
    "DiSMEC": ("DiSMEC", {}),
    "DiSMEC zero": ("DiSMEC", {"start": "zero"}),
    "FastXML": ("FastXML", {}),
    "PfastXML": ("PfastXML", {}),
    "PfastreXML": ("PfastreXML", {}),
    "GBDTSparse": ("GBDTSparse", {}),
    "Popularity": ("Popularity", {}),
}
PEERS = ("parabel", "bonsai", "pecos_ovr", "napkinxc_plt")


def data_folder() -> Path:
    return Path(os.environ.get("LONGTAIL_DATA", ROOT.parent / "shared" / "data"))


def run_ours(system: str, folder: Path, threads: int) -> dict[str, Any]:
    """Train and test one of our systems; called in a fresh process."""
    (X, Y), (X_test, Y_test) = (lt.datasets.read_npz(folder / f"X.{part}.npz") for part in ("train", "test"))
    name, params = OURS[system]
    model = getattr(lt, name)(**params, n_jobs=threads)
    lt.Popularity().fit(X[:2], Y[:2])  # imports what fit imports: peers' imports are not timed either
    begin = time.process_time(), time.perf_counter()
    model.fit(X, Y)
    train_cpu, train_wall = time.process_time() - begin[0], time.perf_counter() - begin[1]
    model.predict_top_k(X_test[:1])
    begin = time.process_time(), time.perf_counter()
    top = model.predict_top_k(X_test)
    predict_cpu, predict_wall = time.process_time() - begin[0], time.perf_counter() - begin[1]
    rows = [X_test[[row]] for row in range(300)]
    single = time.perf_counter()
    for row in rows:
        model.predict_top_k(row)
    single = time.perf_counter() - single
    propensity = lt.propensity.from_counts(model.label_counts_, model.n_rows_)
    result = lt.metrics.evaluate(top, Y_test, propensity=propensity)
    with tempfile.TemporaryDirectory() as place:
        lt.save(model, Path(place) / "model")
        size_bytes = sum(path.stat().st_size for path in Path(place).rglob("*") if path.is_file())
    return {
        "system": system,
        "threads": threads,
        "train_cpu_seconds": round(train_cpu, 3),
        "train_wall_seconds": round(train_wall, 3),
        "predict_cpu_seconds": round(predict_cpu, 3),
        "predict_wall_seconds": round(predict_wall, 3),
        "predict_ms_per_row": round(1000 * predict_wall / X_test.shape[0], 4),
        "predict_ms_single_row": round(1000 * single / len(rows), 4),
        **{key: round(result[key], 2) for k in (1, 3, 5) for key in (f"P@{k}", f"PSP@{k}")},
        "model_mb": round(size_bytes / 1e6, 1),
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def run_once(system: str, folder: Path, threads: int, peers_python: Path) -> dict[str, Any]:
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[-threads:])
    pinned = ["taskset", "-c", cores] if shutil.which("taskset") else []
    if system in PEERS:
        files = [str(folder / "X.train.npz"), str(folder / "X.test.npz")]
        command = [str(peers_python), str(HERE / "run_peer.py"), system, *files, "--threads", str(threads)]
    else:
        command = [sys.executable, __file__, "--one", system, str(folder), "--threads", str(threads)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([*pinned, *command], capture_output=True, text=True, check=False, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"system": system, "failed": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    record: dict[str, Any] = json.loads(lines[-1])
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="eurlex", help="a data set of ../shared/data or $LONGTAIL_DATA")
    parser.add_argument("--systems", nargs="+", default=["DiSMEC", "parabel"], metavar="SYSTEM", help="who takes part")
    parser.add_argument("--rows", choices=["unit", "as-is"], default="unit", help="scale rows to length 1 first?")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--once", nargs="*", default=["pecos_ovr"], metavar="SYSTEM", help="too slow to repeat")
    parser.add_argument("--peers-python", type=Path, default=ROOT / ".venv-peers" / "bin" / "python")
    parser.add_argument("--save", action="store_true", help="append to benchmarks/results/against_peers.jsonl")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run_ours(options.one[0], Path(options.one[1]), options.threads)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for part in ("train", "test"):
            X, Y = lt.datasets.read_xmc(data_folder() / options.data / f"{options.data}_{part}.txt.gz")
            X = lt.datasets.unit_rows(X) if options.rows == "unit" else X
            lt.datasets.write_npz(folder / f"X.{part}.npz", X, Y)
        runs: dict[str, list[dict[str, Any]]] = {system: [] for system in options.systems}
        for repeat in range(options.repeats):
            for system in options.systems:
                if repeat and system in options.once:
                    continue
                record = run_once(system, folder, options.threads, options.peers_python)
                record = {"dataset": options.data, "rows": options.rows, **record}
                emit(record, save="against_peers" if options.save else None)
                if "failed" not in record:
                    runs[system].append(record)
    print(summary(runs, options.systems[0]), file=sys.stderr)


def summary(runs: dict[str, list[dict[str, Any]]], first: str) -> str:
    def median(system: str, key: str) -> float:
        return statistics.median(run[key] for run in runs[system])

    lines = [
        f"{'system':14} {'train s (min–max)':>24} {'÷ ' + first:>10} {'ms/row':>8} {'P@1':>6} {'P@3':>6} {'P@5':>6}"
    ]
    for system, records in runs.items():
        if not records:
            lines.append(f"{system:14} failed")
            continue
        seconds = [record["train_wall_seconds"] for record in records]
        ratio = median(system, "train_wall_seconds") / median(first, "train_wall_seconds") if runs[first] else 0
        accuracy = " ".join(f"{median(system, f'P@{k}'):6.2f}" for k in (1, 3, 5))
        spread = f"{statistics.median(seconds):.1f} ({min(seconds):.1f}–{max(seconds):.1f})"
        lines.append(f"{system:14} {spread:>24} {ratio:>10.2f} {median(system, 'predict_ms_per_row'):>8.3f} {accuracy}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
