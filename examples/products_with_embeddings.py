"""Label products by dense embeddings: any matrix with one row per product will do.

Here the embeddings come from a truncated SVD of tf-idf rows, so that the example runs anywhere. In practice they come
from a sentence or image model of your own. A Tagger without a vectorizer keeps the label names.
"""

from __future__ import annotations

import numpy as np
from figures import open_figure, save_figure
from sklearn.decomposition import TruncatedSVD

import longtail as lt

sample = lt.datasets.load_sample()
texts, labels = sample.train_texts[:6000], sample.train_labels[:6000]
test_texts, test_labels = sample.test_texts[:2000], sample.test_labels[:2000]
vectorizer = lt.TextVectorizer().fit(texts)

sizes = (16, 64, 256)
precision = []
for n_columns in sizes:
    embed = TruncatedSVD(n_columns, random_state=0).fit(vectorizer.transform(texts))
    rows, test_rows = (embed.transform(vectorizer.transform(part)).astype(np.float32) for part in (texts, test_texts))
    tagger = lt.Tagger(lt.DiSMEC(unit_rows=True), vectorizer=None).fit(rows, labels)
    precision.append(tagger.evaluate(test_rows, test_labels)["P@1"])
    print(f"{n_columns:4d} dimensions: P@1 {precision[-1]:.1f} %")

figure, axes = open_figure("Precision grows with the embedding")
axes.plot([str(size) for size in sizes], precision, marker="o")
axes.set_xlabel("dimensions of the embedding")
axes.set_ylabel("P@1, %")
save_figure(figure, "products_with_embeddings")
