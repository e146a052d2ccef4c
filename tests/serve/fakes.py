"""A model whose answers a reader can check: the score of a label is the sum of the weights of its words."""

import re
from types import SimpleNamespace

from longtail._topk import Tag

WORDS = {
    "network::server": {"web": 1.5, "server": 2.0, "http": 1.0},
    "web::browser": {"web": 1.0, "browser": 2.0, "server": -0.5},
    "mail::client": {"mail": 2.0, "browser": -0.25},
    "<img src=x onerror=alert(1)>": {"hostile": 3.0},
    "sound::player": {"music": 2.0},
}


class FakeTagger:
    """The parts of Tagger that the service uses."""

    def __init__(self, *, calibrated: bool = False, name: str = "fake") -> None:
        self.calibrated = calibrated
        self.name = name
        self.label_names_ = sorted(WORDS)
        self.blocked: frozenset[str] = frozenset()
        self.vocabulary_ = None
        self.can_tag_unseen = False
        self.example_texts_ = ["a small web server", "a mail client with <b>bold</b> ideas", "🎵 music player"]

    def tag(self, texts, top_k=5, *, threshold=None, include=None, exclude=None, utility=None, max_loss=None):
        if utility not in (None, "score") and not self.calibrated:
            raise ValueError("Tagger: utility must be None or 'score' for a model that is not calibrated")
        if threshold == "auto" and not self.calibrated:
            raise ValueError("Tagger: threshold='auto' needs a calibrated model; call calibrate first")
        rows = [self._tag_one(text, top_k, threshold, include, exclude) for text in texts]
        return [row[::-1] for row in rows] if utility == "power:1" else rows  # rare labels first

    def _tag_one(self, text, top_k, threshold, include, exclude):
        tags = []
        for label in self.label_names_:
            if (include is not None and label not in include) or (exclude and label in exclude):
                continue
            score = self.explain(text, label).score
            proba = 1 / (1 + 2.718281828 ** -(3 * score - 3)) if self.calibrated else None
            bound = 0.5 if threshold == "auto" else threshold
            value = proba if proba is not None else score
            if bound is None or value >= bound:
                tags.append(Tag(label, score, proba))
        return sorted(tags, key=lambda tag: (-tag.score, tag.label))[:top_k]

    def known_words(self, texts):
        known = {word for words in WORDS.values() for word in words}
        return [len(known & set(re.findall(r"\w+", text.lower()))) for text in texts]

    def explain(self, text, label, *, max_words=None):
        if label not in WORDS:
            raise ValueError(f"Tagger: there is no label {label!r}")
        words = []
        for word, weight in WORDS[label].items():
            spans = [match.span() for match in re.finditer(rf"\b{word}\b", text.lower())]
            if spans:
                words.append(SimpleNamespace(word=word, contribution=weight, spans=spans))
        score = -1.0 + sum(word.contribution for word in words)
        rest = sum(word.contribution for word in words[max_words:]) if max_words else 0.0
        return SimpleNamespace(label=label, score=score, bias=-1.0, exact=True, words=words[:max_words], rest=rest)

    def search_labels(self, query, limit=20, *, unseen=False):
        return [label for label in self.label_names_ if query.lower() in label.lower()][:limit]

    def count_texts(self, names):
        return [len(WORDS[name]) for name in names]

    def card(self):
        return {
            "estimator": "Fake",
            "name": self.name,
            "n_labels": len(WORDS),
            "n_rows": 1234,
            "params": {"n_jobs": None, "<b>": True},
        }
