"""Texts in Arrow tables: Parquet and Arrow files, and streams in memory (pyarrow is imported only here)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import IO, Any

from longtail.datasets._columns import Picked, Wanted
from longtail.datasets._label_cells import LabelCells, checked_text, is_missing
from longtail.datasets._limits import UnpackLimit
from longtail.datasets.text_data import TextData, text_data

# Decoded at a time: small, because a few long texts fill the memory, and large enough for pyarrow.
_ROWS_PER_BATCH = 256
_ROWS_PER_WRITTEN_BATCH = 8192


def read_parquet(
    name: str, source: Any, n_packed: int, wanted: Wanted, label_separator: str | None, limit: UnpackLimit
) -> TextData:
    """Read the wanted columns of a parquet file (a path, or an open file that can seek) in small batches."""
    parquet = _import("pyarrow.parquet", name)
    try:
        file = parquet.ParquetFile(source, memory_map=not hasattr(source, "read"))
        names = file.schema_arrow.names
    except Exception as error:  # pyarrow's own classes, not worth an import here
        raise ValueError(f"{name} is not a sound parquet file: {error}") from None
    picked = wanted.pick(name, names)

    def batches() -> Iterator[Any]:
        n_bytes = 0
        try:
            for batch in file.iter_batches(batch_size=_ROWS_PER_BATCH, columns=picked.columns):
                n_bytes += batch.nbytes
                limit.check(n_packed, n_bytes)
                yield batch
        except OSError as error:
            raise ValueError(f"{name} is not a sound parquet file: {error}") from None

    return collect_batches(name, batches(), picked, label_separator)


def read_arrow(
    name: str, source: Any, n_packed: int, wanted: Wanted, label_separator: str | None, limit: UnpackLimit
) -> TextData:
    """Read the wanted columns of an Arrow IPC file or stream (Feather); a file is mapped, not loaded."""
    pyarrow = _import("pyarrow", name)
    try:
        opened = source if hasattr(source, "read") else pyarrow.memory_map(str(source))
        try:
            reader = pyarrow.ipc.open_file(opened)
            batches: Iterable[Any] = (reader.get_batch(i) for i in range(reader.num_record_batches))
        except pyarrow.ArrowInvalid:
            opened.seek(0)
            reader = pyarrow.ipc.open_stream(opened)
            batches = reader
        picked = wanted.pick(name, reader.schema.names)
    except pyarrow.ArrowException as error:
        raise ValueError(f"{name} is not a sound Arrow file: {error}") from None

    def checked() -> Iterator[Any]:
        n_bytes = 0
        try:
            for batch in batches:
                n_bytes += batch.nbytes
                limit.check(n_packed, n_bytes)
                batch.validate(full=True)  # offsets and UTF-8: pyarrow would read outside its buffers
                yield from _slices(batch)
        except pyarrow.ArrowException as error:
            raise ValueError(f"{name} is not a sound Arrow file: {error}") from None

    return collect_batches(name, checked(), picked, label_separator)


def collect_batches(name: str, batches: Iterable[Any], picked: Picked, label_separator: str | None) -> TextData:
    """Take texts, labels and ids out of record batches."""
    cells = LabelCells(label_separator)
    texts: list[str] = []
    labels: list[list[str]] = []
    ids: list[Any] = []
    first = 0
    for batch in batches:
        columns = [batch.column(column).to_pylist() for column in picked.text]
        for row, parts in enumerate(zip(*columns, strict=True), first):
            place = lambda row=row: f"{name}, row {row}"  # noqa: E731
            if len(parts) > 1:
                parts = tuple("" if is_missing(part) else part for part in parts)
            texts.append(picked.join([checked_text(part, place) for part in parts]))
        if picked.label is not None:
            for row, value in enumerate(batch.column(picked.label).to_pylist(), first):
                labels.append(cells.names(value, lambda row=row: f"{name}, row {row}"))  # type: ignore[misc]
        if picked.id is not None:
            ids += batch.column(picked.id).to_pylist()
        first += batch.num_rows
    cells.check(name)
    labels = labels if picked.label is not None else [[] for _ in texts]
    return text_data(name, texts, labels, ids if picked.id is not None else None, picked.describe(cells.describe()))


def write_rows(
    name: str, file: IO[bytes], rows: Iterator[dict[str, Any]], chosen: str, id_type: type | None, *, has_labels: bool
) -> None:
    """Write rows of id, text and labels as a Parquet or an Arrow file, some at a time."""
    pyarrow = _import("pyarrow", name)
    fields = [] if id_type is None else [("id", pyarrow.int64() if id_type is int else pyarrow.string())]
    fields += [("text", pyarrow.string()), *([("labels", pyarrow.list_(pyarrow.string()))] if has_labels else [])]
    schema = pyarrow.schema(fields)
    if chosen == "parquet":
        writer = _import("pyarrow.parquet", name).ParquetWriter(file, schema)
    else:
        writer = pyarrow.ipc.new_file(file, schema)
    with writer:
        while block := list(islice(rows, _ROWS_PER_WRITTEN_BATCH)):
            if id_type is str:
                block = [row | {"id": str(row["id"])} for row in block]
            writer.write_batch(pyarrow.RecordBatch.from_pylist(block, schema=schema))


def table_of(stream: Any) -> Any:
    """Read all that an object gives out through Arrow's C stream interface, such as the result of a query."""
    return _import("pyarrow", "Tagger").RecordBatchReader.from_stream(stream).read_all()


def whole(file: IO[bytes] | Iterator[bytes]) -> Any:
    """Put what can be read once into memory, for formats that begin at the end."""
    import io

    return io.BytesIO(b"".join(file))


def _slices(batch: Any) -> Iterator[Any]:
    for begin in range(0, batch.num_rows, 4 * _ROWS_PER_BATCH):
        yield batch.slice(begin, 4 * _ROWS_PER_BATCH)


def _import(module: str, name: str) -> Any:
    from importlib import import_module

    try:
        import_module("pyarrow")
        return import_module(module)
    except ImportError:
        raise ImportError(
            f"{name}: Parquet and Arrow need pyarrow; pip install pyarrow (or 'longtail[parquet]')"
        ) from None
