"""Train on the shipped sample (Debian packages and their tags), evaluate, tag three sentences: `make demo`."""

import time
from pathlib import Path

import longtail as lt

SENTENCES = (
    "Editor for photos and drawings with layers and brushes.",
    "Python module that reads and writes MP3 and FLAC audio files.",
    "Fonts for Arabic and Hebrew script.",
)
QUALITY = {
    "P@1": "the first proposed tag is correct",
    "P@5": "of the first five are correct (a package has {mean:.1f} tags on average)",
    "nDCG@5": "quality of the order of the first five",
    "PSP@5": "as P@5, with rare tags weighted up",
    "coverage@5": "of the tags in use are proposed at least once",
}
MODEL = Path("demo.model")

sample = lt.datasets.load_sample()
# Scores become probabilities on texts that the estimator has not seen.
n_fit = len(sample.train_texts) * 9 // 10
print(f"Sample: {len(sample.train_texts):,} package descriptions for training, {len(sample.test_texts):,} for testing")

begin = time.perf_counter()
tagger = lt.Tagger().fit(sample.train_texts[:n_fit], sample.train_labels[:n_fit], progress="bar")
tagger.calibrate(sample.train_texts[n_fit:], sample.train_labels[n_fit:])
estimator = tagger.estimator
print(
    f"{type(estimator).__name__}: learned {estimator.n_labels_:,} tags from {estimator.n_features_in_:,} words "
    f"in {time.perf_counter() - begin:.1f} s"
)

quality = tagger.evaluate(sample.test_texts, sample.test_labels)
mean = sum(map(len, sample.test_labels)) / len(sample.test_labels)
print(f"\nQuality on the {len(sample.test_texts):,} test descriptions")
for name, meaning in QUALITY.items():
    print(f"  {name:<10} {quality[name]:5.1f} %  {meaning.format(mean=mean)}")

for sentence in SENTENCES:
    print(f"\n{sentence}")
    for tag in tagger.tag([sentence], top_k=3)[0]:
        words = [word.word for word in tagger.explain(sentence, tag.label).words if word.contribution > 0]
        print(f"  {tag.proba:4.0%}  {tag.label:<26} because of: {', '.join(words[:3])}")

lt.save(tagger, MODEL, overwrite=True)
print(f"""
The model is in {MODEL}. What to type next:
  .venv/bin/longtail tag {MODEL} "your own text"
  .venv/bin/longtail explain {MODEL} "your own text"
  .venv/bin/longtail train your.jsonl.gz -o your.model    (docs/guide.md)""")
