"""How do label trees compare with Omikuji, with XR-Linear of PECOS and with exact one-vs-all?

Each measurement runs in its own process, pinned to its cores, as in `longtail bench`; medians of three are reported.
Everything runs once before anything runs twice, and the same command continues a run that was stopped.

    python benchmarks/bench_label_trees.py --save                  # every set; then scripts/write_benchmarks.py
    python benchmarks/bench_label_trees.py --data eurlex wnwords   # some sets, into build/bench
    python benchmarks/bench_label_trees.py --data million --save   # seconds per label from 10,000 to 1,000,000 labels
    python benchmarks/bench_label_trees.py --short --save          # what the main claims need, in about 45 minutes

--short leaves out the other members of the family, and runs peers and one-vs-all on the large sets only once; the same
command without it adds what is left.

Files are those of $LONGTAIL_DATA (default ../shared/data). Peers run in the environments of benchmarks/peers, see
docs/bench.md: $PEERS_FOLDER says where they are. Rows have length 1; at most the first 5,000 test rows count.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import longtail as lt
from longtail.bench import Cell, Data, load_peers, read_results, render_tables, run_matrix
from longtail.bench.systems import System, find_system

HERE = Path(__file__).resolve().parent
PEERS = load_peers(HERE / "peers")
LIMIT_SECONDS = 3600


def of_files(title: str, name: str) -> Data:
    train, test = (f"{name}/{name}_{part}.txt.gz" for part in ("train", "test"))
    return Data(title, train, test, unit_rows=True, max_test_rows=5000)


def of_titles(n_labels: int) -> Data:
    """Rows like queries or product titles: some eight words, two labels."""
    shape = {"n_rows": 2 * n_labels, "n_features": max(20_000, n_labels // 4), "n_labels": n_labels}
    made = shape | {"labels_per_row": 2, "features_per_label": 4}
    return Data(f"titles {n_labels:,}", synthetic=made, unit_rows=True, max_test_rows=5000)


def of_tree(title: str, model: lt.LabelTree) -> System:
    """Describe a model by the parameters that are not defaults."""
    defaults = lt.LabelTree().get_params()
    changed = {name: value for name, value in model.get_params().items() if value != defaults[name]}
    return System(title, title, {"estimator": "LabelTree", **changed})


TREE = of_tree("LabelTree", lt.LabelTree())
INT8 = of_tree("LabelTree int8", lt.LabelTree(weight_type="int8"))
TWO = of_tree("LabelTree, 2 trees", lt.LabelTree(n_trees=2))
THREE = of_tree("LabelTree, 3 trees", lt.LabelTree(n_trees=3))
BONSAI_SHAPE = of_tree("LabelTree.bonsai", lt.LabelTree.bonsai())
EXACT = of_tree("LabelTree exact leaves", lt.LabelTree(leaves="exact"))
TREES = (TREE, INT8, THREE, of_tree("LabelTree.parabel", lt.LabelTree.parabel()), BONSAI_SHAPE, EXACT)
XR_LINEAR, PARABEL, BONSAI, DISMEC = (
    find_system(name, PEERS) for name in ("pecos-xrlinear", "parabel", "bonsai", "DiSMEC")
)
EURLEX, WNWORDS, NPMOWNER = (
    of_files(title, name) for title, name in (("EURLex-4K", "eurlex"), ("wnwords", "wnwords"), ("npmowner", "npmowner"))
)
# The same set as in matrix.toml.
SYNTHETIC = Data(
    "synthetic 16k", synthetic={"n_rows": 22_000, "n_features": 20_000, "n_labels": 16_000}, unit_rows=True
)
# Name on the command line: data sets, systems, threads, repetitions. Exact one-vs-all would take days on npmowner.
RUNS: dict[str, tuple[list[Data], list[System], int, int]] = {
    "eurlex": ([EURLEX], [*TREES, XR_LINEAR, PARABEL, BONSAI, DISMEC], 1, 3),
    "synthetic": ([SYNTHETIC], [*TREES, XR_LINEAR, PARABEL, DISMEC], 1, 3),
    "wnwords": ([WNWORDS], [*TREES, TWO, XR_LINEAR, PARABEL, DISMEC], 1, 3),
    "npmowner": ([NPMOWNER], [TREE, INT8, XR_LINEAR, PARABEL], 1, 3),
    "million": ([of_titles(10**power) for power in (4, 5, 6)], [TREE], 2, 1),
}
# With --short: the systems of each set, and which of them run once.
SHORT: dict[str, tuple[list[System], list[System]]] = {
    "eurlex": ([TREE, INT8, THREE, BONSAI_SHAPE, EXACT, XR_LINEAR, PARABEL, DISMEC], []),
    "synthetic": ([TREE, XR_LINEAR], []),
    "wnwords": ([TREE, TWO, EXACT, XR_LINEAR, PARABEL, DISMEC], [XR_LINEAR, PARABEL, DISMEC]),
    "npmowner": ([TREE, XR_LINEAR, PARABEL], [XR_LINEAR, PARABEL]),
    "million": ([TREE], []),
}


def is_short(name: str, system: System, repetition: int) -> bool:
    """Whether this measurement is one of --short."""
    chosen, once = SHORT[name]
    return system in chosen and (repetition == 0 or system not in once)


def cells_of(names: list[str], systems: list[str], repetitions: int | None, *, short: bool) -> list[Cell]:
    """List the cells, everything once before anything twice."""
    cells = [
        Cell(data, system, threads, repetition, limit_seconds=LIMIT_SECONDS)
        for name in names
        for sets, chosen, threads, repeats in (RUNS[name],)
        for repetition in range(repetitions or repeats)
        for data in sets
        for system in chosen
        if (not systems or system.name in systems) and (not short or is_short(name, system, repetition))
    ]
    return sorted(cells, key=lambda cell: cell.repetition)


def tell(cell: Cell, record: dict[str, Any] | None) -> None:
    if record is None:
        print(
            f"{cell.data.name}, {cell.system.title}, run {cell.repetition + 1} … ", end="", flush=True, file=sys.stderr
        )
    elif "failed" in record:
        print(f"failed: {record['failed']}", file=sys.stderr)
    else:
        measures = " / ".join(f"{record[f'P@{k}']:.2f}" for k in (1, 3, 5))
        print(
            f"{record['train_wall_seconds']:.1f} s ({record['train_cpu_seconds']:.1f} s CPU), "
            f"{record['peak_memory_mb']:.0f} MB, {record['predict_ms_per_row']:.3f} ms/row, "
            f"model {record['model_mb']:.1f} MB, load {record['load_seconds']:.3f} s, P {measures}",
            file=sys.stderr,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=list(RUNS), choices=RUNS, help="sets (default: all)")
    parser.add_argument("--system", action="append", default=[], metavar="NAME", help="only these, by title or peer")
    parser.add_argument("--repeats", type=int, help="runs of each (default: 3, and 1 of million)")
    parser.add_argument("--short", action="store_true", help="what the main claims need, in about 45 minutes")
    parser.add_argument("--retry-failed", action="store_true", help="run failed measurements again")
    parser.add_argument("--save", action="store_true", help="into benchmarks/results, not build/bench")
    options = parser.parse_args()
    folder = HERE / "results" if options.save else HERE.parent / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "label_trees.jsonl"
    cells = cells_of(options.data, options.system, options.repeats, short=options.short)
    if not cells:
        parser.error(f"--system must name systems of {', '.join(options.data)}, got {', '.join(options.system)}")
    data_folder = Path(os.environ.get("LONGTAIL_DATA") or HERE.parent.parent / "shared" / "data")
    run_matrix(cells, results, data_folder=data_folder, retry_failed=options.retry_failed, tell=tell)
    print(render_tables(read_results(results)), end="")


if __name__ == "__main__":
    main()
