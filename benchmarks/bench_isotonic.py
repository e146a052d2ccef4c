"""Are probabilities from a surface over score and label frequency better than isotonic curves?

One protocol for both. A fifth of the training rows judges; of the others, a share (`--held-out`) calibrates. A model
trained on the rest ranks the calibration rows, a model trained on all but the judging rows ranks those. Isotonic
curves (scikit-learn's): one of its own for each label with 50 held-out positives, one for all other labels. Lines give
ECE, Brier score and log loss of the five best labels by score, and the change of P@1, P@3 and P@5 when the hundred
best scores are ranked by probability. Test rows are not used. `--cache` keeps the rankings, which take all the time.
"""

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from measure import emit, make_parser
from sklearn.isotonic import IsotonicRegression

import longtail as lt
from longtail.calibration import brier_score, expected_calibration_error, find_hits, log_loss
from longtail.metrics import evaluate

MIN_POSITIVES = 50


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["eurlex", "bibtex", "delicious", "mediamill"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--held-out", type=float, default=0.1)
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    for name in options.datasets:
        for seed in options.seeds:
            found = rankings(name, seed, options.held_out, options.cache)
            Y, Y_new = labels_of(found, "H"), labels_of(found, "V")
            top, new = lt.TopK(found["H_ids"], found["H_s"]), lt.TopK(found["V_ids"], found["V_s"])
            record = {"question": "isotonic", "dataset": name, "seed": seed, "held_out": options.held_out}
            record |= {"n_calibration_rows": Y.shape[0], "n_judging_rows": Y_new.shape[0]}
            for method, proba in (("isotonic", isotonic(top, Y, new)), ("surface", surface(found, top, Y, new))):
                line = record | {"method": method} | quality(proba, new, Y_new)
                emit(line, save="isotonic" if options.save else None)


def rankings(name, seed, held_out, cache):
    path = None if cache is None else cache / f"{name}_{seed}{'' if held_out == 0.1 else f's{held_out}'}.npz"
    if path is not None and path.exists():
        return np.load(path)
    X, Y = read(name)
    rng = np.random.default_rng(1000 + seed)
    order = rng.permutation(X.shape[0])
    judging, rest = np.sort(order[: len(order) // 5]), np.sort(order[len(order) // 5 :])
    inner = rng.permutation(len(rest))
    n_held_out = len(rest) // 10 if held_out == 0.1 else round(len(rest) * held_out)
    calibrating, part = rest[np.sort(inner[:n_held_out])], rest[np.sort(inner[n_held_out:])]
    small, large = (lt.DiSMEC(unit_rows=True, n_jobs=1).fit(X[rows], Y[rows]) for rows in (part, rest))
    found = {"countsA": small.label_counts_, "countsT": large.label_counts_, "nA": len(part), "nT": len(rest)}
    for key, model, rows in (("H", small, calibrating), ("V", large, judging)):
        top = model.predict_top_k(X[rows], min(100, Y.shape[1]), utility="score")
        found |= {f"{key}_ids": top.label_ids, f"{key}_s": top.scores}
        found |= {f"Y{key}_i": Y[rows].indices, f"Y{key}_p": Y[rows].indptr}
    found["L"] = Y.shape[1]
    if path is not None:
        np.savez(path, **found)
    return found


def read(name):
    folder = Path(os.environ.get("LONGTAIL_DATA", "../shared/data")) / name
    if name != "debtags":
        X, Y = lt.datasets.read_xmc(folder / f"{name}_train.txt.gz")
        return sp.csr_array(X), sp.csr_array(Y)
    data = lt.datasets.read_text(folder / "debtags_train.jsonl.gz")
    names = sorted({label for labels in data.labels for label in labels})
    ids = {label: label_id for label_id, label in enumerate(names)}
    rows = np.repeat(np.arange(len(data.texts)), [len(set(labels)) for labels in data.labels])
    columns = [ids[label] for labels in data.labels for label in sorted(set(labels))]
    Y = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(len(data.texts), len(names)))
    return sp.csr_array(lt.TextVectorizer().fit(data.texts).transform(data.texts, n_jobs=1)), Y


def labels_of(found, key):
    indptr, indices = found[f"Y{key}_p"], found[f"Y{key}_i"]
    return sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(len(indptr) - 1, int(found["L"])))


def surface(found, top, Y, new):
    calibration = lt.Calibration().fit(top, Y, found["countsA"], int(found["nA"]))
    return calibration.for_model(found["countsT"], int(found["nT"])).proba(*new)


def isotonic(top, Y, new):
    hits = find_hits(top.label_ids, Y)
    is_label, asked = top.label_ids >= 0, new.label_ids
    positives = np.bincount(top.label_ids[hits], minlength=Y.shape[1])
    proba = np.zeros(asked.shape)
    own = np.flatnonzero(positives >= MIN_POSITIVES)
    groups = [(np.isin(top.label_ids, own, invert=True) & is_label, np.isin(asked, own, invert=True) & (asked >= 0))]
    groups += [(top.label_ids == label_id, asked == label_id) for label_id in own.tolist()]
    for inside, wanted in groups:
        if inside.any() and wanted.any():
            curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            curve.fit(top.scores[inside], hits[inside])
            proba[wanted] = curve.predict(new.scores[wanted])
    return proba.astype(np.float32)


def quality(proba, new, Y):
    hits = find_hits(new.label_ids, Y)
    five = proba[:, :5]
    order = np.argsort(-np.where(new.label_ids >= 0, proba, -1), axis=1, kind="stable")[:, :5]
    plain = evaluate(new.label_ids[:, :5], Y)
    ranked = evaluate(np.take_along_axis(new.label_ids, order, axis=1), Y)
    return {
        "ece_points": round(100 * expected_calibration_error(five, hits[:, :5]), 2),
        "brier": round(100 * brier_score(five, hits[:, :5]), 2),
        "log_loss": round(100 * log_loss(five, hits[:, :5]), 2),
        **{f"change P@{k}": round(ranked[f"P@{k}"] - plain[f"P@{k}"], 2) for k in (1, 3, 5)},
    }


if __name__ == "__main__":
    main()
