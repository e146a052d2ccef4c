"""How long does learning from 100 corrections take, and what is it worth?

    python benchmarks/bench_learning.py debtags --data /work/shared/data
    python benchmarks/bench_learning.py wnwords --data /work/shared/data

Corrections are test rows with all their labels; the effect is measured on the other test rows. Prints one JSON line.
The first training of wnwords takes minutes; keep it with --model.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import emit

import longtail as lt
from longtail.feedback import feedback_path

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
    parser.add_argument("--save", action="store_true", help="also append the line to benchmarks/results/")
    parser.add_argument("--model", type=Path, help="Keep the trained model here, and use it if it is there.")
    options = parser.parse_args()
    train, train_labels, test, test_labels = load_data(options.dataset, options.data)
    path = options.model or Path(tempfile.mkdtemp()) / "trained.model"
    if not path.exists():
        vectorizer: Any = "tfidf" if isinstance(train, list) else None
        lt.save(lt.Tagger(lt.DiSMEC(n_jobs=1), vectorizer).fit(train, train_labels), path)
    order = np.random.default_rng(0).permutation(len(test_labels))
    corrected, rest = order[: options.n_corrections], order[options.n_corrections :][:5000]
    seconds: dict[str, float | None] = {}
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
    seconds["command"] = _command_seconds(path, take(test, corrected), [test_labels[i] for i in corrected])
    old = lt.load(path)
    after = tagger.estimator.coef_
    untouched = np.array([i for i, name in enumerate(old.label_names_) if name not in names])
    same = _same_rows(before[untouched], after[untouched], tagger, old) and _same_bits(
        old.estimator.intercept_[untouched], tagger.estimator.intercept_[untouched]
    )
    held_out = take(test, rest), [test_labels[i] for i in rest]
    effect = {
        "before": {name: round(float(value), 2) for name, value in old.evaluate(*held_out).items() if name in _SHOWN},
        "after": {name: round(float(value), 2) for name, value in tagger.evaluate(*held_out).items() if name in _SHOWN},
    }
    emit(
        {
            "question": "learning",
            "dataset": options.dataset,
            "n_labels": old.n_labels_,
            "n_corrections": options.n_corrections,
            "n_corrected": learnt.n_corrected,
            "n_new_words": learnt.n_new_words,
            "n_new_labels": len(learnt.new_labels),
            "seconds": {name: round(value, 2) for name, value in seconds.items() if value is not None},
            "unchanged_labels_identical": same,
            "learnt": str(learnt),
            "effect": effect,
        },
        save="learning" if options.save else None,
    )


def _command_seconds(path: Path, texts: Any, labels: list[list[str]]) -> float | None:
    """Time `longtail learn` as a user runs it, from the start of the process to its end; it needs texts."""
    if not isinstance(texts, list):
        return None
    with tempfile.TemporaryDirectory() as folder:
        given = [lt.Feedback(text=t, added=names, complete=True) for t, names in zip(texts, labels, strict=True)]
        for name in ("warm-up.model", "tags.model"):
            lt.save(lt.load(path), Path(folder) / name)
            store = lt.FeedbackStore(feedback_path(Path(folder) / name))
            store.add_all(given)
            store.close()
        # Installed packages have bytecode; compiling every module at each start would be measured otherwise.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        command = [sys.executable, "-m", "longtail", "learn"]
        for name in ("warm-up.model", "tags.model"):
            begin = time.perf_counter()
            subprocess.run([*command, folder + "/" + name], check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - begin


def _same_rows(a: Any, b: Any, learnt: lt.Tagger, old: lt.Tagger) -> bool:
    """Compare the weights of labels bit by bit; new words moved the numbers of the old ones behind them."""
    places = np.arange(old.n_features_in_)
    if learnt.vectorizer is not None:
        new_places = {word: place for place, word in enumerate(learnt.vectorizer.vocabulary_)}
        places = np.array([new_places[word] for word in old.vectorizer.vocabulary_])
    return (
        np.array_equal(a.indptr, b.indptr)
        and np.array_equal(places[a.indices], b.indices)
        and _same_bits(a.data, b.data)
    )


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.tobytes() == b.tobytes()


if __name__ == "__main__":
    main()
