"""longtail explain"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from longtail.cli import options

if TYPE_CHECKING:
    from longtail.tagging.explanations import Explanation

_N_LISTED = 12
# Words are marked by their contribution relative to the strongest: (least share, style).
_STRENGTHS: tuple[tuple[float, dict[str, bool]], ...] = (
    (0.5, {"bold": True, "underline": True}),
    (0.2, {"bold": True}),
    (0.05, {}),
)


@click.command()
@options.model_argument
@click.argument("text")
@click.option("--label", help="The label to explain, or a name of it; default: the best one.")
@options.language_option
@options.n_jobs_option
@options.verify_option
@options.json_option
def explain(
    model: Path,
    text: str,
    label: str | None,
    language: str | None,
    n_jobs: int | None,
    verify: bool,
    as_json: bool,
) -> None:
    """Show which words of TEXT speak for a label and which against it.

    On a terminal words for it are green, words against it red, those that matter most underlined.

    \b
    Example:
      longtail explain tags.model "a small web server for static files" --label web::server
    """
    tagger = options.load_tagger(model, n_jobs, verify=verify)
    name_of = options.namer(model, tagger, language)
    if label is not None and label not in tagger.label_names_ and tagger.vocabulary_ is not None:
        label = tagger.vocabulary_.find(label) or label
    if label is None:
        best = tagger.tag([text], top_k=1)[0]
        if not best:
            raise ValueError("the model has no label for this text; name one with --label")
        label = best[0].label
    found = tagger.explain(text, label)
    named = {} if name_of is None else {"name": name_of(label)}
    if as_json:
        words = [word._asdict() for word in found.words]
        click.echo(json.dumps(asdict(found) | {"words": words} | named, ensure_ascii=False))
    else:
        click.echo(_page(text, found, named.get("name", label)))


def _page(text: str, found: Explanation, name: str) -> str:
    how = "words and bias add up to it" if found.exact else "the words' parts are estimates"
    lines = [
        _marked(text, found),
        "",
        f"{click.style(options.printable(name), bold=True)}: score {found.score:.4f} ({how})",
    ]
    width = max((len(word.word) for word in found.words[:_N_LISTED]), default=4)
    for word in found.words[:_N_LISTED]:
        colour = "green" if word.contribution > 0 else "red"
        lines.append(
            f"  {options.printable(word.word):<{width}}  {click.style(f'{word.contribution:+.4f}', fg=colour)}"
        )
    others = found.words[_N_LISTED:]
    if others:
        total = sum(word.contribution for word in others)
        lines.append(f"  {f'{len(others)} others':<{width}}  {total:+.4f}")
    lines.append(f"  {'bias':<{width}}  {found.bias:+.4f}")
    return "\n".join(lines)


def _marked(text: str, found: Explanation) -> str:
    """Colour every character by the sum of what covers it."""
    weights = [0.0] * len(text)
    for word in found.words:
        for begin, end in word.spans:
            for at in range(begin, end):
                weights[at] += word.contribution
    greatest = max(map(abs, weights), default=0.0) or 1.0
    pieces: list[str] = []
    begin = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or weights[at] != weights[begin]:
            pieces.append(_styled(options.printable(text[begin:at], keep="\n"), weights[begin] / greatest))
            begin = at
    return "".join(pieces)


def _styled(piece: str, share: float) -> str:
    for least, look in _STRENGTHS:
        if abs(share) >= least:
            return click.style(piece, fg="green" if share > 0 else "red", **look)
    return piece
