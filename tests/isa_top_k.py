"""How much do rankings differ between instruction sets, when each trains its own model? docs/instruction_sets.md.

    LONGTAIL_ISA=baseline python -m tests.isa_top_k train baseline.npz
    LONGTAIL_ISA=avx2     python -m tests.isa_top_k train avx2.npz
    python -m tests.isa_top_k compare baseline.npz avx2.npz        # a Markdown table
    python -m tests.isa_top_k write baseline.npz avx2.npz docs/instruction_sets.md

Two data sets of 500 training and 200 test rows: labels that follow from the features, and noise, where labels are drawn
at random and every ranking hangs on rounding.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import longtail as lt
from longtail import _core
from tests.contract.estimators import ESTIMATORS

_N_TRAIN, _N_ALL, _N_LABELS = 500, 700, 40


def make_blend() -> lt.Blend:
    return lt.Blend(first=ESTIMATORS["DiSMEC"](), second=ESTIMATORS["FastXML"](), n_jobs=1)


def train() -> dict[str, np.ndarray]:
    made = lt.datasets.make_synthetic(n_rows=_N_ALL, n_features=300, n_labels=_N_LABELS, labels_per_row=3)
    X = lt.datasets.unit_rows(made.X)
    noise = sp.csr_array((np.random.default_rng(0).random((_N_ALL, _N_LABELS)) < 0.075).astype(np.float32))
    found = {"isa": np.array(_core.isa)}
    for kind, Y in (("learnable", made.Y), ("noise", noise)):
        for name, make in (ESTIMATORS | {"Blend": make_blend}).items():
            model = make().fit(X[:_N_TRAIN], Y[:_N_TRAIN])
            top = model.predict_top_k(X[_N_TRAIN:], top_k=5)
            found[f"{kind} {name}"] = top.label_ids
            found[f"{kind} {name} P@5"] = np.array(lt.metrics.evaluate(top, Y[_N_TRAIN:], ks=(5,))["P@5"])
    return found


def table(first: str, second: str) -> str:
    """Compare the rankings of two sets, as a Markdown table."""
    a, b = np.load(first), np.load(second)
    lines = [
        f"| {a['isa']} and {b['isa']} | other top-5 list | other top-5 set | difference in P@5 |",
        "|---|---:|---:|---:|",
    ]
    for name in a.files:
        if name == "isa" or name.endswith(" P@5"):
            continue
        lists = (a[name] != b[name]).any(axis=1).mean()
        sets = (np.sort(a[name], axis=1) != np.sort(b[name], axis=1)).any(axis=1).mean()
        change = abs(a[f"{name} P@5"] - b[f"{name} P@5"])
        lines.append(f"| {name} | {lists:.1%} | {sets:.1%} | {change:.2f} |")
    return "\n".join(lines) + "\n"


def write(first: str, second: str, page: str) -> None:
    """Put the table in place of the one that the page has for the same two sets."""
    new = table(first, second)
    header = re.escape(new.splitlines()[0])
    text, n_found = re.subn(rf"{header}\n(?:\|.*\n)*", new, Path(page).read_text())
    if n_found != 1:
        raise SystemExit(f"{page} must have one table that begins with {new.splitlines()[0]!r}, got {n_found}")
    Path(page).write_text(text)


if __name__ == "__main__":
    if sys.argv[1] == "train":
        np.savez(sys.argv[2], **train())
    elif sys.argv[1] == "write":
        write(*sys.argv[2:5])
    else:
        print(table(*sys.argv[2:4]), end="")
