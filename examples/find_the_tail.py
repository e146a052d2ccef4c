"""Where does a model find its labels? Recall by label frequency, plain and with weights for rare labels."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from figures import open_figure, save_figure

import longtail as lt

sample = lt.datasets.load_sample()
edges = (1, 5, 20, 100, 10_000)
figure, axes = open_figure("Recall@5 by label frequency")
for name, weights in (("plain", None), ("propensity-weighted", "propensity")):
    tagger = lt.Tagger(lt.DiSMEC(positive_weights=weights))
    tagger.fit(sample.train_texts[:8000], sample.train_labels[:8000])
    Y, _ = tagger.encode(sample.test_labels)
    top = tagger.predict_top_k(sample.test_texts, top_k=5).label_ids
    rows = np.repeat(np.arange(len(top)), top.shape[1])
    proposed = sp.csr_array((np.ones(top.size), (rows, top.ravel())), shape=Y.shape)
    found = np.asarray(proposed.multiply(Y).sum(axis=0)).ravel()
    true = np.asarray(Y.sum(axis=0)).ravel()
    bins = np.digitize(tagger.label_counts_, edges)
    recall = [100 * found[bins == b].sum() / max(true[bins == b].sum(), 1) for b in range(1, len(edges))]
    print(f"{name:20s} " + "  ".join(f"{value:5.1f} %" for value in recall))
    axes.plot(range(len(recall)), recall, marker="o", label=name)
axes.set_xticks(range(len(edges) - 1), [f"{low} to {high - 1}" for low, high in pairwise(edges)])
axes.set_xlabel("training texts of the label")
axes.set_ylabel("recall@5, %")
axes.legend(frameon=False)
save_figure(figure, "find_the_tail")
