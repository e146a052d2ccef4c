"""Random data sets, shaped to hit the corners: empty rows, empty matrices, extreme floats."""

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st

VALUES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def matrices(draw, n_rows: int, values=VALUES, widths=(0, 1, 2, 7, 300, 2**31 - 1)):
    n_columns = draw(st.sampled_from(widths))
    row_ids, column_ids, entries = [], [], []
    for row in range(n_rows):
        ids = draw(st.lists(st.integers(0, n_columns - 1), unique=True, max_size=6)) if n_columns else []
        row_ids += [row] * len(ids)
        column_ids += ids
        entries += [draw(values) for _ in ids]
    parts = (np.array(entries, dtype=np.float32), (np.array(row_ids, dtype=int), np.array(column_ids, dtype=int)))
    return sp.csr_array(sp.coo_array(parts, shape=(n_rows, n_columns)))


@st.composite
def data_sets(draw, widths=(0, 1, 2, 7, 300, 2**31 - 1)):
    n_rows = draw(st.integers(0, 8))
    return draw(matrices(n_rows, widths=widths)), draw(matrices(n_rows, st.just(1.0), widths))


def assert_same(one, other) -> None:
    """Compare shape, structure and the bytes of the values, so that -0.0 is not 0.0."""
    assert one.shape == other.shape
    assert one.dtype == other.dtype == np.float32
    assert one.indptr.tolist() == other.indptr.tolist()
    assert one.indices.tolist() == other.indices.tolist()
    assert one.data.tobytes() == other.data.tobytes()
