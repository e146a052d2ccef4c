"""How long does exact one-vs-all training take, and how do PECOS one-vs-rest and Omikuji's Parabel compare?

Runs DiSMEC (msi) on one and two threads and, with --peers, the peers on one thread right after, so that both meet the
same machine. Also reports how far off `estimate` was.

Example: python benchmarks/bench_dismec_training.py --datasets eurlex --peers .venv-peers/bin/python
"""

import functools
from pathlib import Path

from dismec_data import SETS, describe, load, run_peer
from measure import emit, make_parser, measure

import longtail as lt

PEERS = ("pecos-ovr", "parabel")


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--datasets", nargs="+", default=["eurlex"], choices=SETS)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--peers", type=Path, help="Python of the environment with omikuji and libpecos")
    options = parser.parse_args()
    save = "dismec_training" if options.save else None
    for name in options.datasets:
        X, Y = load(name, "train")
        X_test, Y_test = load(name, "test")
        for threads in options.threads:
            model = lt.DiSMEC(n_jobs=threads)
            told = model.estimate(X, Y)
            record = {"question": "training time", "system": "DiSMEC", "threads": threads} | describe(name, X, Y)
            record |= measure(functools.partial(model.fit, X, Y), options.repeats)
            found = lt.metrics.evaluate(model.predict_top_k(X_test, top_k=5), Y_test)
            record |= {f"P@{k}": round(found[f"P@{k}"], 2) for k in (1, 3, 5)}
            record |= {"n_unconverged": model.n_unconverged_, "n_weights": len(model.index_label_ids_)}
            record |= {"estimated_seconds": told.seconds, "estimated_cpu_seconds": told.cpu_seconds}
            record |= {"estimated_model_bytes": told.model_bytes, "probe_seconds": told.probe_seconds}
            emit(record, save)
        if options.peers is None:
            continue
        for peer in PEERS:
            emit({"question": "training time"} | describe(name, X, Y) | run_peer(name, peer, options.peers), save)


if __name__ == "__main__":
    main()
