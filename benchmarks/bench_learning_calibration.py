"""Do probabilities of corrected labels stay right after `learn`, and what do the kinds of corrections change?

    python benchmarks/bench_learning_calibration.py --model /tmp/calibrated.model

A calibrated model learns from test texts of the shipped sample, and is measured on other test texts, over the corrected
labels. Kinds of corrections: all labels of a text (complete), the first five proposals judged and missing labels added
(added), only the first five proposals judged (proposals). Prints one JSON line for each.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measure import emit

import longtail as lt
from longtail.calibration.errors import expected_calibration_error

KINDS = ("complete", "added", "proposals")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-corrections", type=int, default=600)
    parser.add_argument("--n-test", type=int, default=2500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", type=Path, help="Keep the trained model here, and use it if it is there.")
    parser.add_argument("--save", action="store_true", help="also append the lines to benchmarks/results/")
    options = parser.parse_args()
    sample = lt.datasets.load_sample()
    path = options.model or Path(tempfile.mkdtemp()) / "trained.model"
    if not path.exists():
        texts, labels = sample.train_texts, sample.train_labels
        tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(texts[2000:], labels[2000:])
        lt.save(tagger.calibrate(texts[:2000], labels[:2000]), path)
    trained = lt.load(path)
    order = np.random.default_rng(options.seed).permutation(len(sample.test_texts)).tolist()
    corrected, rest = order[: options.n_corrections], order[options.n_corrections :][: options.n_test]
    texts, labels = ([given[i] for i in corrected] for given in (sample.test_texts, sample.test_labels))
    held_out = [sample.test_texts[i] for i in rest], [set(sample.test_labels[i]) for i in rest]
    proposed = [[tag.label for tag in row] for row in trained.tag(texts, top_k=5)]
    rejected = [sorted(set(row) - set(names)) for row, names in zip(proposed, labels, strict=True)]
    accepted = [sorted(set(row) & set(names)) for row, names in zip(proposed, labels, strict=True)]
    for kind in KINDS:
        tagger = copy.copy(trained)
        right = accepted if kind == "proposals" else labels
        wrong = None if kind == "complete" else rejected
        learnt = tagger.learn(texts, right, rejected=wrong, complete=kind == "complete")
        names = {name for rows in (right, wrong or []) for row in rows for name in row}
        result: dict[str, Any] = {"question": "learning_calibration", "kind": kind, "seed": options.seed}
        result |= {"n_corrections": len(texts), "n_test": len(rest), "n_corrected": learnt.n_corrected}
        result |= {"before": measured(trained, names, *held_out), "after": measured(tagger, names, *held_out)}
        emit(result | {"learnt": str(learnt)}, "learning_calibration" if options.save else None)


def measured(tagger: lt.Tagger, names: set[str], texts: list[str], labels: list[set[str]]) -> dict[str, float]:
    """Return calibration error and micro-F1 in %, over some labels."""
    candidates = tagger.tag(texts, top_k=60, utility="score")
    decided = tagger.tag(texts, top_k=60, threshold="auto")
    pairs = [
        (tag.proba, tag.label in wanted)
        for row, wanted in zip(candidates, labels, strict=True)
        for tag in row
        if tag.label in names and (tag.proba or 0) >= 0.05
    ]
    proba, hits = (np.array(column) for column in zip(*pairs, strict=True))
    given = [{tag.label for tag in row} & names for row in decided]
    n_hits = sum(len(row & wanted) for row, wanted in zip(given, labels, strict=True))
    n_given, n_right = sum(map(len, given)), sum(len(wanted & names) for wanted in labels)
    found = {"ece": expected_calibration_error(proba, hits), "mean_proba": proba.mean(), "right": hits.mean()}
    found |= {"micro_f1": 2 * n_hits / max(1, n_given + n_right)}
    return {name: round(100 * float(value), 2) for name, value in found.items()}


if __name__ == "__main__":
    main()
