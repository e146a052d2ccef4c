"""Write the tables of docs/results/gbdt.md from benchmarks/results: the last line of each run counts.

python benchmarks/gbdt_tables.py           print them
python benchmarks/gbdt_tables.py --write   write them between the page's <!-- table … --> marks
python benchmarks/gbdt_tables.py --check   exit with 1 if the page is out of date
"""

import argparse
import json
import re
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "results" / "gbdt.md"

# Si et al., ICML 2017: prediction seconds for the test set, megabytes, P@1, P@3 (Table 3); Wiki10-31K (Table 1).
PUBLISHED_3 = {
    ("mediamill", "LEML"): (0.28, 0.17, 82.83, 66.29),
    ("mediamill", "FastXML"): (3.44, 7.25, 83.13, 66.39),
    ("mediamill", "GBDTSparse"): (0.60, 3.54, 84.23, 67.85),
    ("delicious", "LEML"): (0.16, 1.18, 63.23, 58.51),
    ("delicious", "FastXML"): (0.24, 39.66, 70.14, 64.51),
    ("delicious", "GBDTSparse"): (0.13, 4.76, 69.29, 63.62),
}
PUBLISHED_1 = {
    "FastXML": (None, 1275.9, 9.12, 82.71, 67.87, 813),
    "vanilla, LEML": (100.74, 41078.76, 52.14, 84.11, 68.94, 809.39),
    "random": (4.97, 931.57, 1.08, 80.79, 50.68, 79.01),
    "pca": (99.86, 1025.03, 1.08, 83.51, 67.04, 79.23),
    "leml": (100.74, 1054.12, 1.09, 84.36, 69.49, 79.26),
}
PUBLISHED_4 = {1: 1092.60, 4: 353.07, 8: 191.22, 10: 153.53, 14: 117.49, 28: 85.36}
N_TEST = {"mediamill": 12_914, "delicious": 3_185, "eurlex": 3_809}
SYSTEMS_NAMES = {"mediamill": "Mediamill", "eurlex": "EURLex-4K"}
MISSING = "not run"


def read(name: str) -> list[dict]:
    path = RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def last(records: list[dict], **wanted: object) -> dict:
    found = [record for record in records if all(record.get(key) == value for key, value in wanted.items())]
    return found[-1] if found else {}


def show(value: object, digits: int = 2) -> str:
    return "" if value is None else f"{value:,.{digits}f}" if isinstance(value, float | int) else str(value)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def fastxml(name: str) -> dict:
    """Return FastXML's record: of the benchmark of all systems, else of bench_gbdt_prediction."""
    ours = last(read("systems"), dataset=SYSTEMS_NAMES.get(name), system="FastXML", threads=1)
    if not ours:
        return last(read("gbdt_prediction"), set=name, model="FastXML")
    found = {key: ours[key] for key in ("train_cpu_seconds", "P@1", "P@3")}
    return found | {"predict_us_per_row": 1e3 * ours["predict_ms_per_row"], "model_bytes": 1e6 * ours["model_mb"]}


def cells(record: dict, name: str) -> list[str]:
    """Return prediction seconds of the test set, megabytes, P@1 and P@3."""
    if not record:
        return [MISSING] * 4
    seconds = record["predict_us_per_row"] * N_TEST[name] / 1e6
    return [show(seconds, 3), show(record["model_bytes"] / 1e6), show(record["P@1"]), show(record["P@3"])]


def table_1() -> str:
    accuracy, vanilla = read("gbdt_accuracy"), read("gbdt_vanilla")
    leml = last(accuracy, set="eurlex", model="best settings, leml")
    rows = []
    for system, published in PUBLISHED_1.items():
        if system == "FastXML":
            ours = fastxml("eurlex")
        elif system.startswith("vanilla"):
            ours = last(vanilla, booster="vanilla")
            if ours and leml:  # the same projection
                ours = ours | {"projection_cpu_seconds": leml.get("projection_cpu_seconds")}
        else:
            ours = last(accuracy, set="eurlex", model=f"best settings, {system}")
        train = ours.get("train_cpu_seconds", ours.get("cpu_seconds"))
        found = cells(ours, "eurlex")
        reduction = show(ours.get("projection_cpu_seconds")) if system != "FastXML" else "none"
        mine = [reduction or MISSING, show(train) or MISSING, found[0], found[2], found[3], found[1]]
        title = {"FastXML": "FastXML", "vanilla, LEML": "vanilla GBDT, LEML"}.get(system, f"GBDT-SPARSE, {system}")
        if system.startswith("vanilla") and ours:
            title += f" ({ours['n_trees']} trees)"
        shown = [f"{a} ({show(b)})" if b is not None else a for a, b in zip(mine, published, strict=True)]
        rows.append([title, *shown])
    return table(["", "reduction, s", "training, s", "test set, s", "P@1", "P@3", "MB"], rows)


def table_3() -> str:
    accuracy = read("gbdt_accuracy")
    rows = []
    for (name, system), published in PUBLISHED_3.items():
        found = {system: last(accuracy, set=name, model=system)}
        if system == "FastXML":
            found = {system: fastxml(name)}
        elif system == "GBDTSparse":
            found = {f"{system}, {title}": last(accuracy, set=name, model=kind) for kind, title in KINDS.items()}
            if name == "mediamill":  # has no words
                del found[f"{system}, {KINDS[IDF]}"]
        for title, record in found.items():
            is_own = system == "GBDTSparse" and not title.endswith(PAPERS)  # settings that the paper has not
            theirs = ["–"] * 4 if is_own else [show(value) for value in published]
            rows.append([name, title, *cells(record, name), *theirs])
    head = ["", "", "s", "MB", "P@1", "P@3", "paper: s", "MB", "P@1", "P@3"]
    return table(head, rows)


PAPERS, IDF, BEST = "paper's settings", "paper's settings, idf", "best settings"
KINDS = {PAPERS: PAPERS, IDF: f"{PAPERS}, words weighted by idf", BEST: BEST}


def table_4() -> str:
    records = read("gbdt_large_tree")
    rows = []
    for kind, labels in (("all labels, as in the paper", 0), ("the 100 strongest labels of a node, the default", 64)):
        one = last(records, threads=1, split_labels=labels)
        two = last(records, threads=2, split_labels=labels)
        if one and two:
            seconds = [one["tree_wall_seconds"], two["tree_wall_seconds"]]
            peak = max(one["peak_bytes"], two["peak_bytes"]) / 1e9
            rows.append([kind, show(seconds[0]), show(seconds[1]), show(seconds[0] / seconds[1]), show(peak)])
    rows.append(["paper, Delicious-200K itself", show(PUBLISHED_4[1]), "–", "3.09 (4 threads)", "–"])
    return table(["seconds per tree", "1 thread", "2 threads", "speed-up", "GB"], rows)


def table_vanilla() -> str:
    """The last vanilla run and the sparse ones that were compared with it."""
    records = read("gbdt_vanilla")
    first = max((i for i, record in enumerate(records) if record["booster"] == "vanilla"), default=len(records))
    rows = []
    for record in records[first:]:
        title = "vanilla" if record["booster"] == "vanilla" else f"sparse, k = {record['leaf_top_k']}"
        ratio = records[first]["cpu_seconds"] / record["cpu_seconds"]
        row = [title, str(record["n_trees"]), show(record["cpu_seconds"]), f"{show(ratio, 1)}×"]
        rows.append([*row, show(record["P@1"]), show(record["P@3"]), show(record["model_bytes"] / 1e6)])
    return table(["", "trees", "training, s", "faster", "P@1", "P@3", "MB"], rows or [[MISSING] * 7])


def table_xgboost() -> str:
    rows = []
    for name in ("mediamill", "delicious"):
        for system, title in (("longtail", "GBDTSparse"), ("xgboost", "XGBoost")):
            ours = last(read("gbdt_xgboost"), question="gbdt against xgboost", set=name, system=system)
            if system == "xgboost" and ours:
                title += f", {ours['max_bin']} bins"
            rows.append([name, title, str(ours.get("trees", MISSING)), *outcome(ours)])
    return table(["", "", "trees", "training, s", "peak, GB", "model, MB", "P@1", "P@3"], rows)


def table_labels() -> str:
    records = [record for record in read("gbdt_xgboost") if record["question"] == "gbdt memory as labels grow"]
    rows = []
    for n_labels in sorted({record["n_labels"] for record in records}):
        row = [f"{n_labels:,}"]
        for system in ("longtail", "xgboost"):
            row += outcome(last(records, n_labels=n_labels, system=system))[:3]
        rows.append(row)
    head = ["labels", "ours: s", "peak, GB", "model, MB", "XGBoost: s", "peak, GB", "model, MB"]
    return table(head, rows or [[MISSING] * 7])


def outcome(record: dict) -> list[str]:
    """Return training seconds, peak gigabytes, model megabytes, P@1, P@3; or why there are none."""
    if not record:
        return [MISSING] * 5
    peak = show(record["peak_bytes"] / 1e9) if "peak_bytes" in record else "–"
    if "stopped" in record:
        grown = f", {record['trees_grown']} trees grown" if "trees_grown" in record else ""
        return [f"stopped: {record['stopped']}{grown}", peak, "–", "–", "–"]
    size = show(record["model_bytes"] / 1e6)
    return [show(record["train_wall_seconds"]), peak, size, show(record["P@1"]), show(record["P@3"])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    made = {"1": table_1(), "3": table_3(), "4": table_4()}
    made |= {"vanilla": table_vanilla(), "xgboost": table_xgboost(), "labels": table_labels()}
    if not options.write and not options.check:
        print("\n\n".join(made.values()))
        return
    old = page = PAGE.read_text(encoding="utf-8")
    for number, text in made.items():
        pattern = rf"(<!-- table {number} -->\n).*?\n?(<!-- end -->)"
        page = re.sub(pattern, lambda m, text=text: m[1] + text + "\n" + m[2], page, flags=re.DOTALL)
    if options.write:
        PAGE.write_text(page, encoding="utf-8")
    elif page != old:
        sys.exit(f"{PAGE} is out of date: run {Path(__file__).name} --write and commit it")


if __name__ == "__main__":
    main()
