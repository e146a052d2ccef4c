"""How good are proposals by name for labels that training has never seen?

    python benchmarks/bench_unseen.py --data /work/shared/data

A fifth of the labels of debtags is taken out of the training texts; their names are the labels with blanks. Prints one
JSON line for each split. The settings of the method were chosen on split 0, which is left out.
"""

from __future__ import annotations

import argparse
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
from measure import emit

import longtail as lt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--n-train", type=int, default=5000)
    parser.add_argument("--n-names", type=int, default=3000, help="held-out texts that show what names are worth")
    parser.add_argument("--facet", action="store_true", help="keep the facet in the name: 'role program'")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="also append the lines to benchmarks/results/")
    options = parser.parse_args()
    for split in range(1, options.splits + 1):
        emit({"question": "unseen", "split": split} | measured(options, split), "unseen" if options.save else None)


def measured(options: argparse.Namespace, split: int) -> dict[str, Any]:
    """Train without a fifth of the labels and propose them by their names."""
    texts, labels = lt.datasets.read_text(options.data / "debtags/debtags_train.jsonl.gz")
    test = lt.datasets.read_text(options.data / "debtags/debtags_test.jsonl.gz")
    names = sorted({label for row in labels for label in row})
    rng = np.random.default_rng(split)
    unseen = {names[i] for i in rng.permutation(len(names))[: len(names) // 5]}
    order = rng.permutation(len(texts))
    inside, outside = order[: options.n_train], order[options.n_train :][: options.n_names]

    def seen(row_ids: np.ndarray) -> tuple[list[str], list[list[str]]]:
        return [texts[i] for i in row_ids], [[name for name in labels[i] if name not in unseen] for i in row_ids]

    vocabulary = lt.Vocabulary(
        lt.Concept(id=name, names={"en": re.sub(r"[:\-+]+", " ", name if options.facet else name.split("::")[-1])})
        for name in names
    )
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(*seen(inside))
    tagger.set_vocabulary(vocabulary, *seen(outside))
    hits, proba = [], []
    n_wanted = n_found_5 = n_first = n_first_right = 0
    for row, tags in zip(test.labels, tagger.tag_unseen(test.texts, top_k=5), strict=True):
        wanted = unseen & set(row)
        n_wanted += len(wanted)
        n_found_5 += len(wanted & {tag.label for tag in tags})
        hits += [tag.label in wanted for tag in tags]
        proba += [tag.proba for tag in tags]
        if tags and tags[0].proba >= 0.5:
            n_first += 1
            n_first_right += tags[0].label in wanted
    known = set(tagger.label_names_)
    right, p = np.array(hits, dtype=float), np.array(proba)
    edges = [0, 0.1, 0.25, 0.5, 0.75, 1.01]
    bands = [
        {
            "proba": f"{a:g}-{min(b, 1):g}",
            "n": int(((p >= a) & (p < b)).sum()),
            "mean_proba": round(float(p[(p >= a) & (p < b)].mean()), 3),
            "right": round(float(right[(p >= a) & (p < b)].mean()), 3),
        }
        for a, b in itertools.pairwise(edges)
        if ((p >= a) & (p < b)).any()
    ]
    return {
        "n_unseen": len(unseen - known),
        "weights": [round(w, 2) for w in tagger._whole().name_weights.tolist()],
        "recall@5": round(n_found_5 / n_wanted, 3),
        "n_wanted": n_wanted,
        "n_proposed": len(p),
        "precision": round(float(right.mean()), 3),
        "first_above_half": n_first,
        "precision_first_above_half": round(n_first_right / max(1, n_first), 3),
        "share_of_chance": round(n_wanted / (len(test.labels) * len(unseen)), 4),
        "bands": bands,
    }


if __name__ == "__main__":
    main()
