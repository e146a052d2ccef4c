"""The ``.npy`` header: written in one form, read by a pattern that admits only plain arrays of numbers."""

import re
from typing import Any

import numpy as np

from longtail._array_files.specs import DTYPES, MAX_NDIM, shown

_MAGIC = b"\x93NUMPY"
_PREFIX_BYTES = 10  # magic, version 1.0, header length as uint16
_ALIGNMENT = 64
HEADER_MAX_BYTES = 1024
_HEADER = re.compile(
    r"\{'descr': '([^']{1,16})', 'fortran_order': (True|False), 'shape': \(([0-9, ]{0,100})\), \} *\n",
    re.ASCII,
)
_SHAPE = re.compile(r"(?:[0-9]{1,19},)?|[0-9]{1,19}(?:, [0-9]{1,19})+", re.ASCII)
_BY_DESCR = {dtype.str: dtype for dtype in DTYPES.values()}


def write_header(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return the header of a C-ordered array; its length is a multiple of 64: mapped values are aligned."""
    text = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape!r}, }}"
    length = -(-(_PREFIX_BYTES + len(text) + 1) // _ALIGNMENT) * _ALIGNMENT - _PREFIX_BYTES
    return _MAGIC + b"\x01\x00" + length.to_bytes(2, "little") + text.ljust(length - 1).encode("ascii") + b"\n"


def read_header(owner: str, start: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return dtype, shape and the offset of the values, from the first ``HEADER_MAX_BYTES`` of a file.

    numpy's reader evaluates the header and may unpickle what follows; this one matches the single form that
    ``numpy.save`` writes for numbers.
    """
    if not start.startswith(_MAGIC):
        raise ValueError(f"{owner}: not a .npy file: it must begin with {_MAGIC!r}, got {shown(start[:6])}")
    if start[6:8] != b"\x01\x00":
        raise ValueError(f"{owner}: the .npy version must be 1.0, got {'.'.join(map(str, start[6:8])) or 'nothing'}")
    offset = _PREFIX_BYTES + int.from_bytes(start[8:10], "little")
    if offset > HEADER_MAX_BYTES or offset % _ALIGNMENT:
        raise ValueError(
            f"{owner}: values must begin at a multiple of {_ALIGNMENT} up to {HEADER_MAX_BYTES}, got {offset}"
        )
    if len(start) < offset:
        raise ValueError(f"{owner}: the header needs {offset} bytes, but the file has {len(start)}; it was cut short")
    match = _HEADER.fullmatch(start[_PREFIX_BYTES:offset].decode("latin-1"))
    if match is None:
        raise ValueError(f"{owner}: the header must be that of a plain array, got {shown(start[_PREFIX_BYTES:offset])}")
    descr, fortran_order, shape_text = match.groups()
    if "O" in descr:
        raise ValueError(f"{owner}: holds Python objects (pickle), which longtail never loads")
    if descr not in _BY_DESCR:
        raise ValueError(f"{owner}: dtype must be one of {', '.join(DTYPES)}, little-endian; got {descr!r}")
    if fortran_order == "True":
        raise ValueError(f"{owner}: must be stored in C order, got Fortran order")
    if _SHAPE.fullmatch(shape_text) is None:
        raise ValueError(f"{owner}: the shape must be a tuple of whole numbers, got ({shape_text})")
    shape = tuple(int(length) for length in shape_text.split(",") if length)
    if len(shape) > MAX_NDIM:
        raise ValueError(f"{owner}: must have at most {MAX_NDIM} dimensions, got {len(shape)}")
    return _BY_DESCR[descr], shape, offset
