"""How many texts a second does a Tagger tag, vectorising included, and how long does one text take?

Trains on the shipped sample (Debian packages, 583 labels) and tags its test texts. Lines: `vectorize` (texts to tf-idf
rows: ours and scikit-learn's), `throughput` (all test texts, one thread and two), `latency` (one text a call: median,
p99), each also for what one would use otherwise: tf-idf and one linear SVM a label of scikit-learn, and omikuji on
scikit-learn's tf-idf, which is what Annif's omikuji backend does. Omikuji runs in an
environment of its own, for instance the one that `make bench` makes.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from measure import emit, make_parser, measure

import longtail as lt

PEER = r"""
import json, sys, tempfile, time
from pathlib import Path
import numpy as np
import omikuji
from sklearn.feature_extraction.text import TfidfVectorizer

sample = json.load(sys.stdin)
names = sorted({name for row in sample["train_labels"] for name in row})
ids = {name: i for i, name in enumerate(names)}
vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
X = vectorizer.fit_transform(sample["train_texts"])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "train.txt"
    with path.open("w") as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {len(names)}\n")
        for i, labels in enumerate(sample["train_labels"]):
            row = slice(X.indptr[i], X.indptr[i + 1])
            pairs = zip(X.indices[row].tolist(), X.data[row].tolist())
            found = ",".join(str(ids[name]) for name in labels)
            file.write(found + " " + " ".join(f"{j}:{v:.6g}" for j, v in pairs) + "\n")
    settings = omikuji.Model.default_hyper_param()
    begin = time.perf_counter()
    model = omikuji.Model.train_on_data(str(path), settings, 1)
    train_seconds = time.perf_counter() - begin

def tag(texts):
    rows = vectorizer.transform(texts)
    answers = []
    for i in range(rows.shape[0]):
        row = slice(rows.indptr[i], rows.indptr[i + 1])
        answers.append(model.predict(list(zip(rows.indices[row].tolist(), rows.data[row].tolist())), top_k=5))
    return answers

texts = sample["test_texts"]
walls = []
for _ in range(sample["repeats"]):
    begin = time.perf_counter()
    answers = tag(texts)
    walls.append(time.perf_counter() - begin)
hits = [names[answer[0][0]] in labels for answer, labels in zip(answers, sample["test_labels"]) if answer]
singles = []
for text in texts[:1000]:
    begin = time.perf_counter()
    tag([text])
    singles.append(time.perf_counter() - begin)
p_at_1 = 100 * sum(hits) / len(texts)
print(json.dumps({"walls": walls, "singles": singles, "train_seconds": train_seconds, "p_at_1": p_at_1}))
"""


def main():
    parser = make_parser(__doc__)
    parser.add_argument(
        "--peer-python", type=Path, default=Path(".venv-peers/omikuji/bin/python"), help="where omikuji is"
    )
    parser.add_argument("--without-svm", action="store_true", help="leave out scikit-learn's SVMs, which take minutes")
    options = parser.parse_args()
    sample = lt.datasets.load_sample()
    save = "tagging" if options.save else None

    def tell(question, system, threads, **numbers):
        record = {"question": question, "system": system, "dataset": "debtags", "threads": threads}
        emit(record | {"n_texts": len(sample.test_texts)} | numbers, save)

    compare_vectorizers(sample, options.repeats, tell)
    for threads in (1, 2):
        tagger = lt.Tagger(lt.DiSMEC(n_jobs=threads))
        begin = time.perf_counter()
        tagger.fit(sample.train_texts, sample.train_labels)
        p_at_1 = round(tagger.evaluate(sample.test_texts, sample.test_labels)["P@1"], 2)
        spent = {"train_seconds": round(time.perf_counter() - begin, 2), "p_at_1": p_at_1}
        report(tagger.tag, "longtail DiSMEC", threads, sample, options.repeats, tell, **spent)
    if not options.without_svm:
        compare_svm(sample, options.repeats, tell)
    if options.peer_python.exists():
        compare_omikuji(options.peer_python, sample, options.repeats, tell)
    else:
        print(f"no omikuji: {options.peer_python} does not exist; `make bench` makes it", file=sys.stderr)


def compare_vectorizers(sample, repeats, tell):
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = sample.test_texts
    for max_ngram in (1, 2):
        ours = lt.TextVectorizer(max_ngram=max_ngram).fit(sample.train_texts)
        theirs = TfidfVectorizer(sublinear_tf=True, min_df=2, ngram_range=(1, max_ngram), dtype=np.float32)
        theirs.fit(sample.train_texts)
        for threads in (1, 2):
            numbers = measure(lambda v=ours, n=threads: v.transform(texts, n_jobs=n), repeats, warm_ups=1)
            tell("vectorize", "longtail", threads, max_ngram=max_ngram, **numbers)
        numbers = measure(lambda v=theirs: v.transform(texts), repeats, warm_ups=1)
        tell("vectorize", "scikit-learn", 1, max_ngram=max_ngram, **numbers)


def report(tag, system, threads, sample, repeats, tell, **numbers):
    """Measure a function from texts to answers."""
    found = measure(lambda: tag(sample.test_texts), repeats, warm_ups=1)
    rate = round(len(sample.test_texts) / found["wall_seconds"])
    tell("throughput", system, threads, texts_per_second=rate, **found, **numbers)
    if threads == 1:
        singles = []
        for text in sample.test_texts[:1000]:
            begin = time.perf_counter()
            tag([text])
            singles.append(time.perf_counter() - begin)
        tell("latency", system, 1, **spread(singles))


def compare_svm(sample, repeats, tell):
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    encoder = MultiLabelBinarizer()
    Y = encoder.fit_transform(sample.train_labels)
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
    model = make_pipeline(vectorizer, OneVsRestClassifier(LinearSVC()))
    begin = time.perf_counter()
    model.fit(sample.train_texts, Y)
    seconds = round(time.perf_counter() - begin, 2)

    def tag(texts):
        scores = model.decision_function(texts)
        best = np.argpartition(-scores, 5, axis=1)[:, :5]
        order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
        return encoder.classes_[np.take_along_axis(best, order, axis=1)]

    answers = tag(sample.test_texts)[:, 0]
    p_at_1 = 100 * np.mean([best in labels for best, labels in zip(answers, sample.test_labels, strict=True)])
    spent = {"train_seconds": seconds, "p_at_1": round(float(p_at_1), 2)}
    report(tag, "scikit-learn LinearSVC", 1, sample, repeats, tell, **spent)


def compare_omikuji(python, sample, repeats, tell):
    data = {**vars(sample), "repeats": repeats}
    done = subprocess.run(
        [python, "-c", PEER],
        input=json.dumps(data),
        capture_output=True,  # it draws bars
        text=True,
        check=False,
        env={**os.environ, "RAYON_NUM_THREADS": "1"},
    )
    if done.returncode:
        sys.exit(f"omikuji failed: {done.stderr[-500:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    walls = sorted(found["walls"])
    wall = walls[len(walls) // 2]
    tell(
        "throughput",
        "omikuji as in Annif",
        1,
        texts_per_second=round(len(sample.test_texts) / wall),
        wall_seconds=round(wall, 4),
        wall_seconds_min=round(walls[0], 4),
        wall_seconds_max=round(walls[-1], 4),
        train_seconds=round(found["train_seconds"], 2),
        p_at_1=round(found["p_at_1"], 2),
    )
    tell("latency", "omikuji as in Annif", 1, **spread(found["singles"]))


def spread(seconds):
    ordered = sorted(seconds)
    return {
        "p50_milliseconds": round(1000 * ordered[len(ordered) // 2], 4),
        "p99_milliseconds": round(1000 * ordered[int(len(ordered) * 0.99)], 4),
    }


if __name__ == "__main__":
    main()
