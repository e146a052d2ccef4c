"""Write docs/cli.md from `longtail --help`; with --check, fail if the committed page is out of date."""

import argparse
import sys
from pathlib import Path

import click

from longtail.cli.app import app

HEAD = """# Command line

<!-- Written by scripts/write_cli_docs.py from --help; do not edit. -->

Results go to stdout, everything else to stderr; `--json` prints results for machines. User errors are one line on
stderr and exit code 2. Colours appear on a terminal only. `longtail completion bash` prints a completion script.
"""


def page() -> str:
    parts = [HEAD, section("longtail", app, None)]
    with click.Context(app, info_name="longtail") as parent:
        parts += [section(f"longtail {name}", command, parent) for name, command in sorted(app.commands.items())]
    return "\n".join(parts)


def section(title: str, command: click.Command, parent: click.Context | None) -> str:
    context = click.Context(
        command, info_name=title.split()[-1], parent=parent, max_content_width=100, terminal_width=100
    )
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("page", type=Path)
parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is out of date")
options = parser.parse_args()
if not options.check:
    options.page.write_text(page())
elif not options.page.exists() or options.page.read_text() != page():
    sys.exit(f"{options.page} is out of date: run `make cli-docs` and commit it")
