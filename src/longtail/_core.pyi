# Written by scripts/write_stub.py (make stub); do not edit.
from collections.abc import Sequence
from typing import Annotated, Any, overload

import numpy
from numpy.typing import NDArray


class Cancelled(RuntimeError):
    pass

class Control:
    """Stops running kernels and counts what they have done."""

    def __init__(self) -> None: ...

    def cancel(self) -> None:
        """Ask every kernel that holds this Control to stop."""

    @property
    def cancelled(self) -> bool: ...

    @property
    def done(self) -> int:
        """Units finished so far."""

class Rows:
    """
    X as every kernel takes it: CSR parts or a dense matrix; keeps the arrays alive.
    """

    @overload
    def __init__(self, n_cols: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    @overload
    def __init__(self, values: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

    @property
    def n_rows(self) -> int: ...

def unit_rows(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray[numpy.float32]:
    """Return the values of a CSR matrix with its rows scaled to length one."""

def check_csr(n_cols: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], owner: str) -> None:
    """
    Raise ValueError unless the arrays form a CSR matrix with sorted, distinct indices and finite values.
    """

def check_labels(n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], owner: str) -> None:
    """
    Raise ValueError unless the arrays form a label matrix with sorted, distinct ids.
    """

class TextReader:
    """Reads XMC, matrix or svmlight text: a file, or a stream in pieces."""

    def __init__(self, name: str, dialect: str, first_feature_id: int = 0, n_features: int = -1, n_labels: int = -1, max_line_bytes: int = 268435456) -> None: ...

    def read_file(self, path: object, n_threads: int, control: Control) -> None:
        """Parse a whole file."""

    def feed(self, text: bytes, n_threads: int, control: Control) -> None:
        """Parse the next bytes of a stream, cut anywhere."""

    def expect_bytes(self, n_bytes: int) -> None:
        """Say how long the text may be; only a hint."""

    def finish(self, control: Control) -> tuple[int, int, int, NDArray[numpy.int32] | NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.int32] | NDArray[numpy.int64], NDArray[numpy.int32]]:
        """
        n_rows, n_features, n_labels, then indptr, indices and values of the features, indptr and indices of the labels; indptr is int32 where that holds all entries.
        """

def write_rows(n_features: int, x_indptr: NDArray[numpy.int64], x_indices: NDArray[numpy.int32], x_values: NDArray[numpy.float32], n_labels: int, y_indptr: NDArray[numpy.int64], y_indices: NDArray[numpy.int32], first_row: int, last_row: int, has_labels: bool, first_feature_id: int, n_threads: int, control: Control) -> list[bytes]:
    """
    Lines of text for the rows [first_row, last_row), in parts. The views are not checked.
    """

class LinearRows:
    """X as the linear solvers see it; keeps the arrays alive."""

    def __init__(self, x: Rows) -> None: ...

def mean_row(rows: LinearRows, bias: float) -> NDArray[numpy.float32]:
    """The mean row, with the bias feature behind."""

def row_margins(rows: LinearRows, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bias: float) -> NDArray[numpy.float32]:
    """Every row times weights (the bias weight last)."""

@overload
def place_weights(feature_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], cursor: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], index_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], index_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], n_threads: int, control: Control) -> None: ...

@overload
def place_weights(feature_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)], cursor: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], index_labels: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], index_weights: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu')], n_threads: int, control: Control) -> None:
    """
    Put label-major weights into the lists of their features, and move the cursors.
    """

class OvaConfig:
    """How one-vs-all labels are trained; see cpp/linear/problem.hpp."""

    def __init__(self, *, loss: str, cost: float, tolerance: float, bias: float, regularize_bias: bool, prune_below: float, working_sets: bool, max_iterations: int, cg_rule: str, cg_tolerance: float, train_empty: bool = False, keep_history: bool = False) -> None: ...

def ova_background(rows: LinearRows, mean: NDArray[numpy.float32], config: OvaConfig, control: Control) -> NDArray[numpy.float64] | None:
    """
    Solve what all labels of a set of short rows share (cpp/linear/background.hpp); None for other rows.
    """

def ova_postings(rows: LinearRows, background: NDArray[numpy.float64]) -> dict[str, NDArray[Any]]:
    """
    Make the inverted index of short rows (cpp/linear/posting_lists.hpp), part by part.
    """

def ova_coarse_rows(rows: LinearRows, config: OvaConfig) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32]] | None:
    """
    Leave out the small entries of rows (cpp/linear/coarse_rows.hpp): indptr, indices and values, or None where training does not use them.
    """

def ova_row_blocks(rows: LinearRows, config: OvaConfig) -> tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.uint16], NDArray[numpy.float32]] | None:
    """
    Put X into blocks of rows, feature by feature (cpp/linear/row_blocks.hpp); None where training does not use them.
    """

def ova_word_lists(rows: LinearRows, mean: NDArray[numpy.float32], config: OvaConfig, control: Control) -> tuple[dict[str, NDArray[Any]], NDArray[numpy.float64]] | None:
    """
    Make what labels that are trained through lists of words share: the lists (cpp/linear/word_lists.hpp), part by part, and the background (empty if it is not used); None if rows or configuration do not suit.
    """

def train_ova(rows: LinearRows, indptr: NDArray[numpy.int64], row_ids: NDArray[numpy.int32], positive_weights: NDArray[numpy.float32] | None, row_weights: NDArray[numpy.float32] | None, mean: NDArray[numpy.float32], mean_margins: NDArray[numpy.float32], background: NDArray[numpy.float64] | None, postings: dict[str, NDArray[Any]] | None, coarse: LinearRows | None, blocks: tuple[NDArray[numpy.int32], NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.uint16], NDArray[numpy.float32]] | None, config: OvaConfig, start: str, positive_margin: float, negative_margin: float, bias_weight: float, shared: NDArray[numpy.float32] | None, shared_margins: NDArray[numpy.float32] | None, own_indptr: NDArray[numpy.int64] | None, own_feature_ids: NDArray[numpy.int32] | None, own_weights: NDArray[numpy.float32] | None, own_biases: NDArray[numpy.float32] | None, parents: NDArray[numpy.int32] | None, control: Control) -> dict[str, NDArray[Any]]:
    """
    Train the labels whose positive rows are given label-major; returns the fields of OvaResult.
    """

def predict_ova(rows: Rows, n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, exact: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, biases: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], masks: tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]:
    """The exact top_k labels of every row: label ids (-1 padded) and scores."""

def predict_ova_by_value(rows: Rows, n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, exact: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, biases: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], masks: tuple[Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, values: ValueTable, top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.float32]]:
    """
    The top_k labels of every row with the greatest values: label ids (-1 padded), values and scores.
    """

def label_masks(indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_labels: int) -> tuple[NDArray[numpy.int32], NDArray[numpy.uint16]]:
    """
    Bits of the labels of each frequent feature, which make predict_ova faster for few rows.
    """

def check_ova_index(n_features: int, n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, exact: tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]] | None, biases: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
    """
    Raise ValueError unless the arrays form a feature-major index of label weights.
    """

def rank_scores(n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_ranks: int, control: Control) -> NDArray[numpy.int32]:
    """
    The n_ranks best labels of each row of a sparse score matrix, -1 padded.
    """

def count_hits(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], label_weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, entry_weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, n_relevant: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, n_threads: int, control: Control) -> dict[str, object]:
    """
    Count hits and gains by row size and rank: what every ranking metric is made of. Returns the fields of HitTable (cpp/metrics/hits.hpp).
    """

def add_label_counts(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], part_of_rank: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], n_given: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], n_hits: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Add a batch to the counts of each label (parts × labels, flat); count_hits must have accepted the batch.
    """

def calibrated_proba(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], label_counts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], score_knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], count_knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], log_odds: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_threads: int, control: Control) -> NDArray[numpy.float32]:
    """
    Map scores to probabilities by a surface over score and log(1 + training rows of the label).
    """

def rank_affine(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], slopes: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.int32]]:
    """
    Rank the candidates of each row by slope · value + offset of their labels.
    """

def sum_affine(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], slopes: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], top_k: int, control: Control) -> tuple[NDArray[numpy.float64], NDArray[numpy.float64]]:
    """
    Rank as rank_affine does; return how often each label is chosen, and the sum of its values where it is.
    """

def judge_powers(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], proba: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], hits: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], group_of_label: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], slopes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], control: Control) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64], NDArray[numpy.float64]]:
    """
    Compare rankings by probability · slope with the order of the candidates: hits lost among the first 1, 3 and 5, their squares, and the weights of hits that are ranked first.
    """

def rank_calibrated(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], curve_of_label: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], score_knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], log_odds: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], slopes: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bound_scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bounds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.int32], NDArray[numpy.uint8]]:
    """
    Rank candidates by slope · probability of their scores; also return their places, and for which rows they were too few.
    """

class ValueTable:
    """
    What labels are worth at their scores; see cpp/decisions/value_table.hpp.
    """

    def __init__(self, curve_of_label: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], score_knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], log_odds: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], slopes: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

def rank_by_value(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], values: ValueTable, top_k: int) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.float32]]:
    """
    Rank candidates by their values: label ids (-1 padded), values and scores.
    """

def ascend(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], proba: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], positives: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], coverage: bool, top_k: int, mix: float, max_passes: int, tolerance: float, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.int32], float, int]:
    """
    Choose top_k labels per row of a whole batch for macro-F1 or coverage by block coordinate ascent. Returns label ids, gains, places among the candidates, the objective and the number of passes.
    """

def find_hits(label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray[numpy.uint8]:
    """
    Return which of the ranked labels are labels of their rows; those of a row rise.
    """

class SurfacePairs:
    """
    Pairs of row and label that a surface is fitted to; see cpp/decisions/surface_pairs.hpp.
    """

    def __init__(self, scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], log_counts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], hits: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], is_odd: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], score_knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], count_knots: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def counts(self, odd: bool | None) -> tuple[float, float]:
        """
        Pairs and hits of one half or of both (None), each as often as it counts.
        """

    def loss(self, log_odds: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], odd: bool | None, control: Control) -> tuple[float, NDArray[numpy.float64], NDArray[numpy.float64]]:
        """
        Return the log loss of a surface over one half or both (None), and its derivatives by the values at the nodes.
        """

class TextAnalyzer:
    """Cuts texts into words, word n-grams and character n-grams."""

    def __init__(self, max_ngram: int, min_chars: int, max_chars: int, stop_words: Sequence[str], word_ranges: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], space_ranges: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], ideographic_ranges: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], unspaced_ranges: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

def learn_vocabulary(texts: list[str], analyzer: TextAnalyzer, min_rows: int, max_rows: int, max_features: int, control: Control) -> tuple[NDArray[numpy.uint8], NDArray[numpy.int64], NDArray[numpy.int64], int]:
    """
    Return the features of the texts: their UTF-8 bytes, ends, row counts and how many of them are words.
    """

class Tfidf:
    """Turns texts into tf-idf rows over a vocabulary, which it checks."""

    def __init__(self, bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], ends: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n_words: int) -> None: ...

    def transform(self, texts: list[str], analyzer: TextAnalyzer, tf: NDArray[numpy.float32], idf: NDArray[numpy.float32], unit_rows: bool, n_threads: int, control: Control) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32]]:
        """Return indptr, indices and values of one CSR row per text."""

class Booster:
    """A boosting run of GBDT-SPARSE over one training set."""

    def __init__(self, x: Rows, n_labels: int, y_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], y_indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], params: dict[str, object], first_feature: int = 0, n_features: int = 0, row_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

    def grow(self, tree_id: int, n_threads: int, control: Control) -> dict[str, object]:
        """
        Grow the next tree on the current gradients, add it to the scores, and return its arrays.
        """

    def add(self, split_features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], thresholds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], left_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_threads: int, control: Control) -> None:
        """Add a tree that was grown earlier to the scores."""

    def begin_tree(self, tree_id: int, n_threads: int, control: Control) -> None:
        """Open the root of tree number tree_id on the current gradients."""

    @property
    def is_growing(self) -> bool:
        """Whether the tree that was begun has open nodes."""

    @property
    def n_sides(self) -> int:
        """Rows of all open nodes together."""

    def find_splits(self, n_threads: int, control: Control) -> dict[str, object]:
        """
        Return the best split of every open node among this booster's columns; feature -1 where there is none.
        """

    def find_sides(self, reductions: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], thresholds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bins: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_threads: int, control: Control) -> NDArray[numpy.uint8]:
        """
        Return 1 for rows of open nodes that go left by a split on one of this booster's columns, else 0.
        """

    def apply_splits(self, reductions: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], thresholds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bins: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], sides: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], n_threads: int, control: Control) -> None:
        """Cut the open nodes that gain by their split; close the others."""

    def finish_tree(self, n_threads: int, control: Control) -> dict[str, object]:
        """
        Add the tree that has no open nodes left to the scores and return its arrays.
        """

    def find_leaves(self, split_features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], thresholds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], left_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_threads: int, control: Control) -> NDArray[numpy.int32]:
        """Return the leaf of a tree that each row falls into."""

    def add_leaves(self, split_features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], thresholds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], left_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_of_row: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_threads: int, control: Control) -> None:
        """
        Add a tree that was grown earlier, when the leaf of every row is known.
        """

    def loss(self, n_threads: int, control: Control) -> float:
        """Return the loss summed over all rows and labels."""

    def gradient_sizes(self) -> NDArray[numpy.int64]:
        """Return how many labels each row keeps a score for."""

def gbdt_top_k(x: Rows, n_labels: int, tree_begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], split_features: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], thresholds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], left_children: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_begin: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], leaf_values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]:
    """Return (label_ids, scores) of the top_k labels of every row."""

def multiply(x: Rows, w: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], n_threads: int, control: Control) -> NDArray[numpy.float32]:
    """
    Return x times w; each row of the product is independent of the others.
    """

def dense_product_top_k(x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], w: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]:
    """
    Return (column ids, scores) of the top_k columns of every row of x times w.
    """

class TreeConfig:
    """How a tree is grown; all parameters by name."""

    def __init__(self, **given: object) -> None: ...

def feature_columns(x: Rows) -> dict[str, object]:
    """
    Give the entries of sparse rows by column, for grow_tree: once for all trees.
    """

def grow_tree(x: Rows, columns: dict[str, object] | None, n_labels: int, label_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], label_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, row_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, config: TreeConfig, control: Control) -> dict[str, object]:
    """Grow one FastXML tree; give its flat arrays by name."""

def check_forest(arrays: dict[str, object], n_features: int, n_labels: int) -> None:
    """
    Raise ValueError unless every walk through the forest stays inside it and ends.
    """

def predict_forest(x: Rows, arrays: dict[str, object], tree_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], tail: dict[str, object] | None, n_labels: int, top_k: int, n_features_used: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]:
    """Rank labels by their mean share over the leaves that a row reaches."""

def predict_forest_by_value(x: Rows, arrays: dict[str, object], tree_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: ValueTable, n_labels: int, top_k: int, n_features_used: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.float32]]:
    """
    Rank the labels of the leaves that a row reaches by their values: label ids, values and scores.
    """

def learn_tail(x: Rows, row_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], row_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], propensities: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], row_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, first_label: int, last_label: int, bias: float, gamma: float, max_steps: int, control: Control) -> dict[str, object]:
    """
    Learn the tail classifiers' centres of a range of labels; max_steps 0 gives plain means.
    """

def solve_l1_logistic(x: Rows, signed_costs: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], config: TreeConfig) -> tuple[NDArray[numpy.float32], float]:
    """
    Minimise |w|_1 + sum |a_i| log(1 + exp(-sign(a_i) w.x_i)); weights (bias last) and minimum.
    """

def label_vectors(x: Rows, y_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], y_row_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], row_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, n_threads: int, control: Control) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32]]:
    """
    The unit vector along the sum of each label's unit rows, as CSR arrays.
    """

def grow_label_tree(vectors: Rows, label_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], clustering: str, fan_out: int, max_leaf: int, max_depth: int, seed: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32]]:
    """
    Cluster labels into a tree: (child_indptr, child_ids); a label is ~label_id.
    """

class LabelTreeConfig:
    """
    How the edges of a label tree are trained; see cpp/label_tree/train_nodes.hpp.
    """

    def __init__(self, *, loss: str, cost: float, tolerance: float, max_passes: int, bias: float, prune_below: float) -> None: ...

def train_label_tree(x: Rows, y_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], y_row_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], positive_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, row_weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, child_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], child_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], node_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], extra_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, extra_row_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, config: LabelTreeConfig, seed: int, n_threads: int, control: Control) -> dict[str, object]:
    """Train the edges of some nodes; the arrays of cpp/label_tree/tree.hpp."""

class LabelForest:
    """The arrays of a fitted LabelTree; see cpp/label_tree/tree.hpp."""

    def __init__(self, roots: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], child_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], child_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], feature_indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], feature_ids: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], row_begins: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], entry_begins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], edges: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.int8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, scales: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, biases: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def check_trees(self, n_features: int, n_labels: int) -> None:
        """
        Raise ValueError unless the arrays form trees; weights are checked when prediction first reads them.
        """

    def check_weights(self) -> None:
        """
        Raise ValueError unless the weights of all nodes can be read safely; after check_trees.
        """

def predict_label_tree(x: Rows, forest: LabelForest, beam_width: int, power: int, slope: float, path_weight: float, top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32]]:
    """Beam search: (label_ids, scores), each (n_rows, top_k)."""

def predict_label_tree_by_value(x: Rows, forest: LabelForest, n_labels: int, beam_width: int, power: int, slope: float, path_weight: float, values: ValueTable, top_k: int, n_threads: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.float32]]:
    """
    Beam search, labels ranked by their values: (label_ids, values, scores), each (n_rows, top_k).
    """

def route_label_tree(x: Rows, forest: LabelForest, beam_width: int, power: int, slope: float, n_threads: int, control: Control) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32]]:
    """
    The rows whose beam visits each node over labels: (indptr over nodes, row_ids).
    """

def train_pd_sparse(n_features: int, x_indptr: NDArray[numpy.int64], x_indices: NDArray[numpy.int32], x_values: NDArray[numpy.float32], n_labels: int, y_indptr: NDArray[numpy.int64], y_indices: NDArray[numpy.int32], l1: float, cost: float, n_epochs: int, tolerance: float, seed: int, n_violators: int, n_held_out: int, post_train: bool, control: Control) -> tuple[NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.float64], NDArray[numpy.float64]]:
    """
    Return (indptr, label_ids, weights) by feature, the last one the constant 1; dual objectives and held-out precisions by epoch.
    """

def grow_random_tree(n_features: int, x_indptr: NDArray[numpy.int64], x_indices: NDArray[numpy.int32], x_values: NDArray[numpy.float32], n_labels: int, y_indptr: NDArray[numpy.int64], y_indices: NDArray[numpy.int32], row_ids: NDArray[numpy.int64], is_ndcg: bool, n_tried: int, n_thresholds: int, max_leaf_size: int, leaf_top_k: int, seed: int, control: Control) -> tuple[NDArray[numpy.int32], NDArray[numpy.float32], NDArray[numpy.int32], NDArray[numpy.int64], NDArray[numpy.int32], NDArray[numpy.float32], float]:
    """
    Return (split_features, thresholds, left_children, leaf_begin, leaf_label_ids, leaf_values, mean_depth).
    """

isa: str
