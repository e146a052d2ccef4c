"""Do static word vectors beside tf-idf raise the accuracy of a Tagger on the shipped sample?

Trains DiSMEC on the training texts of the sample (Debian packages) with tf-idf, and with tf-idf beside the mean word
vectors of `wordllama` (pip install 'longtail[embedding]'), and measures both on the test texts. The weight of the
vectors is the default, 0.5. Times are CPU seconds of one thread.
"""

import time

from measure import emit, make_parser

import longtail as lt

parser = make_parser(__doc__)
options = parser.parse_args()
sample = lt.datasets.load_sample()
for embedding, weight in ((None, 0.0), ("wordllama", 0.5)):
    settings = {} if embedding is None else {"embedding": embedding, "embedding_weight": weight}
    vectorizer = lt.TextVectorizer(**settings)
    begin = time.process_time()
    tagger = lt.Tagger(lt.DiSMEC(n_jobs=1), vectorizer).fit(sample.train_texts, sample.train_labels)
    trained = time.process_time()
    Y, _ = tagger.encode(sample.test_labels)
    propensity = lt.propensity.from_counts(tagger.label_counts_, tagger.n_rows_)
    top = tagger.predict_top_k(sample.test_texts, 5)
    predicted = time.process_time()
    found = lt.metrics.evaluate(top, Y, propensity=propensity)
    record = {
        "dataset": "debtags",
        "embedding": embedding,
        "embedding_weight": weight,
        "train_cpu_seconds": round(trained - begin, 1),
        "predict_cpu_seconds": round(predicted - trained, 1),
        **{name: round(found[name], 2) for name in ("P@1", "P@3", "P@5", "PSP@1", "PSP@5")},
    }
    emit(record, "embedding" if options.save else None)
