"""Train, save, load and test one system on one data set, in its own process: ``python worker.py TASK.json``.

The script is also run by the interpreters of other libraries' environments, so it imports nothing of longtail until
an estimator of ours is measured. `runner.py` writes the task. Imports and conversions of the data are not timed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_SINGLE_ROWS = 300
_SINGLE_SECONDS = 5.0


class Longtail:
    """The adapter of our estimators; a peer's adapter has the same methods.

    `prepare` and `rows` convert data and are not timed; `train` and `load` set the model that `predict` uses. `predict`
    returns ranked label ids: an array (n_rows, top_k) padded with -1, or lists.
    """

    packages = ("longtail", "numpy", "scipy")

    def __init__(self, threads: int, folder: Path, params: dict[str, Any]) -> None:
        self.threads = threads
        self.params = params
        self.model: Any = None

    def prepare(self, X: Any, Y: Any) -> None:
        import numpy as np
        import scipy.sparse as sp

        from longtail.baselines import Popularity
        from longtail.saving import load, make_estimator, save

        self.make_estimator: Any = make_estimator
        self.save_model: Any = save
        self.load_model: Any = load
        toy = np.eye(2, dtype=np.float32)  # not rows of the data: the first ones may have no label
        Popularity(n_jobs=1).fit(sp.csr_matrix(toy) if sp.issparse(X) else toy, toy)  # imports what every fit imports

    def train(self, X: Any, Y: Any) -> None:
        params = dict(self.params)
        self.model = self.make_estimator(params.pop("estimator"), params | {"n_jobs": self.threads}).fit(X, Y)

    def save(self, path: Path) -> None:
        self.save_model(self.model, path)

    def load(self, path: Path) -> None:
        self.model = self.load_model(path)
        self.model.set_params(n_jobs=self.threads)

    def rows(self, X: Any) -> Any:
        return X

    def predict(self, rows: Any, top_k: int) -> Any:
        return self.model.predict_top_k(rows, top_k=top_k).label_ids


def find_adapter(name: str | None, file: str) -> Any:
    """Return the class of a peer from the file that defines it, or ours."""
    if name is None:
        return Longtail
    spec = importlib.util.spec_from_file_location("adapters", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"bench: {file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.SYSTEMS[name]


def padded(found: Any, top_k: int) -> Any:
    import numpy as np

    ids = np.full((len(found), top_k), -1, dtype=np.int32)
    for row, answer in enumerate(found):
        ids[row, : len(answer[:top_k])] = answer[:top_k]
    return ids


def read_pair(folder: Path, part: str, *, wide: bool) -> tuple[Any, Any]:
    """Read X.PART.npz and Y.PART.npz; peers need 32-bit indices."""
    import numpy as np
    import scipy.sparse as sp

    pair = []
    for name in ("X", "Y"):
        matrix = sp.csr_matrix(sp.load_npz(folder / f"{name}.{part}.npz")).astype(np.float32)
        matrix.sort_indices()
        if not wide:
            matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        pair.append(matrix)
    return pair[0], pair[1]


class Clock:
    """Wall and CPU seconds of this process since it was made."""

    def __init__(self) -> None:
        self.begin = time.perf_counter(), time.process_time()

    def seconds(self, name: str) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self.begin[0], time.process_time() - self.begin[1]
        return {f"{name}_wall_seconds": round(wall, 4), f"{name}_cpu_seconds": round(cpu, 4)}


def peak_bytes() -> int:
    status = Path("/proc/self/status")
    if status.exists():  # over fork and exec, ru_maxrss keeps the parent's peak
        return next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    try:
        import resource
    except ImportError:  # Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Run the task: return its measurements and write the ranked label ids."""
    import numpy as np

    folder, answer, top_k = Path(task["data"]), Path(task["answer"]), int(task["top_k"])
    make = find_adapter(task["adapter"], task["adapters"])
    is_ours = make is Longtail
    (X, Y), (X_test, Y_test) = (read_pair(folder, part, wide=is_ours) for part in ("train", "test"))
    if is_ours and task["dense"]:
        X, X_test = X.toarray(), X_test.toarray()
    system = make(int(task["threads"]), answer, task["params"])
    system.prepare(X, Y)
    clock = Clock()
    system.train(X, Y)
    record: dict[str, Any] = clock.seconds("train") | {"peak_memory_mb": round(peak_bytes() / 1e6, 1)}
    trained = system.model if is_ours else None
    path = answer / "model"
    system.save(path)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    record["model_mb"] = round(sum(file.stat().st_size for file in files) / 1e6, 3)
    clock = Clock()
    system.load(path)
    record["load_seconds"] = clock.seconds("load")["load_wall_seconds"]
    rows = system.rows(X_test)
    for _ in range(int(task["warm_ups"])):
        system.predict(rows[:10], top_k)
    clock = Clock()
    found = system.predict(rows, top_k)
    record |= clock.seconds("predict")
    record["predict_ms_per_row"] = round(1000 * record["predict_wall_seconds"] / max(1, X_test.shape[0]), 4)
    record["predict_ms_single_row"] = single_row_ms(system, rows, X_test.shape[0], top_k)
    np.save(answer / "label_ids.npy", padded(found, top_k))
    if trained is not None and task.get("extras"):
        from longtail.bench.extras import measure_extras

        record |= measure_extras(trained, task["extras"], X_test, Y_test, answer, top_k)
    versions = {name: importlib.metadata.version(name) for name in make.packages}
    return record | {"versions": versions | {"python": sys.version.split()[0]}}


def single_row_ms(system: Any, rows: Any, n_rows: int, top_k: int) -> float:
    """Mean time of a call with one row."""
    ones = [rows[row : row + 1] for row in range(min(_SINGLE_ROWS, n_rows))]
    begin = time.perf_counter()
    n_done = 0
    for one in ones:
        system.predict(one, top_k)
        n_done += 1
        if time.perf_counter() - begin > _SINGLE_SECONDS:
            break
    return round(1000 * (time.perf_counter() - begin) / max(1, n_done), 4)


def main() -> None:
    task = json.loads(Path(sys.argv[1]).read_text())
    if task["cpus"] and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, task["cpus"])  # before any library starts its threads
    result = Path(task["answer"]) / "result.json"
    result.write_text(json.dumps(run(task)))


if __name__ == "__main__":
    main()
