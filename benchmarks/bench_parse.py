"""How fast is the XMC text format read, and in how much memory?

Reads one file, plain and gzipped, with one thread and with two, and times scikit-learn's `load_svmlight_file` on the
same lines (without the header, which it does not know) and, with `--peer PYTHON` (an interpreter that has it),
napkinXC's loader. Memory is the peak of a fresh process above what it had before, as a share of the arrays returned.

Example: python benchmarks/bench_parse.py ../shared/data/eurlex/eurlex_train.txt.gz \\
             --peer .venv-peers/napkinxc/bin/python --save
"""

import functools
import gzip
import json
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from measure import emit, make_parser, measure, peak_memory

from longtail.datasets import read_xmc, write_xmc

PEER = """
import json, sys, time
from napkinxc.datasets import load_libsvm_file
seconds = []
for _ in range(int(sys.argv[2])):
    begin = time.perf_counter()
    load_libsvm_file(sys.argv[1], labels_format="csr_matrix")
    seconds.append(time.perf_counter() - begin)
print(json.dumps(sorted(seconds)))
"""


def array_bytes(path: Path) -> int:
    X, Y = read_xmc(path)
    return sum(part.nbytes for matrix in (X, Y) for part in (matrix.indptr, matrix.indices, matrix.data))


def warm_up() -> None:
    """Import what reading needs, so that it does not count as the reader's memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tiny.txt"
        path.write_text("1 1 1\n0 0:1\n")
        read_xmc(path, n_jobs=2)


def read_after_warm_up(path: Path, n_jobs: int, _: object) -> None:
    read_xmc(path, n_jobs=n_jobs)


def main() -> None:
    parser = make_parser(__doc__)
    default = Path(__file__).parent.parent.parent / "shared/data/eurlex/eurlex_train.txt.gz"
    parser.add_argument("data", type=Path, nargs="?", default=default, help="a file in XMC format (default: EURLex-4K)")
    parser.add_argument("--peer", type=Path, help="a Python that has napkinXC")
    options = parser.parse_args()
    save = "parse" if options.save else None

    with tempfile.TemporaryDirectory() as folder:
        plain, packed, bare = (Path(folder) / name for name in ("plain.txt", "packed.txt.gz", "bare.svm"))
        text = options.data.read_bytes()
        plain.write_bytes(gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text)
        packed.write_bytes(text if text.startswith(b"\x1f\x8b") else gzip.compress(text))
        header, _, body = plain.read_bytes().partition(b"\n")
        bare.write_bytes(body)
        n_rows, n_features, n_labels = map(int, header.split())
        returned = array_bytes(plain)
        facts = {
            "question": "parse",
            "dataset": options.data.name,
            "n_rows": n_rows,
            "n_features": n_features,
            "n_labels": n_labels,
            "text_bytes": plain.stat().st_size,
            "array_bytes": returned,
        }

        for path in (plain, packed):
            for threads in (1, 2):
                times = measure(functools.partial(read_xmc, path, n_jobs=threads), options.repeats, warm_ups=1)
                memory = peak_memory(functools.partial(read_after_warm_up, path, threads), warm_up)
                memory["peak_share_of_arrays"] = round(memory["peak_growth_bytes"] / returned, 3)
                speed = round(plain.stat().st_size / times["wall_seconds"] / 1e6, 1)
                system = {"system": "longtail", "input": path.name, "threads": threads, "text_mb_per_second": speed}
                emit(facts | system | times | memory, save)
        X, Y = read_xmc(plain)
        out = Path(folder) / "out.txt"
        for threads in (1, 2):
            times = measure(functools.partial(write_xmc, out, X, Y, overwrite=True, n_jobs=threads), options.repeats)
            emit(facts | {"system": "longtail write_xmc", "threads": threads} | times, save)

        from sklearn.datasets import load_svmlight_file

        load = functools.partial(load_svmlight_file, bare, multilabel=True, zero_based=True, dtype=np.float32)
        emit(facts | {"system": "scikit-learn", "threads": 1} | measure(load, max(1, options.repeats // 2)), save)
        if options.peer:
            command = [options.peer, "-c", PEER, plain, str(options.repeats)]
            seconds = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            times = {
                "wall_seconds": seconds[len(seconds) // 2],
                "wall_seconds_min": seconds[0],
                "repeats": len(seconds),
            }
            emit(facts | {"system": "napkinXC", "threads": 1} | times, save)


if __name__ == "__main__":
    main()
