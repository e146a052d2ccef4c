"""Write the tables of docs/results/scaling.md from benchmarks/results: measurements with Ray, and estimates.

The estimates scale the times and model sizes of systems.jsonl (DiSMEC) and of the largest line of fastxml_scaling.jsonl
(FastXML) by the number of entries, labels and levels.

python benchmarks/write_scaling_tables.py           write them between the marks of the page
python benchmarks/write_scaling_tables.py --check   exit with 1 if the page is out of date
"""

import math
from dataclasses import dataclass
from statistics import median

from page_tables import Table, last, main, markdown, read

_EURLEX_ENTRIES = 3.7e6
_N_TREES = 50
_LABELS_PER_TASK = 512
_CORES = 32
_NETWORK = 1.25e9  # bytes per second: 10 Gbit/s


@dataclass
class Data:
    n_rows: float
    n_labels: float = 2.8e6
    entries_per_row: float = 49
    labels_per_row: float = 36

    @property
    def n_entries(self) -> float:
        return self.n_rows * self.entries_per_row

    @property
    def n_bytes(self) -> float:
        """8 bytes per entry of X, 4 per entry of Y, 8 per row for each: docs/scaling.md."""
        return 8 * self.n_entries + self.n_rows * (4 * self.labels_per_row + 16)


def spread(line: dict, name: str = "wall_seconds") -> str:
    return f"{line[name]:.1f} s ({line[f'{name}_min']:.1f} to {line[f'{name}_max']:.1f})"


def ray() -> str:
    lines = last("ray", "question", "step", "system", "nodes")
    start, first, second, end = (
        lines["start-up", step, None, None]["wall_seconds"] for step in ("start", "first fit", "second fit", "end")
    )
    threads, workers = (lines["overhead", None, system, None] for system in ("threads", "ray"))
    before, after = (lines["memory", step, None, None] for step in ("before", "after reading all"))
    whole, killed = (lines["retry", None, system, None] for system in ("undisturbed", "one worker killed"))
    rows = [
        ["start of a local cluster / first fit / end", f"{start:.1f} s / {first:.1f} s / {end:.1f} s"],
        ["a fit of nothing on a running cluster", f"{second:.3f} s"],
        [f"FastXML, {threads['n_trees']} trees, two threads", spread(threads)],
        ["the same, two Ray workers", f"{spread(workers)}: {workers['overhead_percent']:.1f} % more"],
        [
            "private memory of a worker before and after it read 1 GiB",
            f"{before['private_bytes_most'] / 1e6:.0f} MB and {after['private_bytes_most'] / 1e6:.0f} MB "
            f"(shared: {after['shared_bytes_least'] / 1e9:.2f} GB)",
        ],
    ]
    for n_nodes in (1, 2, 4):
        line = lines["broadcast", None, None, n_nodes]
        rows.append(
            [
                f"1 GiB, nodes: {n_nodes}; put / first read",
                f"{line['put_seconds']:.1f} s / {line['first_read_seconds']:.1f} s",
            ]
        )
    for n_nodes in (1, 2, 4):
        line = lines["nodes", None, None, n_nodes]
        title = (
            f"FastXML, {line['n_trees']} trees, nodes of one CPU: {n_nodes}; predicted {line['expected_seconds']:.1f} s"
        )
        rows.append([title, spread(line)])
    rows.append([f"FastXML, {whole['n_trees']} trees, two workers", spread(whole)])
    rows.append(["the same, one worker killed in the middle", spread(killed)])
    return markdown(["question", "result"], rows, n_texts=2)


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 2 * 86400 else f"{seconds / 86400:.1f} days"


def size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.0f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"


def measured(system: str, name: str) -> float:
    """Return the median over the runs of a system on EURLex-4K with one thread."""
    wanted = ("EURLex-4K", system, 1)
    return median(
        line[name] for line in read("systems") if (line["dataset"], line["system"], line["threads"]) == wanted
    )


def rates() -> tuple[float, float]:
    """Return the seconds of DiSMEC per entry and label, and those of a tree per entry and level."""
    n_labels = next(line["n_labels"] for line in read("systems") if line["dataset"] == "EURLex-4K")
    tree = largest_tree()
    linear = measured("DiSMEC", "train_cpu_seconds") / (_EURLEX_ENTRIES * n_labels)
    return linear, tree["cpu_seconds"] / (tree["nnz"] * tree["depth"])


def largest_tree() -> dict:
    return max(read("fastxml_scaling"), key=lambda line: line["n_rows"])


def n_levels(data: Data) -> float:
    tree = largest_tree()
    return tree["depth"] + math.log2(data.n_rows / tree["n_rows"])


def task_seconds(data: Data) -> tuple[float, float]:
    """Return the time of one task of DiSMEC and of one tree."""
    linear, tree = rates()
    return linear * data.n_entries * _LABELS_PER_TASK, tree * data.n_entries * n_levels(data)


def model_bytes(data: Data) -> tuple[float, float, float]:
    """Return the sizes of DiSMEC's models by labels, float32 and int8, and of FastXML's by rows."""
    line = next(line for line in read("systems") if line["dataset"] == "EURLex-4K")
    linear, small = (
        measured(name, "model_mb") * 1e6 * data.n_labels / line["n_labels"] for name in ("DiSMEC", "DiSMEC int8")
    )
    return linear, small, measured("FastXML", "model_mb") * 1e6 * data.n_rows / line["n_rows"]


def on_machines(n_machines: int, n_tasks: int, seconds: float) -> str:
    return duration(math.ceil(n_tasks / (n_machines * _CORES)) * seconds)


def estimate(data: Data) -> str:
    n_tasks = math.ceil(data.n_labels / _LABELS_PER_TASK)
    (linear_rate, tree_rate), (task, tree), (linear, small, forest) = rates(), task_seconds(data), model_bytes(data)
    rows = [
        ["rate", f"{1e9 * linear_rate:.1f} ns per entry and label", f"{1e9 * tree_rate:.0f} ns per entry and level"],
        [
            "one task",
            f"{_LABELS_PER_TASK} labels: {duration(task)}",
            f"one tree, {n_levels(data):.0f} levels: {duration(tree)}",
        ],
        ["tasks", f"{n_tasks:,}", f"{_N_TREES}"],
        ["all, one core", duration(n_tasks * task), duration(_N_TREES * tree)],
        *(
            [f"machines of {_CORES} cores: {n}", on_machines(n, n_tasks, task), on_machines(n, _N_TREES, tree)]
            for n in (1, 10, 100)
        ),
        ["model", f"{size(linear)}, int8 {size(small)}", size(forest)],
    ]
    sent = (
        f"X and Y take {size(data.n_bytes)}: {duration(data.n_bytes / _NETWORK)} to each further machine at 10 Gbit/s."
    )
    return markdown(["", "DiSMEC", f"FastXML, {_N_TREES} trees"], rows, n_texts=3) + f"\n\n{sent}"


if __name__ == "__main__":
    page = "results/scaling.md"
    main(
        __doc__,
        [
            Table(page, "ray", ray()),
            Table(page, "amazon", estimate(Data(1.7e6))),
            Table(page, "hundred-million", estimate(Data(1e8))),
        ],
    )
