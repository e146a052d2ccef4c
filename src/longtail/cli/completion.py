"""longtail completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that completes `longtail` commands, options and files in a SHELL.

    \b
    Example:
      longtail completion bash > ~/.local/share/bash-completion/completions/longtail
      longtail completion zsh > ~/.zfunc/_longtail
      longtail completion fish > ~/.config/fish/completions/longtail.fish
    """
    from longtail.cli.app import app

    found = get_completion_class(shell)
    if found is None:
        raise ValueError(f"no completion for {shell!r}")
    click.echo(found(app, {}, "longtail", "_LONGTAIL_COMPLETE").source())
