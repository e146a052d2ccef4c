"""longtail info"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from longtail.cli import options


@click.command()
@options.model_argument
@click.option("--verify", is_flag=True, help="Also read every array and compare its checksum.")
@options.json_option
def info(model: Path, verify: bool, as_json: bool) -> None:
    """Describe a saved MODEL without loading it.

    \b
    Example:
      longtail info eurlex.model --verify
    """
    import longtail

    if verify:
        longtail.load(model, verify=True)
    description = longtail.describe(model)
    if as_json:
        click.echo(json.dumps(description, indent=2, ensure_ascii=False))
        return
    for line in _lines(description):
        click.echo(line)
    if verify:
        click.echo("every array agrees with its checksum", err=True)


def _lines(value: dict[str, Any], indent: str = "") -> list[str]:
    lines: list[str] = []
    for key, item in value.items():
        if isinstance(item, dict):
            if not item:
                continue
            lines += [f"{indent}{key}:", *_lines(item, indent + "  ")]
        else:
            lines.append(f"{indent}{key}: {item}")
    return lines
