"""How many labels should a text get, and can the probabilities be believed?

Trains a Tagger on the shipped sample (Debian packages), calibrates it on training texts that it has not seen, and asks
the test texts. Lines: `fixed` (the same number of labels for every text, from 1 to 10), `auto` (thresholds for each
measure: micro and macro F1, precision with a floor of 0.8) and `ece` (expected calibration error of the five best
labels of each text, in percentage points).
"""

import numpy as np
from measure import emit, make_parser

import longtail as lt
from longtail.calibration import expected_calibration_error

AIMS = {"micro_f1": None, "macro_f1": None, "precision": 0.8}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--estimator", default="DiSMEC")
    parser.add_argument("--n-held-out", type=int, default=2300, help="training texts kept for calibration")
    options = parser.parse_args()
    sample = lt.datasets.load_sample()
    held = slice(0, options.n_held_out)
    rest = slice(options.n_held_out, None)
    tagger = lt.Tagger(getattr(lt, options.estimator)()).fit(sample.train_texts[rest], sample.train_labels[rest])
    truth = [set(labels) for labels in sample.test_labels]

    def tell(part, **numbers):
        record = {"question": "calibration", "part": part, "dataset": "debtags", "estimator": options.estimator}
        record |= {"n_held_out": options.n_held_out, "n_texts": len(truth)}
        emit(record | numbers, save="calibration" if options.save else None)

    for n_labels in range(1, 11):
        answers = tagger.tag(sample.test_texts, top_k=n_labels)
        tell("fixed", labels_a_text=n_labels, **scores_of(answers, truth))
    for measure, floor in AIMS.items():
        tagger.calibrate(sample.train_texts[held], sample.train_labels[held], measure=measure, floor=floor)
        answers = tagger.tag(sample.test_texts, top_k=None, threshold="auto")
        tell("auto", measure=measure, floor=floor, **scores_of(answers, truth))
    tagger.calibrate(sample.train_texts[held], sample.train_labels[held])
    best = tagger.tag(sample.test_texts, top_k=5)
    proba = np.array([tag.proba for tags in best for tag in tags])
    hits = np.array([tag.label in known for tags, known in zip(best, truth, strict=True) for tag in tags])
    tell("ece", ece_points=round(100 * expected_calibration_error(proba, hits), 2))


def scores_of(answers, truth):
    """Give micro F1, macro F1 over the labels of the test texts, precision, and the labels per text."""
    given, right, there = {}, {}, {}
    for tags, known in zip(answers, truth, strict=True):
        for label in known:
            there[label] = there.get(label, 0) + 1
        for tag in tags:
            given[tag.label] = given.get(tag.label, 0) + 1
            right[tag.label] = right.get(tag.label, 0) + (tag.label in known)
    n_given, n_right, n_there = (sum(counts.values()) for counts in (given, right, there))
    macro = [2 * right.get(label, 0) / (given.get(label, 0) + count) for label, count in there.items()]
    return {
        "micro_f1": round(2 * n_right / (n_given + n_there), 4),
        "macro_f1": round(float(np.mean(macro)), 4),
        "precision": round(n_right / n_given, 4),
        "mean_labels": round(n_given / len(truth), 2),
    }


if __name__ == "__main__":
    main()
