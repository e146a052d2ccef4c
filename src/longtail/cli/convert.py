"""longtail convert"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from longtail._words import counted
from longtail.cli import options


@click.command()
@options.data_argument
@click.argument("output", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--unit-rows", is_flag=True, help="Scale every row to length 1.")
@options.reading_options
@options.overwrite_option
def convert(data: Path, output: Path, unit_rows: bool, reading: dict[str, Any], overwrite: bool) -> None:
    """Write DATA as OUTPUT, by the file extension of OUTPUT; without one, as a memory-mapped CSR directory.

    Texts become .jsonl, .csv, .tsv or .fasttext (each also .gz), or - for standard output.

    \b
    Example:
      longtail convert train.txt.gz train.csr
      longtail convert articles.csv articles.jsonl --text-column body --label-column tags
    """
    from longtail import datasets

    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists; pass --overwrite to replace it, or choose another name")
    if options.is_text(data, reading):
        if unit_rows:
            raise click.UsageError(f"--unit-rows is for vectors, but {data} holds texts")
        found = options.read_texts(data, reading)
        target = "-" if str(output) == "-" else output
        datasets.write_text(target, found.texts, found.labels, ids=found.ids, overwrite=overwrite)
        return
    X, Y = datasets.read(data)
    datasets.write(output, datasets.unit_rows(X) if unit_rows else X, Y, overwrite=overwrite)
    click.echo(
        f"{counted(X.shape[0], 'row')}, {counted(X.shape[1], 'feature')}, {counted(Y.shape[1], 'label')}: {output}",
        err=True,
    )
