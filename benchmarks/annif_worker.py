"""Train and use one Annif project within one process, run by the Python of an environment with Annif.

Usage: annif_worker.py PROJECT TRAIN TEST N_JOBS. Prints one JSON object: seconds of `project.train`, and of suggesting
for all test documents in Annif's own batches. Reading the files and starting Python are not part of them.
"""

import json
import sys
import time

import annif
import annif.registry
from annif.corpus import DocumentFileTSV, DocumentList


def main(project_id, train_path, test_path, n_jobs):
    with annif.create_flask_app().app_context():
        project = annif.registry.get_project(project_id)
        train, test = (
            DocumentList(list(DocumentFileTSV(path, project.subjects).documents)) for path in (train_path, test_path)
        )
        begin = time.perf_counter(), time.process_time()
        project.train(train, jobs=int(n_jobs))
        trained = time.perf_counter(), time.process_time()
        project.initialize()
        ready = time.perf_counter(), time.process_time()
        for _ in project.suggest_corpus(test).batches:
            pass
        end = time.perf_counter(), time.process_time()
    print(
        json.dumps(
            {
                "train_seconds": trained[0] - begin[0],
                "train_cpu_seconds": trained[1] - begin[1],
                "suggest_seconds": end[0] - ready[0],
                "suggest_cpu_seconds": end[1] - ready[1],
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
