"""Search for good parameters under a budget of time."""

from __future__ import annotations

from figures import open_figure, save_figure

import longtail as lt

sample = lt.datasets.load_sample()
texts, labels = sample.train_texts[:3000], sample.train_labels[:3000]
tagger = lt.Tagger(lt.Popularity()).fit(texts, labels)
rows, Y = lt.TextVectorizer().fit(texts).transform(texts), tagger.encode(labels)[0]
found = lt.tune(lt.DiSMEC(), rows, Y, measure="PSP@5", n_trials=12, timeout_seconds=60)
print(f"PSP@5 {found.trials[0].score:.2f} with the defaults, {found.best_score:.2f} with {found.best_params}")

figure, axes = open_figure("Trials of a search")
scores = [trial.score for trial in found.trials if trial.score is not None]
best = [max(scores[: number + 1]) for number in range(len(scores))]
axes.plot(range(1, len(scores) + 1), scores, "o", label="trial")
axes.plot(range(1, len(best) + 1), best, drawstyle="steps-post", label="best so far")
axes.set_xlabel("trial")
axes.set_ylabel("PSP@5 on held-out rows, %")
axes.legend(frameon=False)
save_figure(figure, "tune")
