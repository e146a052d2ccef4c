"""Write the tables of docs/results/baselines.md from benchmarks/results: the last line of a run counts.

Baselines are in baselines.jsonl, the choice of their settings in baseline_settings.jsonl, random splits in
random_splits.jsonl, the other estimators in systems.jsonl (`longtail bench`).

python benchmarks/write_baseline_tables.py           write them between the marks of the page
python benchmarks/write_baseline_tables.py --check   exit with 1 if the page is out of date
"""

import argparse
import json
import re
import sys
import tomllib
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "results" / "baselines.md"
SYSTEMS = ("LEML", "CPLST", "CS", "MLCSSP", "LPSR", "LPSRNB", "WSABIE", "SLEEC", "PDSparse", "MLRF", "MLRFnDCG")
# The other estimators, with their names in published.toml.
OTHERS = {
    "Popularity": (),
    "DiSMEC": ("DiSMEC", "1-vs-All"),
    "FastXML": ("FastXML",),
    "PfastXML": (),
    "PfastreXML": ("PfastreXML",),
    "GBDTSparse": ("GBDT-SPARSE",),
    "LabelTree": ("Bonsai",),
}
SETS = {"eurlex": "EURLex-4K", "bibtex": "Bibtex", "delicious": "Delicious", "mediamill": "Mediamill"}
# The Extreme Classification Repository (the EURLex-4K rows corrected for a shift on its page, partly by inference) and
# PfastreXML, Table 3 (PSP); MLRF: FastXML, Tables 2 and 7 (random splits); Mediamill: GBDT-SPARSE, Table 3 (P@1, P@3),
# MLRF and LPSR from the FastXML tables.
PUBLISHED = {
    ("eurlex", "LEML"): "63.40 / 50.35 / 41.28 · 24.33 / 27.22 / 29.13",
    ("bibtex", "LEML"): "62.54 / 38.41 / 28.21",
    ("delicious", "LEML"): "65.67 / 60.55 / 56.08",
    ("mediamill", "LEML"): "82.83 / 66.29",
    ("eurlex", "LPSR"): "76.37 / 63.36 / 52.03 · 33.65 / 39.88 / 42.17",
    ("eurlex", "SLEEC"): "79.26 / 64.30 / 52.33 · 35.45 / 41.35 / 44.62",
    ("eurlex", "WSABIE"): "68.55 / 55.11 / 45.12 · 31.65 / 35.04 / 36.99",
    ("eurlex", "CPLST"): "72.28 / 58.16 / 47.73 · 28.93 / 32.57 / 34.55",
    ("eurlex", "CS"): "58.52 / 45.51 / 32.47 · 25.31 / 27.57 / 25.13",
    ("eurlex", "MLCSSP"): "62.09 / 48.39 / 40.11 · 25.25 / 27.27 / 28.97",
    ("eurlex", "PDSparse"): "76.43 / 60.37 / 49.72",
    ("bibtex", "LPSR"): "62.11 / 36.65 / 26.53",
    ("bibtex", "SLEEC"): "65.08 / 39.64 / 28.87",
    ("bibtex", "WSABIE"): "54.78 / 32.39 / 23.98",
    ("bibtex", "CPLST"): "62.38 / 37.84 / 27.62",
    ("bibtex", "CS"): "58.87 / 33.53 / 23.72",
    ("bibtex", "MLCSSP"): "44.98 / 30.43 / 23.53",
    ("bibtex", "PDSparse"): "61.29 / 35.82 / 25.74",
    ("bibtex", "MLRF"): "62.81 / 38.74 / 28.45",
    ("bibtex", "MLRFnDCG"): "58.41 / 36.45 / 26.95",
    ("delicious", "LPSR"): "65.01 / 58.96 / 53.49",
    ("delicious", "SLEEC"): "67.59 / 61.38 / 56.56",
    ("delicious", "WSABIE"): "64.13 / 58.13 / 53.64",
    ("delicious", "CPLST"): "65.31 / 59.95 / 55.31",
    ("delicious", "CS"): "61.36 / 56.46 / 52.07",
    ("delicious", "MLCSSP"): "63.04 / 56.26 / 50.16",
    ("delicious", "PDSparse"): "51.82 / 44.18 / 38.95",
    ("delicious", "MLRF"): "67.86 / 62.02 / 57.59",
    ("delicious", "MLRFnDCG"): "66.70 / 61.08 / 56.72",
    ("mediamill", "SLEEC"): "85.02 / 68.40",
    ("mediamill", "PDSparse"): "82.99 / 62.32",
    ("mediamill", "LPSR"): "82.33 / 66.37 / 50.00 (random splits)",
    ("mediamill", "MLRF"): "86.83 / 71.18 / 57.09 (random splits)",
    ("mediamill", "MLRFnDCG"): "86.67 / 71.13 / 57.24 (random splits)",
}
HEAD = ["P@1 / 3 / 5 · PSP@1 / 3 / 5", "longtail", "published", "training, CPU s", "model, MB"]


def measures(record: dict) -> str:
    return " · ".join(precisions(record, name) for name in ("P", "PSP"))


def precisions(record: dict, name: str = "P") -> str:
    return " / ".join(f"{record[f'{name}@{k}']:.2f}" for k in (1, 3, 5))


def table(dataset: str) -> str:
    runs = baselines(dataset)
    rows = []
    for system in SYSTEMS:
        if system in runs:
            run = runs[system]
            size = f"{run['model_bytes'] / 1e6:.3g}"
            cells = [measures(run), PUBLISHED.get((dataset, system), "–"), f"{run['train_cpu_seconds']:.3g}", size]
        else:
            cells = ["not measured", PUBLISHED.get((dataset, system), "–"), "–", "–"]
        rows.append([f"`{system}`", *cells])
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def summary() -> str:
    """One row per estimator, one column per data set: P@1, 3, 5, and below it what is published."""
    with (Path(__file__).resolve().parent / "published.toml").open("rb") as file:
        known = tomllib.load(file)
    lines = ["| P@1 / 3 / 5, ours; *published* | " + " | ".join(SETS.values()) + " |", "|---|" + "---|" * len(SETS)]
    for system in (*OTHERS, *SYSTEMS):
        cells = []
        for dataset, title in SETS.items():
            run = (others(title) | baselines(dataset)).get(system)
            ours = "not measured" if run is None else measures(run).partition(" · ")[0]
            theirs = PUBLISHED.get((dataset, system), "").partition(" · ")[0].partition(" (")[0]
            for entry in known[title]:
                if entry["system"] in OTHERS.get(system, ()):
                    theirs = " / ".join(f"{value:.2f}" for value in entry["P"])
                    if "repository" in entry["source"]:
                        break
            cells.append(ours + (f"; *{theirs}*" if theirs else ""))
        lines.append(f"| `{system}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def choices() -> str:
    """One row per system and data set: every setting that was tried, with its score on held-out training rows."""
    tried: dict[tuple[str, str], dict[str, float]] = {}
    for record in read("baseline_settings"):
        setting = ", ".join(f"{name} = {value:g}" for name, value in record["params"].items())
        tried.setdefault((record["system"], SETS[record["dataset"]]), {})[setting] = record["mean"]
    lines = ["| | data set | mean of P@1, 3 and 5 on a held-out fifth of the training rows |", "|---|---|---|"]
    for (system, title), scores in sorted(tried.items()):
        best = max(scores.values())
        cells = [
            f"**{mean:.1f}** ({name})" if mean == best else f"{mean:.1f} ({name})" for name, mean in scores.items()
        ]
        lines.append(f"| `{system}` | {title} | {', '.join(cells)} |")
    return "\n".join(lines)


def splits() -> str:
    """One row per data set and system: the split of the files, a random one, and the paper's mean over random ones."""
    paper = {  # FastXML, Table 2
        ("delicious", "FastXML"): "69.65 / 63.93 / 59.36",
        ("delicious", "MLRF"): PUBLISHED["delicious", "MLRF"],
        ("mediamill", "FastXML"): "87.35 / 72.14 / 58.15",
        ("mediamill", "FastXML, standardised"): "87.35 / 72.14 / 58.15",
        ("mediamill", "MLRF"): PUBLISHED["mediamill", "MLRF"].partition(" (")[0],
    }
    found = {(record["dataset"], record["system"]): record for record in read("random_splits")}
    lines = ["| P@1 / 3 / 5 | split of the files | random split | paper, random splits |", "|---|---|---|---|"]
    for (dataset, system), theirs in paper.items():
        ours = (others(SETS[dataset]) | baselines(dataset)).get(system)
        cells = ["–" if ours is None else precisions(ours), precisions(found[dataset, system]), theirs]
        lines.append(f"| {SETS[dataset]}, {system} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def baselines(dataset: str) -> dict[str, dict]:
    return {record["system"]: record for record in read("baselines") if record["dataset"] == dataset}


def others(title: str) -> dict[str, dict]:
    """Return the last run of each of our systems on a data set of `longtail bench`."""
    runs = [record for record in read("systems") if record["dataset"] == title and record.get("ours")]
    return {record["system"]: record for record in runs if "P@5" in record}


def read(name: str) -> list[dict]:
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    old = text = PAGE.read_text(encoding="utf-8")
    for mark, made in {"all": summary(), "settings": choices(), "splits": splits()}.items() | {
        dataset: table(dataset) for dataset in SETS
    }.items():
        pattern = rf"(<!-- {mark} -->\n).*?(<!-- end -->)"
        text = re.sub(pattern, lambda m, made=made: f"{m[1]}\n{made}\n\n{m[2]}", text, flags=re.DOTALL)
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif text != old:
        sys.exit(f"{PAGE} is out of date: run {Path(__file__).name} and commit it")


if __name__ == "__main__":
    main()
