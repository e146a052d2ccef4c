"""Write the tables of docs/results/tagger.md and docs/serve.md from benchmarks/results.

python benchmarks/write_tagger_tables.py           write them between the marks of the pages
python benchmarks/write_tagger_tables.py --check   exit with 1 if a page is out of date
"""

from page_tables import Table, last, main, markdown

_TITLES = {"bibtex": "Bibtex", "debtags": "debtags", "eurlex": "EURLex-4K"}


def speed() -> str:
    lines = last("tagging", "question", "system", "threads", "max_ngram")
    ours, theirs = ("longtail DiSMEC", 1, None), ("omikuji as in Annif", 1, None)
    fastest, others = (lines["throughput", *key]["texts_per_second"] for key in (ours, theirs))
    single = [lines["latency", *key] for key in (ours, theirs)]
    vectorizers = [lines["vectorize", name, 1, 1] for name in ("longtail", "scikit-learn")]
    return markdown(
        ["", "longtail", "omikuji on scikit-learn's tf-idf, as in Annif"],
        [
            ["texts per second", f"{fastest:,}", f"{others:,}"],
            ["texts per second, only the vectors", *(f"{v['n_texts'] / v['wall_seconds']:,.0f}" for v in vectorizers)],
            [
                "one text, ms (p50 / p99)",
                *(f"{line['p50_milliseconds']:.2f} / {line['p99_milliseconds']:.2f}" for line in single),
            ],
        ],
    )


def calibration() -> str:
    lines = last("calibration", "part", "labels_a_text", "measure")
    best = max((line for key, line in lines.items() if key[0] == "fixed"), key=lambda line: line["micro_f1"])
    rows = [(f"the best fixed number: {best['labels_a_text']}", best)]
    for (part, _, measure), line in lines.items():
        if part == "auto":
            floor = "" if line["floor"] is None else f", floor={line['floor']}"
            rows.append((f'`"auto"`, `measure="{measure}"{floor}`', line))
    return markdown(
        ["labels per text chosen by", "micro-F1", "macro-F1", "precision", "labels per text"],
        [
            [
                title,
                *(f"{line[name]:.3f}" for name in ("micro_f1", "macro_f1", "precision")),
                f"{line['mean_labels']:.1f}",
            ]
            for title, line in rows
        ],
    )


def autotune() -> str:
    rows = []
    for (dataset,), line in last("autotune", "dataset").items():
        title, found = _TITLES[dataset], line["best_params"]
        names = ("P@1", "P@5", "PSP@5")
        if line["is_better"]:
            rows.append([f"{title}, defaults", "", "", "", *(f"{line['test_default'][name]:.2f}" for name in names)])
        shown = ", ".join(f"`{name}={value!r}`" for name, value in found.items()) or "none: the defaults stay"
        minutes, n_trials = f"{line['cpu_seconds'] / 60:.1f} of {line['minutes']:g}", line["n_trials"]
        measured = [f"{line['test_best'][name]:.2f}" if line["is_better"] else "" for name in names]
        rows.append([title, minutes, f"{n_trials} ({line['n_whole_trials']})", shown, *measured])
    return markdown(["data", "CPU minutes", "trials (on all rows)", "parameters found", "P@1", "P@5", "PSP@5"], rows)


def serving() -> str:
    lines = last("serving", "system", "part", "n_workers")
    ours, theirs = "longtail", "scikit-learn"

    def start(system: str) -> str:
        return f"{lines[system, 'start', None]['first_answer_seconds']:.2f} s"

    def latency(system: str) -> str:
        line = lines[system, "latency", None]
        return f"{line['client_p50_ms']:.3g} / {line['client_p99_ms']:.3g} ms"

    def load(system: str, n_workers: int) -> str:
        line = lines.get((system, "load", n_workers))
        if line is None:
            return "not measured"
        return f"{line['requests_per_second']:,.4g} requests/s, p99 {line['client_p99_ms']:,.0f} ms"

    def memory(n_workers: int) -> str:
        line = lines[ours, "memory", n_workers]
        return f"{line['pss_mb']:.0f} MB, {line['mapped_model_pss_mb']:.0f} MB of it the model"

    rows = [
        ["start to first answer", start(ours), start(theirs)],
        ["one client, p50 / p99", latency(ours), latency(theirs)],
        *([f"64 connections, workers: {n}", load(ours, n), load(theirs, n)] for n in (1, 2)),
        *([f"memory of all processes, workers: {n}", memory(n), "not measured"] for n in (1, 4)),
    ]
    return markdown(["", "longtail", "scikit-learn (tf-idf, one linear SVM per label), FastAPI"], rows, n_texts=3)


if __name__ == "__main__":
    main(
        __doc__,
        [
            Table("results/tagger.md", "speed", speed()),
            Table("results/tagger.md", "calibration", calibration()),
            Table("results/tagger.md", "autotune", autotune()),
            Table("serve.md", "serving", serving()),
        ],
    )
