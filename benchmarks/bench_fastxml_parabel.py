"""How long does FastXML take to train beside Omikuji's Parabel, on EURLex-4K with unit rows and one thread?

The two run in turn, each in its own process pinned to one CPU, as in `longtail bench`. FastXML should take at most 0.55
of Parabel's CPU seconds. The same command continues a run that was stopped. Parabel runs in an environment of
benchmarks/peers, see docs/bench.md; $PEERS_PYTHON names an interpreter that has omikuji.

Example: python benchmarks/bench_fastxml_parabel.py --save
"""

import argparse
import os
import sys
from pathlib import Path
from statistics import median

from longtail.bench import Cell, Data, load_peers, read_results, run_matrix
from longtail.bench.systems import find_system

HERE = Path(__file__).resolve().parent
EURLEX = Data("EURLex-4K", "eurlex/eurlex_train.txt.gz", "eurlex/eurlex_test.txt.gz", unit_rows=True)
SYSTEMS = [find_system(name, load_peers(HERE / "peers")) for name in ("FastXML", "parabel")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--save", action="store_true", help="into benchmarks/results, not build/bench")
    options = parser.parse_args()
    folder = HERE / "results" if options.save else HERE.parent / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / "fastxml_parabel.jsonl"
    cells = [
        Cell(EURLEX, system, 1, repetition, limit_seconds=1200)
        for repetition in range(options.repeats)
        for system in SYSTEMS
    ]
    data_folder = Path(os.environ.get("LONGTAIL_DATA") or HERE.parent.parent / "shared" / "data")

    def tell(cell: Cell, record: dict | None) -> None:
        if record is not None:
            said = record.get("failed") or f"{record['train_cpu_seconds']:.1f} CPU seconds, P@1 {record['P@1']:.2f}"
            print(f"{cell.system.title}, run {cell.repetition + 1}: {said}", file=sys.stderr)

    run_matrix(cells, results, data_folder=data_folder, tell=tell)
    seconds: dict[str, list[float]] = {system.name: [] for system in SYSTEMS}
    for record in read_results(results):
        if "failed" not in record:
            seconds[record["system"]].append(record["train_cpu_seconds"])
    if not all(seconds.values()):
        sys.exit("no ratio: a system has no result")
    ours, theirs = (median(seconds[system.name]) for system in SYSTEMS)
    print(f"FastXML {ours:.1f} CPU seconds, Parabel {theirs:.1f}: {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
