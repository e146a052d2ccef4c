# Written by scripts/write_stub.py (make stub); do not edit.
from typing import Annotated

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

def check_csr(n_cols: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], owner: str) -> None:
    """
    Raise ValueError unless the arrays form a CSR matrix with sorted, distinct indices and finite values.
    """

def check_labels(n_labels: int, indptr: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], indices: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], owner: str) -> None:
    """
    Raise ValueError unless the arrays form a label matrix with sorted, distinct ids.
    """

isa: str
