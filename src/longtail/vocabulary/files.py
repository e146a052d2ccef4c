"""Read vocabularies: SKOS through rdflib, and tables."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from pathlib import Path
from typing import Any

from longtail.vocabulary.concepts import Concept, Vocabulary

_RDF = {
    ".rdf": "xml",
    ".xml": "xml",
    ".owl": "xml",
    ".ttl": "turtle",
    ".nt": "nt",
    ".jsonld": "json-ld",
    ".json": "json-ld",
}
_TABLES = {".tsv": "\t", ".csv": ","}
_MAX_BYTES = 2 << 30
_SEPARATOR = "|"
_SKOS = "http://www.w3.org/2004/02/skos/core#"
_DEPRECATED = "http://www.w3.org/2002/07/owl#deprecated"
_TRUE = ("true", "1", "yes")


def read_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Read a vocabulary by file extension.

    Parameters
    ----------
    path : path
        SKOS as RDF/XML (.rdf, .xml), Turtle (.ttl), N-Triples (.nt) or JSON-LD (.jsonld, .json), which need
        ``pip install 'longtail[skos]'``; or a table (.tsv, .csv) with a header. The columns of a table are ``id``,
        ``name`` or ``name@LANGUAGE``, ``alternatives`` or ``alternatives@LANGUAGE``, ``parents``, ``note`` and
        ``retired``; several alternatives or parents in a cell are separated by ``|``. A .tsv without a header is
        Annif's: ``<URI>`` and name.

    Returns
    -------
    Vocabulary
    """
    source = Path(path)
    ending = source.suffix.lower()
    if ending not in _RDF and ending not in _TABLES:
        known = ", ".join([*_RDF, *_TABLES])
        raise ValueError(f"{source}: a vocabulary must end in one of {known}, got {ending or 'no ending'!r}")
    size = source.stat().st_size
    if size > _MAX_BYTES:
        raise ValueError(f"{source}: a vocabulary must have at most {_MAX_BYTES:,} bytes, got {size:,}")
    try:
        content = source.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: must be UTF-8: {error.reason} at byte {error.start}") from None
    if ending in _RDF:
        return _from_skos(source, content, _RDF[ending])
    return _from_table(source, content, _TABLES[ending])


def _from_table(source: Path, content: str, delimiter: str) -> Vocabulary:
    if delimiter == "\t" and content.lstrip().startswith("<"):
        return _from_annif(source, content)
    csv.field_size_limit(1 << 24)
    rows = csv.reader(io.StringIO(content), delimiter=delimiter, strict=True)
    try:
        header = [name.strip() for name in next(rows, [])]
        for name in header:
            base, _, _ = name.partition("@")
            if base not in ("id", "name", "alternatives", "parents", "note", "retired"):
                raise ValueError(f"{source}: column {name!r} is not known; see longtail.read_vocabulary")
        if "id" not in header:
            raise ValueError(f"{source}: the first line must name the columns, one of them id; got {header!r}")
        found = []
        for cells in rows:
            if not any(cells):
                continue
            if len(cells) != len(header):
                raise ValueError(f"{source}, line {rows.line_num}: must have {len(header)} cells, got {len(cells)}")
            found.append(_concept_of(dict(zip(header, (cell.strip() for cell in cells), strict=True))))
    except csv.Error as error:
        raise ValueError(f"{source}, line {rows.line_num}: {error}") from None
    return Vocabulary(found)


def _concept_of(cells: dict[str, str]) -> Concept:
    names: dict[str, str] = {}
    alternatives: dict[str, list[str]] = {}
    for column, cell in cells.items():
        base, _, language = column.partition("@")
        if base == "name" and cell:
            names[language] = cell
        elif base == "alternatives" and cell:
            alternatives[language] = _split(cell)
    return Concept(
        id=cells["id"],
        names=names,
        alternatives=alternatives,
        parents=_split(cells.get("parents", "")),
        note=cells.get("note", ""),
        retired=cells.get("retired", "").lower() in _TRUE,
    )


def _split(cell: str) -> list[str]:
    return [part.strip() for part in cell.split(_SEPARATOR) if part.strip()]


def _from_annif(source: Path, content: str) -> Vocabulary:
    found = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        uri, _, rest = line.partition("\t")
        if not (uri.startswith("<") and uri.endswith(">")):
            raise ValueError(f"{source}, line {number}: must begin with <URI>, got {line[:40]!r}")
        found.append(Concept(id=uri[1:-1], names={"": rest.partition("\t")[0].strip()} if rest.strip() else {}))
    return Vocabulary(found)


def _from_skos(source: Path, content: str, form: str) -> Vocabulary:
    try:
        import rdflib
    except ImportError as error:
        raise ImportError(f"{source}: SKOS needs more packages ({error.name}): pip install 'longtail[skos]'") from None
    if form == "json-ld":
        _check_contexts(source, content)
    graph: Any = rdflib.Graph()
    try:
        # Parsed from memory: a relative address in the file is never fetched from the network.
        with warnings.catch_warnings():  # rdflib's JSON-LD reader uses deprecated parts of itself
            warnings.simplefilter("ignore", DeprecationWarning)
            graph.parse(data=content, format=form, publicID="urn:longtail:")
    except Exception as error:  # every parser of rdflib has its own errors
        raise ValueError(f"{source}: is not valid {form}: {' '.join(str(error).split())[:300]}") from None
    skos = rdflib.Namespace(_SKOS)
    kinds = graph.subjects(rdflib.RDF.type, skos.Concept)
    uris = sorted({str(uri) for uri in kinds if isinstance(uri, rdflib.URIRef)})
    if not uris:
        raise ValueError(f"{source}: holds no skos:Concept")
    children: dict[str, list[str]] = {}
    for parent, child in graph.subject_objects(skos.narrower):
        children.setdefault(str(child), []).append(str(parent))
    found = []
    for uri in uris:
        node = rdflib.URIRef(uri)
        names: dict[str, str] = {}
        for literal in sorted(graph.objects(node, skos.prefLabel), key=str):
            names.setdefault(literal.language or "", str(literal))
        alternatives: dict[str, list[str]] = {}
        for kind in (skos.altLabel, skos.hiddenLabel):
            for literal in sorted(graph.objects(node, kind), key=str):
                alternatives.setdefault(literal.language or "", []).append(str(literal))
        parents = sorted({str(parent) for parent in graph.objects(node, skos.broader)} | set(children.get(uri, ())))
        notes = [
            str(note) for kind in (skos.definition, skos.scopeNote, skos.note) for note in graph.objects(node, kind)
        ]
        retired = any(str(value).lower() in _TRUE for value in graph.objects(node, rdflib.URIRef(_DEPRECATED)))
        found.append(
            Concept(
                id=uri,
                names=dict(sorted(names.items())),
                alternatives=dict(sorted(alternatives.items())),
                parents=parents,
                note=" ".join(sorted(notes))[:10_000],
                retired=retired,
            )
        )
    return Vocabulary(found)


def _check_contexts(source: Path, content: str) -> None:
    """Refuse JSON-LD that names a context by its address: rdflib would fetch it from the network."""
    try:
        waiting: list[Any] = [json.loads(content)]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{source}: is not valid JSON: {error}") from None
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            context = value.get("@context", {})
            for part in context if isinstance(context, list) else [context]:
                if not isinstance(part, dict) or "@import" in part:
                    raise ValueError(f"{source}: @context must be in the file itself, got {str(part)[:100]!r}")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
