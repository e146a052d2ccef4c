"""longtail convert"""

from __future__ import annotations

from pathlib import Path

import click

from longtail._words import counted
from longtail.cli import options


@click.command()
@options.data_argument
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--unit-rows", is_flag=True, help="Scale every row to length 1.")
@options.overwrite_option
def convert(data: Path, output: Path, unit_rows: bool, overwrite: bool) -> None:
    """Write DATA as OUTPUT, in the format that OUTPUT's ending names; no ending: a memory-mapped CSR directory.

    \b
    Example:
      longtail convert train.txt.gz train.csr
    """
    from longtail import datasets

    if output.exists() and not overwrite:
        raise FileExistsError(f"{output} exists; pass --overwrite to replace it, or choose another name")
    X, Y = datasets.read(data)
    datasets.write(output, datasets.unit_rows(X) if unit_rows else X, Y, overwrite=overwrite)
    click.echo(
        f"{counted(X.shape[0], 'row')}, {counted(X.shape[1], 'feature')}, {counted(Y.shape[1], 'label')}: {output}",
        err=True,
    )
