"""Are answers about the texts of the queue worth more than answers about random texts?

    python benchmarks/bench_queue.py --data /work/shared/data

A model learns from a few debtags texts; then it gets the labels of a few hundred texts more, chosen by the queue or at
random, and is trained again. The texts of the queue have more labels than others, and answers about them take longer:
`--equal labels` gives each choice as many labels instead of as many texts. Prints one JSON line per choice and seed.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from measure import emit

import longtail as lt
from longtail.tagging.review import review_values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n-first", type=int, default=1000)
    parser.add_argument("--n-answers", type=int, default=300)
    parser.add_argument("--n-pool", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="also append the lines to benchmarks/results/")
    parser.add_argument("--n-labels", type=int, default=1000, help="labels given, with --equal labels")
    parser.add_argument("--equal", choices=["texts", "labels"], default="texts")
    parser.add_argument("--by", nargs="+", default=["random", "uncertain", "rare"])
    options = parser.parse_args()
    texts, labels = lt.datasets.read_text(options.data / "debtags/debtags_train.jsonl.gz")
    held_out = lt.datasets.read_text(options.data / "debtags/debtags_test.jsonl.gz")
    test_texts, test_labels = held_out.texts[::2], held_out.labels[::2]

    def fitted(row_ids: np.ndarray) -> lt.Tagger:
        tagger = lt.Tagger(lt.DiSMEC(n_jobs=1))
        return tagger.fit([texts[i] for i in row_ids], [labels[i] for i in row_ids])

    for seed in range(options.seeds):
        order = np.random.default_rng(seed).permutation(len(texts))
        first, rest = order[: options.n_first], order[options.n_first :]
        pool, judges = rest[: options.n_pool], rest[options.n_pool :][:500]
        tagger = fitted(first).calibrate([texts[i] for i in judges], [labels[i] for i in judges])
        for by in options.by:
            ranked = pool
            if by != "random":
                values = review_values(tagger, [texts[i] for i in pool], by=by)
                ranked = pool[np.argsort(-values, kind="stable")]
            if options.equal == "texts":
                chosen = ranked[: options.n_answers]
            else:
                n_given = np.cumsum([len(labels[i]) for i in ranked])
                chosen = ranked[: int(np.searchsorted(n_given, options.n_labels, side="right"))]
            taught = fitted(np.concatenate([first, chosen]))
            found = taught.evaluate(test_texts, test_labels)
            n_labels = len({label for i in chosen for label in labels[i]})
            n_answers = sum(len(labels[i]) for i in chosen)
            shown = {name: round(float(found[name]), 2) for name in ("P@1", "P@5", "recall@5", "coverage@5", "PSP@5")}
            result = {"question": "queue", "equal": options.equal, "by": by, "seed": seed, **shown}
            result |= {"n_texts": len(chosen), "labels_seen": n_labels, "labels_given": n_answers}
            emit(result | {"n_labels": taught.n_labels_}, "queue" if options.save else None)


if __name__ == "__main__":
    main()
