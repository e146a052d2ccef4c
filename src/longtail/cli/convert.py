"""longtail convert"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

from longtail._words import counted
from longtail.cli import options
from longtail.cli.vectors import read_vectors


@click.command()
@options.data_argument
@click.argument("output", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--unit-rows", is_flag=True, help="Scale every row to length 1.")
@click.option(
    "--to",
    "written_format",
    type=click.Choice(("jsonl", "json", "csv", "tsv", "fasttext", "annif", "parquet", "arrow")),
    help="Format of texts in OUTPUT; default: by its ending.",
)
@click.option(
    "--to-separator", default=";", show_default=True, help="Between the labels of a CSV or TSV cell of OUTPUT."
)
@options.reading_options
@options.overwrite_option
def convert(
    data: Path,
    output: Path,
    unit_rows: bool,
    written_format: str | None,
    to_separator: str,
    reading: dict[str, Any],
    overwrite: bool,
) -> None:
    """Write DATA as OUTPUT, by the file extension of OUTPUT; without one, as a memory-mapped CSR directory.

    Texts, with labels or without, become .jsonl, .json, .csv, .tsv or .fasttext (each also .gz), .parquet or .arrow; -
    is standard output. Annif's corpora end in .tsv too: say --to annif.

    \b
    Example:
      longtail convert train.txt.gz train.csr
      longtail convert articles.csv articles.jsonl --text-column body --label-column tags
      longtail convert articles.csv corpus.tsv --to annif
    """
    from longtail import datasets
    from longtail.datasets.formats import TEXT_ENDINGS

    if str(output) != "-":
        options.check_output(output, overwrite=overwrite, may_be_directory=True)
    ending = Path(output.name.lower().removesuffix(".gz")).suffix
    to_texts = written_format is not None or str(output) == "-" or ending in TEXT_ENDINGS
    if to_texts and not options.is_text(data, reading) and not options.holds_vectors(data):
        reading = {"format": "lines"}
    if options.is_text(data, reading):
        if unit_rows:
            raise click.UsageError(f"--unit-rows is for vectors, but {data} holds texts")
        found = options.read_texts(data, reading, needs_labels=False)
        try:
            datasets.write_text(
                "-" if str(output) == "-" else output,
                found.texts,
                found.labels if found.without_labels is None else None,
                ids=found.ids,
                format=written_format,
                label_separator=to_separator,
                overwrite=overwrite,
            )
        except ValueError as error:  # --format and --label-separator say how DATA is read
            words = {"format=": "--to", "label_separator": "--to-separator"}
            raise ValueError(
                functools.reduce(lambda text, word: text.replace(*word), words.items(), str(error))
            ) from None
        return
    if written_format is not None:
        raise click.UsageError(f"--to is for texts, but {data} holds vectors; their format goes by the name of OUTPUT")
    X, Y = read_vectors(data)
    datasets.write(output, datasets.unit_rows(X) if unit_rows else X, Y, overwrite=overwrite)
    click.echo(
        f"{counted(X.shape[0], 'row')}, {counted(X.shape[1], 'feature')}, {counted(Y.shape[1], 'label')}: {output}",
        err=True,
    )
