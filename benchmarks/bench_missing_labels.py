"""Is propensity-scored nDCG unbiased under missing labels, and does training with propensities help?

The simulation of figure 3 of the PfastreXML paper: EURLex-4K counts as the complete truth; labels then go missing,
label l being kept with chance p_l = 1 / (1 + C exp(-A log(N_l + B))), B = 1.5 and several A (smaller A, more missing).

(b) A fixed ranking of the test rows is scored on draws of the incomplete truth: plain nDCG@3 falls as labels go
    missing, propensity-scored nDCG@3 has the complete truth's value as its mean. Gains are plain sums over ranks as in
    table 1, not divided by the best possible one.
(c) FastXML and PfastXML are trained on the incomplete truth and compared by nDCG@3 on the complete one.
(d) PfastXML is trained with propensities of another A than the labels went missing by.

Example: python benchmarks/bench_missing_labels.py --n-jobs 1 --save   (12 trainings of ten trees, two minutes)
"""

import numpy as np
import scipy.sparse as sp
from fastxml_data import describe, load
from measure import emit, make_parser

import longtail as lt

B = 1.5
REFERENCE_A = 0.55


def drop_labels(Y, propensity, rng):
    """Keep each label of each row with its propensity."""
    kept = rng.random(Y.nnz) < propensity[Y.indices]
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))[kept]
    return sp.csr_array((np.ones(kept.sum(), np.float32), (rows, Y.indices[kept])), shape=Y.shape)


def discounted_gain(label_ids, Y, weights):
    """Mean over rows of sum_l w_l y_l / log2(1 + rank_l) / I_k: the loss of table 1, negated, in percent."""
    hits = np.take_along_axis(Y.toarray(), label_ids, axis=1) * weights[label_ids]
    discounts = 1 / np.log2(np.arange(2, label_ids.shape[1] + 2))
    return 100 * float((hits @ discounts).mean() / discounts.sum())


def with_propensities(propensity, common):
    """Make a PfastXML with given propensities; from incomplete counts it would overestimate rarity."""
    model = lt.PfastXML(**common)
    model._propensities = lambda Y: propensity
    return model


def ndcg(model, X, Y):
    return lt.metrics.evaluate(model.predict_top_k(X, 5), Y)["nDCG@3"]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--dataset", default="eurlex", choices=["eurlex", "bibtex", "delicious"])
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--draws", type=int, default=50, help="incomplete test truths for (b)")
    parser.add_argument("--a", nargs="+", type=float, default=[0.15, 0.35, 0.55, 0.75], help="propensity curves")
    parser.add_argument("--n-jobs", type=int)
    options = parser.parse_args()
    save = "missing_labels" if options.save else None
    X, Y = load(options.dataset, "train")
    X_test, Y_test = load(options.dataset, "test")
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    common = {"n_trees": options.trees, "n_jobs": options.n_jobs, "unit_rows": options.dataset == "eurlex"}
    size = describe(options.dataset, X, Y) | {"n_trees": options.trees}
    complete = lt.FastXML(**common).fit(X, Y)
    ranking = complete.predict_top_k(X_test, 3).label_ids
    no_weights = np.ones(Y.shape[1])
    true_gain = discounted_gain(ranking, Y_test, no_weights)
    rng = np.random.default_rng(0)
    for a in options.a:
        p = lt.propensity.PropensityModel(a, B).from_counts(counts, Y.shape[0])
        drawn = [drop_labels(Y_test, p, rng) for _ in range(options.draws)]
        plain = [discounted_gain(ranking, draw, no_weights) for draw in drawn]
        scored = [discounted_gain(ranking, draw, 1 / p) for draw in drawn]
        observed = drop_labels(Y, p, rng)
        record = {"question": "missing labels", "a": a} | size
        record |= {
            "missing_percent": round(100 * (1 - observed.nnz / Y.nnz), 1),
            "complete_gain@3": round(true_gain, 2),
        }
        record |= {"plain_gain@3": round(np.mean(plain), 2), "scored_gain@3": round(np.mean(scored), 2)}
        record["scored_standard_error"] = round(np.std(scored) / np.sqrt(options.draws), 3)
        record["FastXML nDCG@3"] = round(ndcg(lt.FastXML(**common).fit(X, observed), X_test, Y_test), 2)
        wrong = options.a if a == REFERENCE_A else [a]
        for assumed in wrong:
            told = lt.propensity.PropensityModel(assumed, B).from_counts(counts, Y.shape[0])
            model = with_propensities(told, common).fit(X, observed)
            record[f"PfastXML A={assumed} nDCG@3"] = round(ndcg(model, X_test, Y_test), 2)
        emit(record, save)


if __name__ == "__main__":
    main()
