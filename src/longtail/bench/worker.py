"""Train, save, load and test one system on one data set, in a process of its own.

Run as a script, by our interpreter or by that of a peer's environment, so nothing of longtail is imported before a
system of ours asks for it: ``python worker.py TASK.json``. The task says what to do and where to write the answer
(see `runner.py`). Every system goes through the same clock; imports are not timed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

_SINGLE_ROWS = 300
_SINGLE_SECONDS = 5.0


class System:
    """What a system can do; `train` and `load` set what `predict` uses."""

    packages: ClassVar[tuple[str, ...]] = ()

    def __init__(self, threads: int, folder: Path, params: dict[str, Any]) -> None:
        self.threads = threads
        self.folder = folder
        self.params = params
        self.model: Any = None

    def prepare(self, X: Any, Y: Any) -> None:
        """Import the library and bring the data into its form; not timed."""

    def train(self, X: Any, Y: Any) -> None:
        raise NotImplementedError

    def save(self, path: Path) -> None:
        raise NotImplementedError

    def load(self, path: Path) -> None:
        raise NotImplementedError

    def rows(self, X: Any) -> Any:
        """Bring rows into the form that `predict` takes; not timed."""
        return X

    def predict(self, rows: Any, top_k: int) -> Any:
        """Rank labels: an array (n_rows, top_k) padded with -1, or lists."""
        raise NotImplementedError


class Longtail(System):
    packages = ("longtail", "numpy", "scipy")

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

    def predict(self, rows: Any, top_k: int) -> Any:
        return self.model.predict_top_k(rows, top_k=top_k).label_ids


class Parabel(System):
    """Omikuji reads its own text file and predicts one row at a time; rows become lists before the clock starts."""

    packages = ("omikuji",)
    settings: ClassVar[dict[str, Any]] = {"n_trees": 3}

    def prepare(self, X: Any, Y: Any) -> None:
        import omikuji

        self.omikuji = omikuji
        self.train_file = self.folder / "omikuji.txt"
        with self.train_file.open("w") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
            for row in range(X.shape[0]):
                labels = ",".join(map(str, Y.indices[Y.indptr[row] : Y.indptr[row + 1]]))
                span = slice(X.indptr[row], X.indptr[row + 1])
                features = " ".join(f"{i}:{v:.9g}" for i, v in zip(X.indices[span], X.data[span], strict=True))
                file.write(f"{labels} {features or '0:0'}\n")  # it cannot read a row without features

    def train(self, X: Any, Y: Any) -> None:
        settings = self.omikuji.Model.default_hyper_param()
        for name, value in (self.settings | self.params).items():
            setattr(settings, name, value)
        self.model = self.omikuji.Model.train_on_data(str(self.train_file), settings, self.threads)

    def save(self, path: Path) -> None:
        self.model.save(str(path))

    def load(self, path: Path) -> None:
        self.model = self.omikuji.Model.load(str(path))

    def rows(self, X: Any) -> Any:
        bounds = zip(X.indptr[:-1], X.indptr[1:], strict=True)
        return [list(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in bounds]

    def predict(self, rows: Any, top_k: int) -> Any:
        return [[label_id for label_id, _ in self.model.predict(row, top_k=top_k)] for row in rows]


class Bonsai(Parabel):
    """Shallow trees with many children, as Omikuji's README sets them."""

    settings: ClassVar[dict[str, Any]] = {"n_trees": 3, "collapse_every_n_layers": 5}


class PecosTree(System):
    """XR-Linear over a tree of labels, with the defaults of PECOS: B = 16 and label features from the rows (PIFA)."""

    packages = ("libpecos",)

    def prepare(self, X: Any, Y: Any) -> None:
        import numpy as np
        from pecos.xmc.xlinear.model import XLinearModel

        self.linear = XLinearModel
        # it refuses labels without positives
        self.seen = np.flatnonzero(np.asarray(Y.sum(axis=0)).ravel() > 0)

    def clusters(self, X: Any, Y: Any) -> Any:
        from pecos.xmc import Indexer, LabelEmbeddingFactory

        return Indexer.gen(LabelEmbeddingFactory.create(Y, X, method="pifa"), threads=self.threads)

    def train(self, X: Any, Y: Any) -> None:
        Y = Y[:, self.seen]
        params = {"bias": 1.0, "threads": self.threads} | self.params
        self.model = self.linear.train(X, Y, C=self.clusters(X, Y), **params)

    def save(self, path: Path) -> None:
        self.model.save(str(path))

    def load(self, path: Path) -> None:
        self.model = self.linear.load(str(path), is_predict_only=True)

    def predict(self, rows: Any, top_k: int) -> Any:
        import numpy as np

        answer = self.model.predict(rows, only_topk=top_k, threads=self.threads)
        found = []
        for begin, end in zip(answer.indptr[:-1], answer.indptr[1:], strict=True):
            order = np.argsort(-answer.data[begin:end], kind="stable")
            found.append(self.seen[answer.indices[begin:end][order]])
        return found


class PecosOvr(PecosTree):
    """One-vs-rest of PECOS: no tree, weights under 0.01 dropped, as DiSMEC does."""

    def train(self, X: Any, Y: Any) -> None:
        self.params = {"threshold": 0.01} | self.params
        super().train(X, Y)

    def clusters(self, X: Any, Y: Any) -> Any:
        return None


class NapkinPlt(System):
    """napkinXC writes its model while it trains: the folder is the model."""

    packages = ("napkinxc",)
    kind = "PLT"

    def prepare(self, X: Any, Y: Any) -> None:
        from napkinxc import models

        self.make = getattr(models, self.kind)
        self.labels = [Y.indices[a:b].tolist() for a, b in zip(Y.indptr[:-1], Y.indptr[1:], strict=True)]

    def train(self, X: Any, Y: Any) -> None:
        self.model = self.make(str(self.folder / "model"), threads=self.threads, verbose=False, **self.params)
        self.model.fit(X, self.labels)

    def save(self, path: Path) -> None:
        self.model.unload()

    def load(self, path: Path) -> None:
        self.model = self.make(str(path), threads=self.threads, verbose=False, **self.params)
        self.model.load()

    def predict(self, rows: Any, top_k: int) -> Any:
        return self.model.predict(rows, top_k=top_k)


class NapkinOvr(NapkinPlt):
    kind = "OVR"


class SklearnOvr(System):
    """scikit-learn's one-vs-rest over LinearSVC; scores of all labels are computed in blocks of rows."""

    packages = ("scikit-learn",)

    def prepare(self, X: Any, Y: Any) -> None:
        import numpy as np
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.svm import LinearSVC

        self.seen = np.flatnonzero(np.asarray(Y.sum(axis=0)).ravel() > 0)
        self.model = OneVsRestClassifier(LinearSVC(**self.params), n_jobs=self.threads)

    def train(self, X: Any, Y: Any) -> None:
        self.model.fit(X, Y[:, self.seen])

    def save(self, path: Path) -> None:
        path.write_bytes(pickle.dumps(self.model))

    def load(self, path: Path) -> None:
        self.model = pickle.loads(path.read_bytes())

    def predict(self, rows: Any, top_k: int) -> Any:
        import numpy as np

        blocks = [rows[begin : begin + 1000] for begin in range(0, rows.shape[0], 1000)]
        return self.seen[np.concatenate([best(self.model.decision_function(block), top_k) for block in blocks])]


class XgboostTrees(System):
    """XGBoost's multi-output trees: every leaf holds a value for every label."""

    packages = ("xgboost",)
    settings: ClassVar[dict[str, Any]] = {
        "objective": "binary:logistic",
        "multi_strategy": "multi_output_tree",
        "tree_method": "hist",
    }

    def prepare(self, X: Any, Y: Any) -> None:
        import xgboost

        self.xgboost = xgboost
        self.data = xgboost.DMatrix(X, label=Y.toarray())

    def train(self, X: Any, Y: Any) -> None:
        params = self.settings | {"nthread": self.threads} | self.params
        rounds = params.pop("rounds", 30)
        self.model = self.xgboost.train(params, self.data, num_boost_round=rounds)

    def save(self, path: Path) -> None:
        self.model.save_model(path.with_suffix(".ubj"))
        path.with_suffix(".ubj").rename(path)

    def load(self, path: Path) -> None:
        self.model = self.xgboost.Booster({"nthread": self.threads})
        self.model.load_model(bytearray(path.read_bytes()))

    def predict(self, rows: Any, top_k: int) -> Any:
        return best(self.model.predict(self.xgboost.DMatrix(rows)), top_k)


SYSTEMS: dict[str, type[System]] = {
    "longtail": Longtail,
    "parabel": Parabel,
    "bonsai": Bonsai,
    "pecos-xrlinear": PecosTree,
    "pecos-ovr": PecosOvr,
    "napkinxc-plt": NapkinPlt,
    "napkinxc-ovr": NapkinOvr,
    "sklearn-ovr": SklearnOvr,
    "xgboost": XgboostTrees,
}


def best(scores: Any, top_k: int) -> Any:
    """Rank dense scores; ties by lower label id, as everywhere."""
    import numpy as np

    return np.argsort(-scores, axis=1, kind="stable")[:, :top_k]


def padded(found: Any, top_k: int) -> Any:
    import numpy as np

    ids = np.full((len(found), top_k), -1, dtype=np.int32)
    for row, answer in enumerate(found):
        ids[row, : len(answer[:top_k])] = answer[:top_k]
    return ids


def read_pair(folder: Path, part: str, *, wide: bool) -> tuple[Any, Any]:
    """Read X.PART.npz and Y.PART.npz; all but longtail want scipy's matrices with 32-bit indices."""
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
    """Do what the task says; returns the measurements and writes the ranked label ids."""
    import numpy as np

    folder, answer, top_k = Path(task["data"]), Path(task["answer"]), int(task["top_k"])
    make = SYSTEMS[task["adapter"]]
    is_ours = make is Longtail
    (X, Y), (X_test, _) = (read_pair(folder, part, wide=is_ours) for part in ("train", "test"))
    if is_ours and task["dense"]:
        X, X_test = X.toarray(), X_test.toarray()
    system = make(int(task["threads"]), answer, task["params"])
    system.prepare(X, Y)
    clock = Clock()
    system.train(X, Y)
    record: dict[str, Any] = clock.seconds("train") | {"peak_memory_mb": round(peak_bytes() / 1e6, 1)}
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
    versions = {name: importlib.metadata.version(name) for name in make.packages}
    return record | {"versions": versions | {"python": sys.version.split()[0]}}


def single_row_ms(system: System, rows: Any, n_rows: int, top_k: int) -> float:
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
