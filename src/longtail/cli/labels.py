"""longtail labels"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail._words import counted
from longtail.cli import options

if TYPE_CHECKING:
    from longtail.tagging import Tagger

_ACTIONS = ("list", "add", "remove", "rename", "block", "unblock")


@click.command()
@options.model_argument
@click.argument("action", type=click.Choice(_ACTIONS), default="list")
@click.argument("names", nargs=-1)
@options.language_option
@options.reading_options
@options.n_jobs_option
@options.json_option
def labels(
    model: Path,
    action: str,
    names: tuple[str, ...],
    language: str | None,
    reading: dict[str, Any],
    n_jobs: int | None,
    as_json: bool,
) -> None:
    """List the labels of MODEL, or change them and save the model.

    \b
    list              every label with its training texts; the default
    add DATA          train the labels of DATA that the model does not know (DiSMEC, LabelTree)
    remove NAME...    forget labels
    rename OLD NEW... give labels other names, in pairs
    block NAME...     never propose labels, but keep them
    unblock NAME...   propose them again

    Nothing but new labels is trained. A file to add from must hold texts without the new labels too.

    \b
    Example:
      longtail labels tags.model rename www web
      longtail labels tags.model block "to be decided"
    """
    if reading and action != "add":
        raise click.UsageError(f"options that say how a file is read go with add, not with {action}")
    if (action == "list") != (not names):
        raise click.UsageError("list takes no names" if names else f"{action} needs {_WANTED[action]}")
    if language is not None and action != "list":
        raise click.UsageError("--language goes with list")
    tagger = options.load_tagger(model, n_jobs)
    if action == "list":
        _print_labels(tagger, options.namer(model, tagger, language), as_json=as_json)
        return
    before = set(tagger.label_names_)
    _CHANGES[action](tagger, names, reading)
    import longtail

    longtail.save(tagger, model, overwrite=True)
    n_new = len(set(tagger.label_names_) - before)
    result = {"model": str(model), "n_labels": tagger.n_labels_, "n_new": n_new, "blocked": list(tagger.blocked)}
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False))
        return
    n_blocked = len(set(tagger.blocked) & set(tagger.label_names_))
    blocked = f", {n_blocked} of them blocked" if n_blocked else ""
    added = f"{counted(n_new, 'new label')}; " if action == "add" else ""
    click.echo(f"{added}{model} now has {counted(tagger.n_labels_, 'label')}{blocked}", err=True)


def _add(tagger: Tagger, names: tuple[str, ...], reading: dict[str, Any]) -> None:
    if len(names) != 1:
        raise click.UsageError(f"add needs {_WANTED['add']}, got {len(names)}")
    data = options.read_texts(Path(names[0]), reading)
    tagger.add_labels(data.texts, data.labels, progress="bar")


def _rename(tagger: Tagger, names: tuple[str, ...], _reading: dict[str, Any]) -> None:
    if len(names) % 2:
        raise click.UsageError(f"rename needs {_WANTED['rename']}, got {counted(len(names), 'name')}")
    tagger.rename_labels(dict(zip(names[::2], names[1::2], strict=True)))


_CHANGES: dict[str, Callable[[Tagger, tuple[str, ...], dict[str, Any]], object]] = {
    "add": _add,
    "remove": lambda tagger, names, _: tagger.remove_labels(names),
    "rename": _rename,
    "block": lambda tagger, names, _: tagger.block(names),
    "unblock": lambda tagger, names, _: tagger.unblock(names),
}
_WANTED = {
    "add": "one data file",
    "remove": "the names of labels",
    "rename": "pairs of an old and a new name",
    "block": "the names of labels",
    "unblock": "the names of labels",
}


def _print_labels(tagger: Tagger, name_of: Callable[[str], str] | None, *, as_json: bool) -> None:
    blocked = set(tagger.blocked)
    rows = zip(tagger.label_names_, tagger.label_counts_.tolist(), strict=True)
    for label, n_rows in rows:
        named = {} if name_of is None else {"name": name_of(label)}
        if as_json:
            row = {"label": label, **named, "n_rows": n_rows, "blocked": label in blocked}
            click.echo(json.dumps(row, ensure_ascii=False))
        else:
            words = [options.printable(word) for word in dict.fromkeys([label, *named.values()])]
            click.echo(f"{n_rows:9}  {'  '.join(words)}{'  (blocked)' if label in blocked else ''}")
