"""How much do rankings differ between instruction sets, when each trains its own model? docs/instruction_sets.md.

    LONGTAIL_ISA=baseline python -m tests.isa_top_k train baseline.npz
    LONGTAIL_ISA=avx512   python -m tests.isa_top_k train avx512.npz
    python -m tests.isa_top_k compare baseline.npz avx512.npz      # a Markdown table

Two data sets of 500 training and 200 test rows: labels that follow from the features, and noise, where labels are drawn
at random and every ranking hangs on rounding.
"""

from __future__ import annotations

import sys

import numpy as np
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from tests.contract.estimators import ESTIMATORS

_N_TRAIN, _N_ALL, _N_LABELS = 500, 700, 40


def train() -> dict[str, np.ndarray]:
    made = lt.datasets.make_synthetic(n_rows=_N_ALL, n_features=300, n_labels=_N_LABELS, labels_per_row=3)
    X = lt.datasets.unit_rows(made.X)
    noise = sp.csr_array((np.random.default_rng(0).random((_N_ALL, _N_LABELS)) < 0.075).astype(np.float32))
    found = {"isa": np.array(_core.isa)}
    for kind, Y in (("learnable", made.Y), ("noise", noise)):
        for name, make in ESTIMATORS.items():
            model = make().fit(X[:_N_TRAIN], Y[:_N_TRAIN])
            top = model.predict_top_k(X[_N_TRAIN:], top_k=5)
            found[f"{kind} {name}"] = top.label_ids
            found[f"{kind} {name} P@5"] = np.array(lt.metrics.evaluate(top, Y[_N_TRAIN:], ks=(5,))["P@5"])
    return found


def compare(first: str, second: str) -> None:
    a, b = np.load(first), np.load(second)
    print(f"| {a['isa']} and {b['isa']} | other top-5 list | other top-5 set | difference in P@5 |")
    print("|---|---:|---:|---:|")
    for name in a.files:
        if name == "isa" or name.endswith(" P@5"):
            continue
        lists = (a[name] != b[name]).any(axis=1).mean()
        sets = (np.sort(a[name], axis=1) != np.sort(b[name], axis=1)).any(axis=1).mean()
        change = abs(a[f"{name} P@5"] - b[f"{name} P@5"])
        print(f"| {name} | {lists:.1%} | {sets:.1%} | {change:.2f} |")


if __name__ == "__main__":
    if sys.argv[1] == "train":
        np.savez(sys.argv[2], **train())
    else:
        compare(*sys.argv[2:4])
