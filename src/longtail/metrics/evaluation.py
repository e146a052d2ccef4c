"""All metrics of a ranking in one pass, over one batch or many."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from longtail._words import counted
from longtail.metrics import _inputs
from longtail.metrics._counts import hamming, plain, scored, scored_hamming
from longtail.metrics._inputs import LabelMatrix, Propensities, Rankings
from longtail.metrics._tally import Tally

_DEFAULT_KS = (1, 3, 5)
_GAINS = {"P": "P", "nDCG": "nDCG", "recall": "recall", "F1": "F", "MRR": "MRR", "ADG": "ADG"}

# Means over the labels that occur, by the name that LabelTable has for them.
MACRO = {
    "macro-precision": "precision",
    "macro-recall": "recall",
    "macro-F1": "f1",
    "balanced-accuracy": "balanced_accuracy",
    "correct-coverage": "coverage",
}

# What papers and users quote.
QUOTED = ("P", "nDCG", "recall", "PSP", "PSnDCG")


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Mapping[str, float]):
    """The metrics of a ranking: a mapping from names such as ``"P@1"`` to values in percent.

    ``str`` (and ``print``) gives an aligned table, `to_dict` and `to_json` give the plain data.

    Attributes
    ----------
    table : dict
        ``{"P": {1: 83.1, 3: 70.2, …}, "nDCG": …}``, in the order of the printed table.
    n_rows, n_labels : int
        Size of the evaluated label matrix.
    """

    table: dict[str, dict[int, float]]
    n_rows: int
    n_labels: int

    def __getitem__(self, key: str) -> float:
        name, _, k = key.rpartition("@")
        try:
            return self.table[name][int(k)]
        except (KeyError, ValueError):
            raise KeyError(f"no metric {key!r}, there are {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return (f"{name}@{k}" for name, values in self.table.items() for k in values)

    def __len__(self) -> int:
        return sum(map(len, self.table.values()))

    def __str__(self) -> str:
        return self.as_text(self.table)

    def as_text(self, names: Iterable[str] = QUOTED) -> str:
        """Return a table of some measures, by default those that people quote."""
        chosen = {name: self.table[name] for name in names if name in self.table}
        ks = list(next(iter(self.table.values())))
        width = max(map(len, chosen))
        lines = [" " * width + "".join(f"{f'@{k}':>9}" for k in ks)]
        lines += [f"{name:<{width}}" + "".join(f"{values[k]:9.2f}" for k in ks) for name, values in chosen.items()]
        return "\n".join([*lines, f"in %, over {counted(self.n_rows, 'row')} and {counted(self.n_labels, 'label')}"])

    def __repr__(self) -> str:
        return f"Evaluation({self.to_dict()})"

    def to_dict(self) -> dict[str, float]:
        """Give ``{"n_rows": …, "n_labels": …, "P@1": …, …}``."""
        return {"n_rows": self.n_rows, "n_labels": self.n_labels, **self}

    def to_json(self, *, indent: int | None = None) -> str:
        """Give `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent)


class Evaluator:
    """Gather all metrics batch by batch, in memory that does not grow with the number of rows.

    Parameters
    ----------
    propensity : array of shape (n_labels,), optional
        Propensity of each label, in (0, 1]: see `longtail.propensity`. With it, or with a matrix given
        to `update`, the propensity-scored metrics are computed too.
    ks : sequence of int, default (1, 3, 5)
        Evaluate the k best labels of each row, for each k.
    n_jobs : int, optional
        Threads; ``None`` takes the CPUs that this process may use. The result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import Evaluator
    >>> evaluator = Evaluator(ks=(1, 2))
    >>> evaluator.update(np.array([[2, 0]]), np.array([[1, 0, 1]]))
    >>> evaluator.update(np.array([[1, 0]]), np.array([[1, 0, 0]]))
    >>> evaluator.result()["P@1"]
    50.0
    """

    def __init__(
        self, propensity: ArrayLike | None = None, *, ks: Sequence[int] = _DEFAULT_KS, n_jobs: int | None = None
    ) -> None:
        if _inputs.is_sparse(propensity):
            raise TypeError("Evaluator: a matrix of propensities belongs to rows, give its rows to update()")
        self.ks = _inputs.check_ks(ks)
        self._tally = Tally(self.ks, propensity, n_jobs=n_jobs)

    def update(
        self,
        top: Rankings,
        Y: LabelMatrix,
        *,
        propensity: Propensities | None = None,
        n_relevant: ArrayLike | None = None,
    ) -> None:
        """Add a batch of rows.

        Parameters
        ----------
        top : TopK, int array of shape (n_rows, k) or sparse score matrix of shape (n_rows, n_labels)
            Ranked label ids of each row, best first, padded with -1. Of a sparse matrix the stored scores are
            ranked, ties by lower label id.
        Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
            Labels of the same rows.
        propensity : array of shape (n_labels,) or sparse matrix of shape (n_rows, n_labels), optional
            Propensities of this batch, in place of those given to the constructor. A matrix needs an entry
            wherever Y has one.
        n_relevant : int array of shape (n_rows,), optional
            How many labels each row has in the complete truth, if that is known: the propensity-scored
            recall, F, MRR and ADG divide by it, else by the number of labels in Y.
        """
        self._tally.add(top, Y, propensity, n_relevant)

    def result(self) -> Evaluation:
        """Evaluate all rows so far; more batches may follow."""
        tally, counts = self._tally, self._tally.counts
        table = {shown: {k: plain(counts, name, k) for k in self.ks} for shown, name in _GAINS.items()}
        table["Hamming"] = {k: hamming(counts, k, tally.n_labels) for k in self.ks}
        table["coverage"] = {k: tally.coverage(k) for k in self.ks}
        labels = {k: tally.labels(k) for k in self.ks}
        for shown, name in MACRO.items():
            table[shown] = {k: labels[k].mean(name) for k in self.ks}
        if counts.is_scored:
            for shown, name in _GAINS.items():
                table[f"PS{shown}"] = {k: scored(counts, name, k) for k in self.ks}
            table["PSHamming"] = {k: scored_hamming(counts, k, tally.n_labels) for k in self.ks}
        return Evaluation(table, counts.total_rows, tally.n_labels)


def evaluate(
    top: Rankings,
    Y: LabelMatrix,
    propensity: Propensities | None = None,
    ks: Sequence[int] | None = None,
    *,
    n_relevant: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Evaluation:
    """Compute every metric of a ranking.

    Parameters
    ----------
    top : TopK, int array of shape (n_rows, k) or sparse score matrix of shape (n_rows, n_labels)
        Ranked label ids of each row, best first, padded with -1. Of a sparse matrix the stored scores are
        ranked, ties by lower label id.
    Y : sparse or dense 0/1 matrix of shape (n_rows, n_labels)
        Labels of the same rows. Rows without labels count.
    propensity : array of shape (n_labels,) or sparse matrix of shape (n_rows, n_labels), optional
        Propensities in (0, 1], see `longtail.propensity`; a matrix needs an entry wherever Y has one.
        With them the propensity-scored metrics are computed too.
    ks : sequence of int, optional
        Evaluate the k best labels of each row, for each k; 1, 3 and 5 by default, as far as the ranking goes.
    n_relevant : int array of shape (n_rows,), optional
        How many labels each row has in the complete truth, if that is known; see `Evaluator.update`.
    n_jobs : int, optional
        Threads; ``None`` takes the CPUs that this process may use. The result does not depend on it.

    Returns
    -------
    Evaluation
        A mapping from ``"P@1"`` and the like to values in percent, which prints as a table.

    Examples
    --------
    >>> import numpy as np
    >>> from longtail.metrics import evaluate
    >>> top = np.array([[2, 0, 1], [1, 2, -1]])
    >>> Y = np.array([[1, 0, 1, 0], [0, 0, 1, 1]])
    >>> print(evaluate(top, Y, ks=(1, 3)))
                            @1       @3
    P                    50.00    50.00
    nDCG                 50.00    69.34
    recall               25.00    75.00
    F1                   33.33    60.00
    MRR                  25.00    50.00
    ADG                  25.00    56.55
    Hamming              50.00    37.50
    coverage             33.33    66.67
    macro-precision      33.33    66.67
    macro-recall         16.67    66.67
    macro-F1             22.22    66.67
    balanced-accuracy    58.33    83.33
    correct-coverage     33.33    66.67
    in %, over 2 rows and 4 labels
    """
    if ks is None:
        ks = [k for k in _DEFAULT_KS if k == 1 or _inputs.is_sparse(top) or k <= _inputs.n_ranks_of(top)]
    evaluator = Evaluator(ks=ks, n_jobs=n_jobs)
    evaluator.update(top, Y, propensity=propensity, n_relevant=n_relevant)
    return evaluator.result()
