"""Through Annif: how do the longtail, omikuji and svc backends compare in quality and time?

Trains one Annif project per backend on the shipped sample (Debian packages, 583 labels), all with the analyzer
`snowball(english)` and Annif's defaults, suggests for the test texts and evaluates with `annif eval`. The environment
is the one that `make clients-test` makes; omikuji and the data of NLTK's tokenizer, which the other backends need, come
on top:

    .venv-clients/annif/bin/pip install 'annif[omikuji]' && NLTK_DATA=folder python benchmarks/bench_annif.py

Without access to NLTK's server, the folder can be cut from a package that carries it: `pip download --no-deps
llama-index-core`, unzip the wheel, and take llama_index/core/_static/nltk_cache.

Seconds are those of Annif's `project.train` and of suggesting for all test documents in Annif's batches of 32; each
backend runs in a process of its own, with one job.
"""

import json
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from measure import emit, make_parser

import longtail as lt

HERE = Path(__file__).resolve().parent
BACKENDS = ("longtail", "omikuji", "svc")
PROJECT = "[{0}]\nname={0}\nlanguage=en\nbackend={0}\nanalyzer=snowball(english)\nvocab=debtags\n\n"
METRICS = {"F1@5": "f1_at_5", "NDCG": "ndcg", "NDCG@5": "ndcg_at_5", "Precision@1": "precision_at_1"}


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--environment", type=Path, default=HERE.parent / ".venv-clients" / "annif")
    parser.add_argument("--backend", "-b", action="append", choices=BACKENDS, help="default: all")
    parser.add_argument("--n-rows", type=int, help="train on the first rows only")
    options = parser.parse_args()
    sample = lt.datasets.load_sample()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder, sample, options.n_rows)
        run(options, folder, "annif", "load-vocab", "debtags", "vocab.tsv", "--language", "en")
        for backend in options.backend or BACKENDS:
            record = {"question": "annif", "system": backend, "dataset": "debtags", "threads": 1}
            record |= {
                "n_train": len((folder / "train.tsv").read_text().splitlines()),
                "n_test": len(sample.test_texts),
            }
            emit(record | measured(options, folder, backend), save="annif" if options.save else None)


def measured(options, folder, backend):
    worker = [str(HERE / "annif_worker.py"), backend, "train.tsv", "test.tsv", "1"]
    runs = [json.loads(run(options, folder, "python", *worker).splitlines()[-1]) for _ in range(options.repeats)]
    spent = {name: round(statistics.median(one[name] for one in runs), 2) for name in runs[0]}
    output = run(options, folder, "annif", "eval", backend, "test.tsv", "--jobs", "1")
    found = {name.strip(): float(value) for name, value in re.findall(r"^(\w[^:\n]*):\s+([\d.]+)$", output, re.M)}
    return {"repeats": options.repeats} | spent | {ours: round(found[name], 4) for name, ours in METRICS.items()}


def run(options, folder, command, *arguments):
    environment = os.environ | {"ANNIF_CONFIG": "longtail_annif.Config"}
    command = [str(options.environment.resolve() / "bin" / command), *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def write_corpus(folder, sample, n_rows=None):
    """Write the sample as Annif's short-text corpora and vocabulary."""
    write_documents(folder / "train.tsv", sample.train_texts[:n_rows], sample.train_labels[:n_rows])
    write_documents(folder / "test.tsv", sample.test_texts, sample.test_labels)
    names = sorted({name for labels in (*sample.train_labels, *sample.test_labels) for name in labels})
    (folder / "vocab.tsv").write_text("".join(f"<{uri(name)}>\t{name}\n" for name in names))
    (folder / "projects.cfg").write_text("".join(PROJECT.format(backend) for backend in BACKENDS))


def write_documents(path, texts, labels):
    with path.open("w", encoding="utf-8") as file:
        for text, names in zip(texts, labels, strict=True):
            print(" ".join(text.split()), " ".join(f"<{uri(name)}>" for name in names), sep="\t", file=file)


def uri(name):
    return f"http://example.org/debtags/{name}"


if __name__ == "__main__":
    main()
