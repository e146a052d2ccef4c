"""Train on the shipped sample (Debian packages and their tags), evaluate, and tag a sentence: `make demo`."""

import time

import longtail as lt

SENTENCE = "Graphical editor for photos and drawings."

sample = lt.datasets.load_sample()
print(f"sample: {len(sample.train_texts):,} package descriptions to learn from, {len(sample.test_texts):,} to test on")

begin = time.perf_counter()
tagger = lt.Tagger().fit(sample.train_texts, sample.train_labels, progress="bar")
estimator = tagger.estimator
print(
    f"{type(estimator).__name__}: {estimator.n_labels_:,} labels learnt from {estimator.n_features_in_:,} words "
    f"in {time.perf_counter() - begin:.1f} s"
)

Y_test, _ = tagger.encode(sample.test_labels)
top = tagger.predict_top_k(sample.test_texts, top_k=5)
propensity = lt.propensity.from_counts(estimator.label_counts_, estimator.n_rows_)
print()
print(lt.metrics.evaluate(top, Y_test, propensity=propensity))

print()
print(SENTENCE)
for tag in tagger.tag([SENTENCE], top_k=5)[0]:
    print(f"  {tag.score:8.3f}  {tag.label}")
