"""Write the tables of docs/results/fastxml.md and pfastrexml.md from benchmarks/results: the last line of a run counts.

python benchmarks/write_fastxml_tables.py           write them between the marks of the pages
python benchmarks/write_fastxml_tables.py --check   exit with 1 if a page is out of date
"""

import argparse
import json
import re
import statistics
import sys
from pathlib import Path

from bench_fastxml_seeds import MEASURES, ORIGINALS

RESULTS = Path(__file__).resolve().parent / "results"
PAGES = Path(__file__).resolve().parent.parent / "docs" / "results"
NAMES = {"eurlex": "EURLex-4K", "bibtex": "Bibtex", "delicious": "Delicious", "mediamill": "Mediamill"}
# Table 2 and Table 7 of the FastXML paper (KDD 2014): means over random splits.
PUBLISHED = {
    "bibtex": "63.26 / 39.19 / 28.72",
    "delicious": "69.65 / 63.93 / 59.36",
    "mediamill": "87.35 / 72.14 / 58.15",
}
PUBLISHED_LOSSES = {
    "nDCG@L": {name: PUBLISHED[name] for name in ("bibtex", "delicious")},
    "nDCG@5": {"bibtex": "51.75 / 30.87 / 22.70", "delicious": "64.96 / 59.28 / 54.70"},
    "precision@5": {"bibtex": "39.95 / 23.01 / 17.42", "delicious": "60.11 / 53.97 / 49.81"},
}


def read(name: str) -> list[dict]:
    return [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def last(records: list[dict], **wanted: object) -> dict:
    return [record for record in records if all(record.get(key) == value for key, value in wanted.items())][-1]


def measures(record: dict, name: str = "P") -> str:
    """Join the values at 1, 3 and 5 that the record has."""
    return " / ".join(f"{record[f'{name}@{k}']:.2f}" for k in (1, 3, 5) if record.get(f"{name}@{k}") is not None)


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def accuracy() -> str:
    runs = {
        (record["dataset"], str(record["params"])): record for record in accuracies() if is_system(record, "FastXML")
    }
    rows = []
    for (dataset, _), record in sorted(runs.items(), key=lambda item: list(NAMES).index(item[0][0])):
        published = PUBLISHED.get(dataset, "–")
        rows.append([title(record), measures(record), measures(record.get("original", {})) or "–", published])
    return table(["P@1 / 3 / 5", "longtail", "original code", "KDD 2014, Table 2"], rows)


def seeds() -> str:
    rows = []
    for (system, dataset), theirs in ORIGINALS.items():
        records = [record for record in read("fastxml_seeds") if record["dataset"] == dataset]
        found = [record for record in records if record.get("system", "FastXML") == system]
        if len(found) < 2:
            continue
        forests = [statistics.fmean(record["forest"][at] for record in found) for at in range(3)]
        has_trees = all("tree" in record for record in found)
        trees = [statistics.fmean(record["tree"][at] for record in found) for at in range(3)] if has_trees else None
        spread = statistics.stdev(record["forest"][0] for record in found)
        weights = statistics.fmean(record["weights"] for record in found)
        name = f"{system}, {NAMES[dataset]}" + (", PSP" if MEASURES[system] == "PSP" else "")
        rows.append([f"{name}, {len(found)} seeds", shown(forests), f"{spread:.2f}", shown(trees), f"{weights:.1f}"])
        their_weights = f"{theirs['weights']:.1f}" if "weights" in theirs else "–"
        rows.append(["original program", shown(theirs["forest"]), "", shown(theirs.get("tree")), their_weights])
    return table(["P@1 / 3 / 5", "50 trees", "sd of the first", "one tree", "weights per split"], rows)


def shown(values: tuple[float, ...] | list[float] | None) -> str:
    return "–" if values is None else " / ".join(f"{value:.2f}" for value in values)


def accuracies() -> list[dict]:
    return [record for record in read("fastxml_accuracy") if record["question"] == "accuracy"]


def is_system(record: dict, *systems: str) -> bool:
    return record["system"] in systems


def title(record: dict) -> str:
    """Name the data set; EURLex-4K with what was done to its rows."""
    name = NAMES[record["dataset"]]
    if record["dataset"] != "eurlex":
        return name
    return f"{name}, " + ("unit rows" if record["params"].get("unit_rows") else "rows as in the file")


def losses() -> str:
    records = [record for record in read("fastxml_accuracy") if record["question"] == "losses in the split"]
    rows = []
    for loss, published in PUBLISHED_LOSSES.items():
        found = {
            name: measures(last(records, dataset=name, variant=loss)) for name in ("bibtex", "delicious", "mediamill")
        }
        theirs = [published["bibtex"], published["delicious"]]
        rows.append([loss, found["bibtex"], theirs[0], found["delicious"], theirs[1], found["mediamill"]])
    return table(["P@1 / 3 / 5", "Bibtex", "KDD 2014", "Delicious", "KDD 2014", "Mediamill"], rows)


def settings() -> str:
    records = read("fastxml_settings")
    rows = []
    for record in records:
        if record["params"].get("max_passes") != 1 or "max_newton" in record["params"]:
            continue
        default = {key: value for key, value in record["params"].items() if key != "max_passes"}
        other = last(records, dataset=record["dataset"], system=record["system"], params=default)
        gains = []
        for k in (1, 3, 5):
            error = record["standard_error"].get(f"P@{k}")
            has_error = error is not None and record["splits"] * record["seeds"] > 1
            gains.append(f"{record['gain'][f'P@{k}']:.2f}" + (f" ± {error:.2f}" if has_error else ""))
        name = title(record) + (", PfastXML" if is_system(record, "PfastXML") else "")
        n_models = str(record["splits"] * record["seeds"])
        rows.append([name, n_models, measures(other), measures(record), " / ".join(gains)])
    return table(["P@1 / 3 / 5", "models", "default", "`max_passes=1`", "gain ± standard error"], rows)


def speed() -> str:
    rows = []
    for dataset, unit_rows in (("eurlex", True), ("mediamill", False)):
        for threads in (1, 2):
            record = last(read("fastxml_training"), dataset=dataset, unit_rows=unit_rows, threads=threads)
            least, greatest = record["wall_seconds_min"], record["wall_seconds_max"]
            seconds = f"{record['wall_seconds']:.1f} ({least:.1f}–{greatest:.1f})"
            rows.append([NAMES[dataset], str(threads), seconds, f"{record['model_bytes'] / 1e6:.0f}"])
    return table(["50 trees", "threads", "training, s", "model, MB"], rows)


def beside_parabel() -> str:
    if not (RESULTS / "fastxml_parabel.jsonl").exists():
        return "Not measured yet: `python benchmarks/bench_fastxml_parabel.py --save`."
    rows = []
    for system in ("FastXML", "parabel"):
        runs = [record for record in read("fastxml_parabel") if record["system"] == system and "failed" not in record]
        seconds = sorted(run["train_cpu_seconds"] for run in runs)
        spread = f"{statistics.median(seconds):.1f} ({seconds[0]:.1f}–{seconds[-1]:.1f})"
        rows.append([runs[0]["title"], spread, f"{runs[0]['peak_memory_mb']:.0f}", measures(runs[0])])
    return table(["EURLex-4K, one thread", "training, CPU s", "peak memory, MB", "P@1 / 3 / 5"], rows)


def scaling() -> str:
    rows = []
    for record in read("fastxml_scaling"):
        cells = [f"{record['cpu_seconds']:.3g}", f"{record['ns_per_row_level'] / 1e3:.1f}"]
        rows.append([f"{record['n_rows']:,}", *cells, f"{record['peak_growth_bytes'] / 1e6:,.0f}"])
    return table(["rows", "CPU seconds per tree", "µs per row and level", "memory above the data, MB"], rows)


def tail_accuracy() -> str:
    rows = []
    for dataset in NAMES:
        runs = [r for r in accuracies() if is_system(r, "PfastXML", "PfastreXML") and r["dataset"] == dataset]
        for record in runs:
            name = f"{title(record)}: {record['system']}"
            if "alpha" in record["params"]:
                name += f", α = {record['params']['alpha']:g}, γ = {record['params']['gamma']:g}"
            original = record.get("original", {})
            theirs = f"{measures(original)} · {measures(original, 'PSP')}" if original else "–"
            rows.append([name, f"{measures(record)} · {measures(record, 'PSP')}", theirs])
    return table(["P@1 / 3 / 5 · PSP@1 / 3 / 5", "longtail", "original code"], rows)


def missing_scores() -> str:
    rows = []
    for record in read("missing_labels"):
        scored = f"{record['scored_gain@3']:.2f} ± {record['scored_standard_error']:.2f}"
        rows.append([f"{record['a']:g}", f"{record['missing_percent']:.0f} %", f"{record['plain_gain@3']:.2f}", scored])
    return table(["A", "labels missing", "plain", "propensity-scored ± standard error"], rows)


def missing_training() -> str:
    rows = []
    for record in read("missing_labels"):
        a = f"{record['a']:g}"
        own = record[f"PfastXML A={a} nDCG@3"]
        rows.append([a, f"{record['FastXML nDCG@3']:.2f}", f"{own:.2f}"])
    return table(["A", "FastXML", "PfastXML"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    made = {
        "fastxml.md": (accuracy, seeds, losses, settings, speed, beside_parabel, scaling),
        "pfastrexml.md": (tail_accuracy, missing_scores, missing_training),
    }
    for page, tables in made.items():
        path = PAGES / page
        old = text = path.read_text(encoding="utf-8")
        for make in tables:
            pattern = rf"(<!-- {make.__name__} -->\n).*?(<!-- end -->)"
            text = re.sub(pattern, lambda m, make=make: f"{m[1]}\n{make()}\n\n{m[2]}", text, flags=re.DOTALL)
        if not options.check:
            path.write_text(text, encoding="utf-8")
        elif text != old:
            sys.exit(f"{path} is out of date: run {Path(__file__).name} and commit it")


if __name__ == "__main__":
    main()
