"""longtail vocabulary"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from longtail._words import counted
from longtail.cli import options

if TYPE_CHECKING:
    from longtail.tagging import Tagger
    from longtail.vocabulary import Vocabulary


@click.command()
@options.model_argument
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--data", type=click.Path(exists=True, path_type=Path), help="Held-out texts, to trust names by.")
@click.option("--rename", nargs=2, metavar="ID NAME", help="Give a label another preferred name.")
@click.option("--retire", metavar="ID", help="Never propose a label any more.")
@click.option("--restore", metavar="ID", help="Propose a retired label again.")
@click.option("--language", default="", help="Language of the names that are shown or given; default: none.")
@options.reading_options
@options.json_option
def vocabulary(
    model: Path,
    file: Path | None,
    data: Path | None,
    rename: tuple[str, str] | None,
    retire: str | None,
    restore: str | None,
    language: str,
    reading: dict[str, Any],
    as_json: bool,
) -> None:
    """Give the labels of MODEL names, parents and notes from FILE, change them, or describe them. Nothing is trained.

    FILE is SKOS (.rdf, .ttl, .jsonld) or a table (.tsv, .csv); its ids must be the labels of the model. With --data,
    labels without training texts are proposed by their names: `longtail tag MODEL --unseen`.

    \b
    Example:
      longtail vocabulary tags.model subjects.ttl --data held_out.jsonl
      longtail tag tags.model --language fi "a small web server"
    """
    if data is not None and file is None:
        raise click.UsageError("--data goes with FILE")
    if reading and data is None:
        raise click.UsageError("options that say how a file is read go with --data")
    import longtail
    from longtail.saving import save

    tagger = options.load_tagger(model, None)
    if file is not None:
        given = (None, None) if data is None else tuple(options.read_texts(data, reading))
        tagger.set_vocabulary(longtail.read_vocabulary(file), *given)
    is_changed = any(change is not None for change in (rename, retire, restore))
    if is_changed:
        found = _vocabulary_of(model, tagger)
        found = found if rename is None else found.rename(*rename, language)
        found = found if retire is None else found.retire(retire)
        found = found if restore is None else found.retire(restore, retired=False)
        tagger._change_vocabulary(found)
    if file is not None or is_changed:
        save(tagger, model, overwrite=True)
    _describe(model, tagger, language, as_json=as_json)


def _vocabulary_of(model: Path, tagger: Tagger) -> Vocabulary:
    found = tagger.vocabulary_
    if found is None:
        raise ValueError(f"{model} has no vocabulary: run longtail vocabulary {model} FILE first")
    return found


def _describe(model: Path, tagger: Tagger, language: str, *, as_json: bool) -> None:
    found = tagger.vocabulary_
    if found is None:
        click.echo(f"{model} has no vocabulary", err=True)
        return
    labels = tagger.label_names_
    n_known = sum(label in found for label in labels)
    summary = {
        "n_concepts": len(found),
        "n_labels": len(labels),
        "n_labels_in_vocabulary": n_known,
        "n_retired": len(found.retired),
        "languages": found.languages,
        "n_roots": len(found.roots()),
    }
    if as_json:
        click.echo(json.dumps(summary, ensure_ascii=False))
        return
    click.echo(
        f"{counted(len(found), 'concept')} in {', '.join(found.languages) or 'no language'}; "
        f"{n_known} of {counted(len(labels), 'label')} are among them; {len(found.retired)} retired"
    )
    groups = found.group(label for label in labels if label in found)
    largest = sorted(groups.items(), key=lambda item: -len(item[1]))[:20]
    for root, members in largest:
        click.echo(f"{len(members):9}  {options.printable(found.name(root, language))}")
