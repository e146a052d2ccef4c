"""Adapters of other libraries for `longtail bench --peers benchmarks/peers`.

Each runs in its library's own environment (`environments.py`), where longtail is not installed, under the same clock
as our estimators: see `Longtail` in src/longtail/bench/worker.py, which has the same methods.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, ClassVar


class Peer:
    """What adapters share: `title` is shown in tables, `packages[0]` names the environment."""

    title: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]

    def __init__(self, threads: int, folder: Path, params: dict[str, Any]) -> None:
        self.threads = threads
        self.folder = folder
        self.params = params
        self.model: Any = None

    def rows(self, X: Any) -> Any:
        return X


class Parabel(Peer):
    """Omikuji reads its own text file and predicts one row at a time; rows become lists before the clock starts."""

    title = "Omikuji Parabel"
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

    title = "Omikuji Bonsai"
    settings: ClassVar[dict[str, Any]] = {"n_trees": 3, "collapse_every_n_layers": 5}


class PecosTree(Peer):
    """XR-Linear over a tree of labels, with the defaults of PECOS: B = 16 and label features from the rows (PIFA)."""

    title = "PECOS XR-Linear"
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

    title = "PECOS one-vs-rest"

    def train(self, X: Any, Y: Any) -> None:
        self.params = {"threshold": 0.01} | self.params
        super().train(X, Y)

    def clusters(self, X: Any, Y: Any) -> Any:
        return None


class NapkinPlt(Peer):
    """napkinXC writes its model while it trains: the folder is the model."""

    title = "napkinXC PLT"
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
    title = "napkinXC one-vs-rest"
    kind = "OVR"


class SklearnOvr(Peer):
    """scikit-learn's one-vs-rest over LinearSVC; scores of all labels are computed in blocks of rows."""

    title = "scikit-learn one-vs-rest"
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


class XgboostTrees(Peer):
    """XGBoost's multi-output trees: every leaf holds a value for every label."""

    title = "XGBoost multi-output"
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


def best(scores: Any, top_k: int) -> Any:
    """Rank dense scores; ties by lower label id."""
    import numpy as np

    return np.argsort(-scores, axis=1, kind="stable")[:, :top_k]


SYSTEMS: dict[str, type[Peer]] = {
    "parabel": Parabel,
    "bonsai": Bonsai,
    "napkinxc-plt": NapkinPlt,
    "napkinxc-ovr": NapkinOvr,
    "pecos-xrlinear": PecosTree,
    "pecos-ovr": PecosOvr,
    "sklearn-ovr": SklearnOvr,
    "xgboost": XgboostTrees,
}
