"""Fit DiSMEC with a checkpoint: print "started" in the middle, and go on when stdin is closed.

python -m tests.execution.fit_and_wait CHECKPOINT
"""

from __future__ import annotations

import sys

import scipy.sparse as sp

import longtail as lt


def make_data(n_labels: int = 1100) -> tuple[sp.csr_array, sp.csr_array]:
    """Several tasks of DiSMEC, so that there is something to resume."""
    made = lt.datasets.make_synthetic(n_rows=120, n_features=80, n_labels=n_labels, labels_per_row=3)
    return made.X, made.Y


def main() -> None:
    is_first = True

    def wait(done: int, total: int) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            print("started", flush=True)
            sys.stdin.read()

    lt.DiSMEC(n_jobs=1).fit(*make_data(), checkpoint=sys.argv[1], progress=wait)


if __name__ == "__main__":
    main()
