"""Texts in, names and probabilities out: train a tagger, calibrate it, and tag a sentence."""

from __future__ import annotations

from figures import open_figure, save_figure

import longtail as lt

sample = lt.datasets.load_sample()
tagger = lt.Tagger(lt.DiSMEC()).fit(sample.train_texts[:8000], sample.train_labels[:8000], calibrate=True)
text = "Python module that reads and writes MP3 and FLAC audio files"
tags = tagger.tag([text], top_k=6)[0]
for tag in tags:
    print(f"{tag.proba:4.0%}  {tag.label}")

figure, axes = open_figure(text)
axes.barh([tag.label for tag in tags][::-1], [tag.proba for tag in tags][::-1])
axes.set_xlim(0, 1)
axes.set_xlabel("probability")
save_figure(figure, "tag_texts")
