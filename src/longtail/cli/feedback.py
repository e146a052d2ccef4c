"""longtail feedback"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longtail._words import counted
from longtail.cli import options

if TYPE_CHECKING:
    from longtail.feedback import FeedbackStore


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("action", type=click.Choice(["count", "export", "delete"]))
@click.option("--id", "feedback_id", help="Delete the feedback with this id.")
@click.option("--author", help="Delete or count everything by this author.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Export to this file; default: stdout.")
@options.json_option
def feedback(
    model: Path, action: str, feedback_id: str | None, author: str | None, output: Path | None, as_json: bool
) -> None:
    """Count, export or delete the corrections of MODEL that `longtail serve --feedback` took.

    An export is JSONL, one correction per line. Its keys text and labels make it a training file.

    \b
    Example:
      longtail feedback tags.model export -o corrections.jsonl
      longtail feedback tags.model delete --author anna
    """
    if action == "delete" and (feedback_id is None) == (author is None):
        raise click.UsageError("delete needs --id or --author, and only one of them")
    if action != "delete" and feedback_id is not None:
        raise click.UsageError("--id is for delete")
    if action == "export" and (author is not None or as_json):
        raise click.UsageError("export takes neither --author nor --json")
    if action != "export" and output is not None:
        raise click.UsageError("--output is for export")
    from longtail.feedback import FeedbackStore, feedback_path

    with closing(FeedbackStore(feedback_path(model), must_exist=True)) as store:
        _run(store, action, feedback_id, author, output, as_json=as_json)


def _run(
    store: FeedbackStore,
    action: str,
    feedback_id: str | None,
    author: str | None,
    output: Path | None,
    *,
    as_json: bool,
) -> None:
    if action == "export":
        lines = (json.dumps(stored.as_json(), ensure_ascii=False) + "\n" for stored in store)
        if output is None:
            sys.stdout.writelines(lines)
            return
        with output.open("x", encoding="utf-8") as file:
            file.writelines(lines)
        click.echo(f"wrote {output}", err=True)
        return
    n_found = store.count(author=author) if action == "count" else store.delete(feedback_id=feedback_id, author=author)
    name = "n_feedback" if action == "count" else "n_deleted"
    what = counted(n_found, "correction")
    click.echo(json.dumps({name: n_found}) if as_json else what if action == "count" else f"{what} deleted")
