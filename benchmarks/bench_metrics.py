"""How long does it take to evaluate the predictions of a large test set?

Makes rankings of `--rows` rows × `--top-k` labels with Zipf-distributed labels, and times `evaluate` with and without
propensities, in one batch and streaming in batches of 1,000 rows, and the peak memory on top of the data. The baseline
is the same computation with NumPy and scipy (precision, nDCG, PSP and PSnDCG at 1, 3, 5 only). With `--peer PYTHON`,
an interpreter that has napkinXC, its precision@5 is timed on the first 100,000 rows, and scaled up in the record.
"""

import json
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from measure import emit, make_parser, measure, peak_memory

from longtail import metrics, propensity

KS = (1, 3, 5)
PEER_ROWS = 100_000
PEER = """
import sys, time, json
import scipy.sparse as sp, numpy as np
from napkinxc.metrics import precision_at_k
top, Y = np.load(sys.argv[1]).tolist(), sp.load_npz(sys.argv[2]).tocsr()
Y = [row.tolist() for row in np.split(Y.indices, Y.indptr[1:-1])]
begin = time.process_time()
value = precision_at_k(Y, top, k=5)
print(json.dumps({"cpu_seconds": time.process_time() - begin, "precision": 100 * value[-1]}))
"""


def make_case(n_rows, n_labels, top_k, seed=0):
    """Draw Zipf labels for every row; each ranking holds some of them among other labels."""
    rng = np.random.default_rng(seed)
    drawn = np.minimum(rng.zipf(1.3, size=(n_rows, 5)), n_labels) - 1
    Y = sp.csr_array(
        (np.ones(drawn.size, dtype=np.float32), drawn.ravel(), np.arange(0, drawn.size + 1, 5)), (n_rows, n_labels)
    )
    Y.sum_duplicates()
    Y.data[:] = 1
    # Labels of one row at distances that are no multiples of each other are distinct.
    top = (rng.integers(n_labels, size=(n_rows, 1)) + np.arange(top_k) * (n_labels // (top_k + 1))) % n_labels
    found = rng.random(n_rows) < 0.8
    is_new = ~(top == drawn[:, :1]).any(axis=1)
    top[found & is_new, 0] = drawn[found & is_new, 0]
    return top.astype(np.int32), Y, propensity.from_labels(Y)


def evaluate_streaming(top, Y, propensities, batch_size=1000):
    evaluator = metrics.Evaluator(propensities, ks=KS)
    for first in range(0, len(top), batch_size):
        evaluator.update(top[first : first + batch_size], Y[first : first + batch_size])
    return evaluator.result()


def evaluate_with_numpy(top, Y, propensities):
    """The shortest sensible way without longtail: sparse rankings times labels."""
    n_rows, top_k = top.shape
    rows = np.repeat(np.arange(n_rows), top_k)
    ranks = sp.csr_array((np.tile(np.arange(1, top_k + 1), n_rows), (rows, top.ravel())), shape=Y.shape)
    hits = (ranks * Y).tocoo()
    weights = 1 / propensities
    ideal = sp.csr_array((weights[Y.indices], Y.indices, Y.indptr), shape=Y.shape)
    sizes = np.diff(Y.indptr)
    order = np.lexsort((-ideal.data, np.repeat(np.arange(n_rows), sizes)))
    best = ideal.data[order]
    place = np.arange(len(best)) - np.repeat(Y.indptr[:-1], sizes) + 1
    discount, result = 1 / np.log2(np.arange(2, top_k + 2)), {}
    for k in KS:
        found, is_best = hits.data <= k, place <= k
        rank = hits.data[found].astype(int) - 1
        gain = weights[hits.col[found]]
        per_row = np.bincount(hits.row[found], discount[rank], minlength=n_rows)
        result[f"P@{k}"] = 100 * found.sum() / n_rows / k
        result[f"nDCG@{k}"] = 100 * np.mean(per_row / np.cumsum(discount)[np.clip(sizes, 1, k) - 1])
        result[f"PSP@{k}"] = 100 * gain.sum() / best[is_best].sum()
        result[f"PSnDCG@{k}"] = 100 * (gain @ discount[rank]) / (best[is_best] @ discount[place[is_best] - 1])
    return result


def evaluate_case(case):
    metrics.evaluate(*case, ks=KS, n_jobs=1)


def measure_peer(python, top, Y):
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("top.npy", "Y.npz")]
        np.save(paths[0], top[:PEER_ROWS])
        sp.save_npz(paths[1], Y[:PEER_ROWS])
        done = subprocess.run([python, "-c", PEER, *paths], check=True, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    ours = metrics.precision_at_k(top[:PEER_ROWS], Y[:PEER_ROWS], k=5)
    if abs(answer["precision"] - ours) > 1e-9:
        raise SystemExit(f"napkinXC's precision@5 {answer['precision']} differs from ours {ours}")
    scale = len(top) / min(PEER_ROWS, len(top))
    return {"cpu_seconds": answer["cpu_seconds"] * scale, "timed_rows": min(PEER_ROWS, len(top))}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--top-k", type=int, default=5)
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with napkinXC")
    options = parser.parse_args()
    case = make_case(options.rows, options.labels, options.top_k)
    top, Y, _ = case
    ours, naive = metrics.evaluate(*case, ks=KS), evaluate_with_numpy(*case)
    wrong = [name for name, value in naive.items() if abs(value - ours[name]) > 1e-6]
    if wrong:
        raise SystemExit(f"longtail and NumPy disagree on {', '.join(wrong)}")

    size = {"n_rows": options.rows, "n_labels": options.labels, "top_k": options.top_k}
    ways = {
        "all metrics": (1, lambda: metrics.evaluate(*case, ks=KS, n_jobs=1)),
        "all metrics, 2 threads": (2, lambda: metrics.evaluate(*case, ks=KS, n_jobs=2)),
        "plain metrics": (1, lambda: metrics.evaluate(top, Y, ks=KS, n_jobs=1)),
        "precision@5 only": (1, lambda: metrics.precision_at_k(top, Y, k=5)),
        "all metrics, batches of 1000 rows": (1, lambda: evaluate_streaming(*case)),
        "baseline: NumPy, P nDCG PSP PSnDCG": (1, lambda: evaluate_with_numpy(*case)),
    }
    save = "metrics" if options.save else None
    for way, (threads, fn) in ways.items():
        emit({"question": "metrics", "way": way, "threads": threads} | size | measure(fn, options.repeats), save)
    setup = partial(make_case, options.rows, options.labels, options.top_k)
    emit({"question": "metrics", "way": "memory", "threads": 1} | size | peak_memory(evaluate_case, setup), save)
    if options.peer:
        answer = measure_peer(options.peer, top, Y)
        emit({"question": "metrics", "way": "peer: napkinXC precision@5", "threads": 1} | size | answer, save)


if __name__ == "__main__":
    main()
