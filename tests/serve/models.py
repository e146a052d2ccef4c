"""A real Tagger that learnt in a moment what a reader can guess."""

import longtail as lt

_WORDS = {"web::server": "web server", "mail::client": "mail reader", "sound::player": "music player"}


def learnt_tagger() -> lt.Tagger:
    """Fit and calibrate on twelve texts: each label goes with its two words, and role::program with every text."""
    texts, labels = [], []
    for start in ("a small", "a big", "the small", "the big"):
        for label, words in _WORDS.items():
            texts.append(f"{start} {words}")
            labels.append([label, "role::program"])
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    return tagger.calibrate(texts, labels)
