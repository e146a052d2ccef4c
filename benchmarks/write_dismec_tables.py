"""Write the tables of docs/results/dismec.md from benchmarks/results/dismec_*.jsonl: the last line of each run counts.

python benchmarks/write_dismec_tables.py           write them between the page's marks
python benchmarks/write_dismec_tables.py --check   exit with 1 if the page is out of date
"""

import argparse
import json
import re
import sys
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "dismec.md"
NAMES = {"bibtex": "Bibtex", "delicious": "Delicious", "mediamill": "Mediamill", "eurlex": "EURLex-4K"}
NAMES["wnwords"] = "wnwords"
# Measured or published elsewhere; docs/benchmarks.md has the peers that are run beside ours.
REFERENCES = {
    "bibtex": "64.06 / 38.70 / 28.01 · 50.17",
    "delicious": "67.28 / – / – · 33.08",
    "mediamill": "81.60 / 65.54 / 51.49 · 60.26",
    "eurlex": "83.70 / 70.69 / 59.06 · 37.65",
}
STARTS = ("zero", "bias", "ovap", "ovap++", "msi")


def read(name: str, *keys: str) -> dict[tuple[object, ...], dict]:
    """Read the results of one question, the last line for each combination of keys."""
    path = RESULTS / f"dismec_{name}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {tuple(record.get(key) for key in keys): record for record in map(json.loads, lines)}


def accuracy() -> list[str]:
    found = read("accuracy", "dataset", "variant")
    out = [
        "| P@1 / 3 / 5 · PSP@1 | default | int8 | propensity | unbiased | the paper's code, msi |",
        "|---|---|---|---|---|---|",
    ]
    for dataset, name in NAMES.items():
        cells = []
        for variant in ("default", "int8", "propensity", "unbiased"):
            record = found.get((dataset, variant))
            precisions = record and " / ".join(f"{record[f'P@{k}']:.2f}" for k in (1, 3, 5))
            cells.append(f"{precisions} · {record['PSP@1']:.2f}" if record else "–")
        if any(cell != "–" for cell in cells):
            out.append(f"| {name} | {' | '.join(cells)} | {REFERENCES.get(dataset, '–')} |")
    return out


def int8() -> list[str]:
    out = [
        "| int8 minus float32 | P@1 | P@3 | P@5 | rows with another first label | size | training | prediction |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (dataset,), record in read("int8", "dataset").items():
        cells = [f"{record[f'P@{k}']:+.3f} ± {record[f'P@{k}_error']:.3f}" for k in (1, 3, 5)]
        cells.append(f"{100 * record['other_first_label']:.2f} %")
        for what in ("model_bytes", "train_seconds", "predict_seconds"):
            cells.append(f"{record[f'{what} int8'] / record[f'{what} float32']:.2f} ×")
        out.append(f"| {NAMES[dataset]} | {' | '.join(cells)} |")
    return out


def dense() -> list[str]:
    out = [
        "| dense rows | rows × features, labels | loss | CPU seconds | ms per label | above the minimum | LIBLINEAR |",
        "|---|---|---|---|---|---|---|",
    ]
    for (dataset, loss), record in read("dense", "dataset", "loss").items():
        size = f"{record['n_rows']:,} × {record['n_features']:,}, {record['n_labels']:,}"
        gaps = [record.get(name) for name in ("above_liblinear_max", "same_rule_difference_max")]
        cells = [size, loss, f"{record['cpu_seconds']:.2f}", f"{record['ms_per_label']:.1f}"]
        cells += ["–" if worst is None else f"at most {worst:.1e}" for worst in gaps]
        out.append(f"| {NAMES.get(str(dataset), dataset)} | {' | '.join(cells)} |")
    return out


def statistics() -> list[str]:
    return [
        f"- {NAMES[str(dataset)]}, {record['n_trained']:,} labels: {record['ratio']:.2f} times the CPU time without."
        for (dataset,), record in read("statistics", "dataset").items()
    ]


def estimates() -> list[str]:
    out = [
        "| estimated ÷ measured | rows | features | labels | CPU time | peak memory | model size | probe, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (dataset,), record in read("estimate", "dataset").items():
        cells = [f"{record[name]:,}" for name in ("n_rows", "n_features", "n_labels")]
        cells += [f"{record[f'{name}_told_to_taken']:.2f}" for name in ("time", "memory", "model")]
        out.append(f"| {NAMES.get(str(dataset), dataset)} | {' | '.join(cells)} | {record['probe_seconds']:.1f} |")
    return out


def starts() -> list[str]:
    found = read("starts", "dataset", "solver", "start", "loss", "every")
    out = ["| CPU seconds | solver | " + " | ".join(STARTS) + " | zero : msi |", "|---|---|" + "---|" * 6]
    for dataset, solver, loss, every in dict.fromkeys((key[0], key[1], key[3], key[4]) for key in found):
        row = [found.get((dataset, solver, start, loss, every)) for start in STARTS]
        if loss != "squared_hinge":
            continue
        cells = [f"{record['cpu_seconds']:.3g}" if record else "–" for record in row]
        ratio = f"{row[0]['cpu_seconds'] / row[-1]['cpu_seconds']:.1f}" if row[0] and row[-1] else "–"
        n_labels = next(record["n_labels"] for record in row if record)
        sample = f", {n_labels:,} of its labels" if every > 1 else f", {n_labels:,} labels"
        out.append(f"| {NAMES[dataset]}{sample} | {solver} | {' | '.join(cells)} | {ratio} |")
    return out


def speed() -> list[str]:
    out = []
    for (system, dataset, threads), record in read("training", "system", "dataset", "threads").items():
        seconds = record.get("wall_seconds", record.get("train_wall_seconds"))
        out.append(f"| {system} | {NAMES[dataset]} | {threads} | {seconds:.1f} | {record['P@1']:.2f} |")
    if out:
        out = ["| training | data | threads | wall seconds | P@1 |", "|---|---|---|---|---|", *out, ""]
    predictions = []
    found = read("prediction", "system", "weight_type", "dataset", "threads")
    for (system, weights, dataset, threads), record in found.items():
        is_ours = system == "DiSMEC"
        batch = record["ms_a_row_batch" if is_ours else "predict_ms_per_row"]
        single = record["ms_a_row_single" if is_ours else "predict_ms_single_row"]
        name = f"{system}, {weights}" if is_ours else system
        predictions.append(f"| {name} | {NAMES[dataset]} | {threads} | {batch:.3f} | {single:.3f} |")
    if predictions:
        out += ["| prediction | data | threads | ms per row, batch | ms per row, one by one |", "|---|---|---|---|---|"]
        out += [*predictions, ""]
    scaling = [
        f"| {n_labels:,} | {threads} | {record['wall_seconds']:.1f} | {record['wall_milliseconds_a_label']:.2f} "
        f"| {record['model_bytes'] / 1e6:.0f} | {_megabytes(record.get('peak_growth_bytes'))} |"
        for (n_labels, threads), record in read("scaling", "n_labels", "threads").items()
    ]
    if scaling:
        head = "| synthetic labels | threads | wall seconds | ms per label | model MB | peak MB above the data |"
        out += [head, "|---|---|---|---|---|---|", *scaling, ""]
    for (dataset,), record in read("bandwidth", "dataset").items():
        out += [
            f"The pass over {NAMES[dataset]} for 64 labels takes {record['pass_64_bfloat16_ms']:.1f} ms. It reads X at "
            f"{record['x_gb_s']:.1f} GB/s and weights at {record['weights_gb_s']:.0f} GB/s, where a copy of 64 MB "
            f"reads and writes {record['copy_gb_s']:.0f} GB/s. With all weights in the first-level cache it would take "
            f"{record['pass_64_in_first_cache_ms']:.1f} ms, so it is bound by instructions, not by memory.",
        ]
    return out


def costs() -> list[str]:
    """Training time by cost and loss, as a ratio to the default, and objectives beside LIBLINEAR's."""
    values = ("0.1", "0.3", "1.0", "3.0", "10.0")
    out = [f"| time, default = 1 | loss | {' | '.join(f'cost={value}' for value in values)} |", "|---" * 7 + "|"]
    ratios: dict[tuple[str, str], dict[str, float]] = {}
    above: dict[str, list[float]] = {}
    same_rule: list[float] = []
    for record in read("cliffs", "dataset", "loss", "cost", "label_id").values():
        if "ratio_to_default" in record:
            key = (record["dataset"], record["loss"])
            ratios.setdefault(key, {})[str(record["cost"])] = record["ratio_to_default"]
        else:
            above.setdefault(NAMES[record["dataset"]], []).append(record["relative_difference"])
            same_rule.append(record.get("same_rule_difference", 0.0))
    for (dataset, loss), found in ratios.items():
        cells = " | ".join(f"{found[value]:.1f}" if value in found else "–" for value in values)
        out.append(f"| {NAMES[dataset]} | {loss} | {cells} |")
    worst = ", ".join(f"{max(found):.1e} on {name}" for name, found in above.items())
    out += ["", f"The objective of a sampled label is above LIBLINEAR's minimum by at most {worst}, as a share of it."]
    return [*out, f"LIBLINEAR itself, stopped by the same rule, is above it by up to {max(same_rule):.1e}."]


def short_rows() -> list[str]:
    """Training of labels of short rows."""
    out = []
    for (dataset, _), record in read("short_rows", "dataset", "question").items():
        if "ms_per_label" in record:
            out.append(
                f"{record['n_trained']:,} of the {record['n_labels']:,} labels of {dataset}, one thread: "
                f"{record['ms_per_label']:.2f} CPU ms per label, {record['ms_per_further_label']:.2f} without what is "
                f"done once for all labels ({record['once_cpu_seconds']:.1f} s); "
                f"{record['peak_memory_mb'] / 1000:.2f} GB at most, with the data; "
                f"{record['n_unconverged']} labels did not converge."
            )
    return out or ["Not measured yet."]


def _megabytes(size: int | None) -> str:
    return "–" if size is None else f"{size / 1e6:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    old = text = PAGE.read_text(encoding="utf-8")
    sections = {"accuracy": accuracy, "int8": int8, "starts": starts, "speed": speed, "dense": dense}
    sections |= {"statistics": statistics, "estimates": estimates, "costs": costs, "short rows": short_rows}
    for name, write in sections.items():
        lines = write()
        pattern = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
        body = "\n".join(lines).rstrip()
        text = pattern.sub(lambda _, n=name, b=body: f"<!-- {n} -->\n\n{b}\n\n<!-- /{n} -->", text)
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif text != old:
        sys.exit(f"{PAGE} is out of date: run {Path(__file__).name} and commit it")


if __name__ == "__main__":
    main()
