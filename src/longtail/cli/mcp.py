"""longtail mcp"""

from __future__ import annotations

from pathlib import Path

import click

from longtail.cli import options


@click.command()
@options.model_argument
def mcp(model: Path) -> None:
    """Serve MODEL to assistants, by the Model Context Protocol over standard input and output.

    \b
    Example:
      longtail mcp tags.model
    """
    try:
        from longtail.clients.mcp_server import create_server
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("mcp"):
            raise
        raise ImportError("longtail mcp needs the package mcp; pip install 'longtail[mcp]'") from None
    create_server(model).run()
