"""Why this label? The words that speak for and against it add up to the score."""

from __future__ import annotations

from figures import open_figure, save_figure

import longtail as lt

sample = lt.datasets.load_sample()
tagger = lt.Tagger(lt.DiSMEC()).fit(sample.train_texts[:8000], sample.train_labels[:8000])
text = "a small and fast web server for static files, with TLS and virtual hosts"
label = tagger.tag([text], top_k=1)[0][0].label
explanation = tagger.explain(text, label)
words = explanation.words[:8]
print(f"{label}: score {explanation.score:.2f} = bias {explanation.bias:.2f} + words")
for word in words:
    print(f"  {word.contribution:+.2f}  {word.word}")

figure, axes = open_figure(f"Why {label}?")
colours = ["tab:green" if word.contribution > 0 else "tab:red" for word in words]
axes.barh([word.word for word in words][::-1], [word.contribution for word in words][::-1], color=colours[::-1])
axes.axvline(0, color="black", linewidth=0.8)
axes.set_xlabel("contribution to the score")
save_figure(figure, "explain")
