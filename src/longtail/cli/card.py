"""longtail card"""

from __future__ import annotations

from pathlib import Path

import click

from longtail.cli import options


@click.command()
@options.model_argument
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file; default: standard output."
)
@options.overwrite_option
def card(model: Path, output: Path | None, overwrite: bool) -> None:
    """Write a model card for MODEL, in Markdown with the metadata that the Hugging Face hub reads.

    Beside the model, as MODEL/README.md, it stays there when the model is saved again.

    \b
    Example:
      longtail card tags.model -o tags.model/README.md
    """
    import longtail

    text = longtail.model_card(longtail.load(model), name=model.resolve().stem)
    if output is None:
        click.echo(text, nl=False)
        return
    options.check_output(output, overwrite=overwrite)
    output.write_text(text, encoding="utf-8")
