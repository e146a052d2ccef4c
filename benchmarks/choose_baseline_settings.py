"""Which settings should the baselines have? Chosen on a fifth of the training rows; test rows are never read.

Every parameter of a system gets a few values, the others as chosen so far. The value with the best mean of P@1, 3 and
5 on the held-out fifth is kept. One line per try; those that have one are not run again. Values of parameters that only
prediction uses are tried on one trained model.
"""

import json
from functools import cache, lru_cache, partial

import numpy as np
from bench_baselines_accuracy import SYSTEMS, settings
from fastxml_data import SETS, describe, load
from measure import RESULTS, emit, make_parser, measure

import longtail as lt
from longtail.saving import make_estimator

FILE = "baseline_settings"
PREDICTION = {"SLEEC": ("vote_power", "n_neighbours")}


def grid(dataset: str, system: str, n_labels: int) -> list[tuple[str, list[object]]]:
    """Return the parameters and values to try; an embedding has at most half as many components as labels."""
    sizes = sorted({min(size, n_labels // 2) for size in (50, 200, 500)})
    rows = [("unit_rows", [False, True])] if dataset == "mediamill" else []  # texts always have length one
    return (
        rows
        + {
            "CPLST": [("l2", [0.1, 1.0, 10.0]), ("n_components", sizes)],
            "CS": [("l2", [0.1, 1.0, 10.0]), ("n_components", sizes)],
            "MLCSSP": [("l2", [0.1, 1.0, 10.0]), ("n_components", sizes)],
            "LEML": [("l2", [1.0, 3.0, 10.0]), ("n_components", sizes)],
            "LPSR": [("max_leaf_size", [300, 1000, 3000]), ("cost", [0.3, 1.0, 3.0])],
            "LPSRNB": [("smoothing", [0.01, 0.1, 1.0]), ("max_leaf_size", [300, 1000, 3000])],
            "PDSparse": [("post_train", [False, True]), ("l1", [0.03, 0.1, 0.3]), ("n_violators", [30, 100])],
            "WSABIE": [("learning_rate", [0.1, 0.3]), ("max_norm", [3.0, 10.0])],
            "SLEEC": [("vote_power", [0.0, 4.0, 8.0, 16.0]), ("n_neighbours", [5, 10, 25, 50])],
            "MLRF": [("bootstrap", [False, True]), ("max_leaf_size", [2, 5, 10, 15])],
            "MLRFnDCG": [("bootstrap", [False, True]), ("max_leaf_size", [2, 5, 10, 15])],
        }[system]
    )


@cache
def split(dataset: str) -> tuple:
    """Return X, Y of four fifths of the training rows and of the fifth that is held out."""
    X, Y = load(dataset, "train")
    is_held_out = np.random.default_rng(0).permutation(X.shape[0]) < X.shape[0] // 5
    return X[~is_held_out], Y[~is_held_out], X[is_held_out], Y[is_held_out]


@lru_cache(1)
def train(dataset: str, system: str, params: str) -> tuple:
    """Train on the four fifths; parameters as JSON."""
    X, Y, _, _ = split(dataset)
    # Forests are compared with ten trees, SLEEC with one learner. Forests and dense rows: as in the accuracy script.
    fast = {"n_trees": 10} if system.startswith("MLRF") else {"n_learners": 1} if system == "SLEEC" else {}
    model = make_estimator(system, settings(system, X, Y) | json.loads(params) | fast | {"n_jobs": 1})
    return model, measure(partial(model.fit, X, Y), 1)["cpu_seconds"]


def try_setting(dataset: str, system: str, params: dict[str, object], done: dict[str, float]) -> float:
    """Train on four fifths, score on the fifth; the mean of P@1, 3 and 5."""
    key = json.dumps([dataset, system, params], sort_keys=True)
    if key in done:
        return done[key]
    of_prediction = {name: value for name, value in params.items() if name in PREDICTION.get(system, ())}
    of_training = {name: value for name, value in params.items() if name not in of_prediction}
    model, seconds = train(dataset, system, json.dumps(of_training, sort_keys=True))
    X, Y, X_held, Y_held = split(dataset)
    found = lt.metrics.evaluate(model.set_params(**of_prediction).predict_top_k(X_held), Y_held)
    score = round(float(np.mean([found[f"P@{k}"] for k in (1, 3, 5)])), 3)
    record = {"question": "baseline settings", "system": system, "params": params, **describe(dataset, X, Y)}
    record |= {f"P@{k}": round(float(found[f"P@{k}"]), 2) for k in (1, 3, 5)} | {"mean": score}
    emit(record | {"train_cpu_seconds": seconds}, FILE)
    done[key] = score
    return score


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS), choices=SYSTEMS)
    options = parser.parse_args()
    path = RESULTS / f"{FILE}.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    done = {
        json.dumps([line["dataset"], line["system"], line["params"]], sort_keys=True): line["mean"] for line in lines
    }
    for system in options.systems:
        for dataset in options.datasets:
            chosen: dict[str, object] = {}
            for name, values in grid(dataset, system, load(dataset, "train")[1].shape[1]):
                scores = {value: try_setting(dataset, system, chosen | {name: value}, done) for value in values}
                chosen[name] = max(values, key=lambda value: scores[value])
            print(f"{dataset}, {system}: {chosen}", flush=True)


if __name__ == "__main__":
    main()
