"""How long does learning from 100 corrections take, and what is it worth?

    python benchmarks/bench_learning.py debtags --data /work/shared/data
    python benchmarks/bench_learning.py wnwords --data /work/shared/data

Corrections are test rows with all their labels; the effect is measured on the other test rows. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import longtail as lt

_SHOWN = ("P@1", "P@3", "P@5", "PSP@1", "PSP@3", "PSP@5")


def load_data(name: str, folder: Path) -> tuple[Any, Any, Any, Any]:
    """Return training inputs and labels, test inputs and labels."""
    if name == "debtags":
        train = lt.datasets.read_text(folder / "debtags/debtags_train.jsonl.gz")
        test = lt.datasets.read_text(folder / "debtags/debtags_test.jsonl.gz")
        return train.texts, train.labels, test.texts, test.labels
    parts: list[Any] = []
    for part in ("train", "test"):
        X, Y = lt.datasets.read(folder / f"wnwords/wnwords_{part}.txt.gz")
        names = [[f"w{i}" for i in Y.indices[a:b]] for a, b in zip(Y.indptr[:-1], Y.indptr[1:], strict=True)]
        parts += [X, names]
    return tuple(parts)  # type: ignore[return-value]


def take(inputs: Any, row_ids: np.ndarray) -> Any:
    return [inputs[i] for i in row_ids] if isinstance(inputs, list) else inputs[row_ids]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=["debtags", "wnwords"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n-corrections", type=int, default=100)
    parser.add_argument("--model", type=Path, help="Keep the trained model here, and use it if it is there.")
    options = parser.parse_args()
    train, train_labels, test, test_labels = load_data(options.dataset, options.data)
    path = options.model or Path(tempfile.mkdtemp()) / "trained.model"
    if not path.exists():
        vectorizer: Any = "tfidf" if isinstance(train, list) else None
        lt.save(lt.Tagger(lt.DiSMEC(n_jobs=1), vectorizer).fit(train, train_labels), path)
    order = np.random.default_rng(0).permutation(len(test_labels))
    corrected, rest = order[: options.n_corrections], order[options.n_corrections :][:5000]
    seconds: dict[str, float] = {}
    begin, cpu = time.perf_counter(), time.process_time()
    tagger = lt.load(path)
    seconds["load"] = time.perf_counter() - begin
    before = tagger.estimator.coef_
    begin = time.perf_counter()
    learnt = tagger.learn(take(test, corrected), [test_labels[i] for i in corrected])
    seconds["learn"] = time.perf_counter() - begin
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        lt.save(tagger, Path(folder) / "learnt.model")
    seconds["save"] = time.perf_counter() - begin
    seconds["cpu"] = time.process_time() - cpu
    names = {name for i in corrected for name in test_labels[i]}
    old = lt.load(path)
    after = tagger.estimator.coef_
    untouched = np.array([i for i, name in enumerate(old.label_names_) if name not in names])
    same = _same_rows(before[untouched], after[untouched])
    held_out = take(test, rest), [test_labels[i] for i in rest]
    effect = {
        "before": {name: round(float(value), 2) for name, value in old.evaluate(*held_out).items() if name in _SHOWN},
        "after": {name: round(float(value), 2) for name, value in tagger.evaluate(*held_out).items() if name in _SHOWN},
    }
    print(
        json.dumps(
            {
                "dataset": options.dataset,
                "n_labels": old.n_labels_,
                "n_corrections": options.n_corrections,
                "n_corrected": learnt.n_corrected,
                "n_new_words": learnt.n_new_words,
                "n_new_labels": len(learnt.new_labels),
                "seconds": {name: round(value, 2) for name, value in seconds.items()},
                "unchanged_labels_identical": same,
                "learnt": str(learnt),
                "effect": effect,
            },
            ensure_ascii=False,
        )
    )


def _same_rows(a: Any, b: Any) -> bool:
    return a.nnz == b.nnz and bool(
        np.array_equal(np.diff(a.indptr), np.diff(b.indptr)) and a.data.tobytes() == b.data.tobytes()
    )


if __name__ == "__main__":
    main()
