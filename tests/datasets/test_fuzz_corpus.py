"""What libFuzzer found worth keeping: one input for each outcome it reached, and what must come of it.

The files in corpus/ have one case a line: bytes as latin-1 text, and the outcome, which is either the sizes of what was
read or the place of the error. cpp/fuzz/README.md tells how they came about.
"""

import gzip
import json
import re
from pathlib import Path

import pytest

from longtail.datasets._rows import read_rows

CORPUS = Path(__file__).parent / "corpus"


def outcome(path: Path, dialect: str, n_jobs: int, first_feature_id: int) -> str:
    try:
        X, Y = read_rows(path, dialect, n_jobs, first_feature_id=first_feature_id)
    except ValueError as error:
        return re.search(r"line \d+, column \d+", str(error)).group()
    return f"{X.shape[0]} rows, {X.nnz} features, {Y.nnz} labels"


@pytest.mark.parametrize("dialect", ["xmc", "svmlight", "matrix"])
def test_inputs_that_fuzzing_kept_are_read_or_refused_at_the_same_place_from_files_and_streams(tmp_path, dialect):
    cases = [json.loads(line) for line in (CORPUS / f"{dialect}.jsonl").read_text().splitlines()]
    assert len(cases) > 50
    path = tmp_path / "rows"
    for case in cases:
        text = case["text"].encode("latin-1")
        for data in (text, gzip.compress(text)):
            path.write_bytes(data)
            assert outcome(path, dialect, 1, case.get("first_feature_id", 0)) == case["outcome"], case
