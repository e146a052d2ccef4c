"""Train and test one peer on one data set and print a JSON line.

Runs in the peers' own virtual environment (`make peers`), so it imports nothing of longtail. Data comes as the npz
pairs that `longtail convert` writes (X.NAME.npz, Y.NAME.npz). Seconds are those of the training call and of prediction.

Example: .venv-peers/bin/python benchmarks/run_peer.py parabel data/X.train.npz data/X.test.npz --threads 1
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp


class Clock:
    """CPU and wall seconds of named spans."""

    def __init__(self):
        self.spans = {}
        self.start()

    def start(self):
        self._begin = time.process_time(), time.perf_counter()

    def stop(self, name):
        self.spans[f"{name}_cpu_seconds"] = round(time.process_time() - self._begin[0], 3)
        self.spans[f"{name}_wall_seconds"] = round(time.perf_counter() - self._begin[1], 3)


def parabel(X, Y, X_test, top_k, threads, collapse_every_n_layers=0):
    import omikuji

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "train.txt"
        write_xmc(path, X, Y)
        settings = omikuji.Model.default_hyper_param()
        settings.n_trees = 3
        if collapse_every_n_layers:  # Bonsai: shallow trees with many children
            settings.collapse_every_n_layers = collapse_every_n_layers
        clock = Clock()
        model = omikuji.Model.train_on_data(str(path), settings, threads)
        clock.stop("train")
    bounds = list(zip(X_test.indptr[:-1], X_test.indptr[1:], strict=True))
    rows = [list(zip(X_test.indices[a:b].tolist(), X_test.data[a:b].tolist(), strict=True)) for a, b in bounds]
    clock.start()
    found = [model.predict(row, top_k=top_k) for row in rows]
    clock.stop("predict")
    return padded([[label_id for label_id, _ in answer] for answer in found], top_k), clock


def bonsai(X, Y, X_test, top_k, threads):
    return parabel(X, Y, X_test, top_k, threads, collapse_every_n_layers=5)


def pecos_ovr(X, Y, X_test, top_k, threads):
    from pecos.xmc.xlinear.model import XLinearModel

    seen = np.flatnonzero(np.asarray(Y.sum(axis=0)).ravel() > 0)  # it rejects labels without positives
    clock = Clock()
    model = XLinearModel.train(X, sp.csr_matrix(Y[:, seen]), C=None, bias=1.0, threads=threads, threshold=0.01)
    clock.stop("train")
    clock.start()
    answer = model.predict(X_test, only_topk=top_k, beam_size=top_k, threads=threads)
    clock.stop("predict")
    rows = []
    for begin, end in zip(answer.indptr[:-1], answer.indptr[1:], strict=True):
        order = np.argsort(-answer.data[begin:end], kind="stable")
        rows.append(seen[answer.indices[begin:end][order]].tolist())
    return padded(rows, top_k), clock


def napkinxc_plt(X, Y, X_test, top_k, threads):
    from napkinxc.models import PLT

    labels = [Y.indices[a:b].tolist() for a, b in zip(Y.indptr[:-1], Y.indptr[1:], strict=True)]
    with tempfile.TemporaryDirectory() as folder:
        clock = Clock()
        model = PLT(folder, threads=threads, verbose=False)
        model.fit(X, labels)
        clock.stop("train")
        clock.start()
        found = model.predict(X_test, top_k=top_k)
        clock.stop("predict")
    return padded(found, top_k), clock


PEERS = {"parabel": parabel, "bonsai": bonsai, "pecos_ovr": pecos_ovr, "napkinxc_plt": napkinxc_plt}


def write_xmc(path, X, Y):
    with Path(path).open("w") as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for row in range(X.shape[0]):
            labels = ",".join(map(str, Y.indices[Y.indptr[row] : Y.indptr[row + 1]]))
            span = slice(X.indptr[row], X.indptr[row + 1])
            features = " ".join(f"{i}:{v:.9g}" for i, v in zip(X.indices[span], X.data[span], strict=True))
            file.write(f"{labels} {features}\n")


def padded(rows, top_k):
    ids = np.full((len(rows), top_k), -1)
    for row, answer in enumerate(rows):
        ids[row, : len(answer[:top_k])] = answer[:top_k]
    return ids


def read_pair(path):
    pair = []
    for name in (path.name, path.name.replace("X.", "Y.", 1)):
        matrix = sp.csr_matrix(sp.load_npz(path.with_name(name))).astype(np.float32)
        matrix.sort_indices()
        # the peers' native code wants 32-bit indices
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        pair.append(matrix)
    return pair


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=sorted(PEERS))
    parser.add_argument("train", type=Path, help="X.NAME.npz of the training rows; Y.NAME.npz lies beside it")
    parser.add_argument("test", type=Path, help="the same of the test rows")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    (X, Y), (X_test, Y_test) = read_pair(options.train), read_pair(options.test)
    ids, clock = PEERS[options.peer](X, Y, X_test, 5, options.threads)
    truth = [set(Y_test.indices[a:b].tolist()) for a, b in zip(Y_test.indptr[:-1], Y_test.indptr[1:], strict=True)]
    relevant = np.array([[i in labels for i in row] for row, labels in zip(ids.tolist(), truth, strict=True)])
    record = {"system": options.peer, "threads": options.threads, **clock.spans}
    record["predict_ms_per_row"] = round(1000 * clock.spans["predict_wall_seconds"] / len(ids), 4)
    record |= {f"P@{k}": round(100 * float(relevant[:, :k].mean()), 2) for k in (1, 3, 5)}
    record["peak_memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    sys.stdout.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
