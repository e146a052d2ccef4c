"""A model card in Markdown, written from what a model knows about itself."""

from __future__ import annotations

import json
from typing import Any

from longtail._model import Model

_N_FREQUENT = 10


def model_card(model: Model, *, name: str = "model") -> str:
    """Describe a fitted model for people, with the metadata that the Hugging Face hub reads.

    What a model cannot know is left as a placeholder in brackets: where the data comes from, its licence, and what the
    model should not be used for.

    Parameters
    ----------
    model : a fitted Tagger or estimator
    name : str, default "model"
        Heading of the card.

    Returns
    -------
    str
        Markdown that begins with a block of YAML.

    Examples
    --------
    >>> import longtail as lt
    >>> texts, labels = ["small web server", "web browser"], [["net", "server"], ["net"]]
    >>> tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    >>> print(lt.model_card(tagger, name="Tags").split("## ")[1])
    Data
    <BLANKLINE>
    | | |
    |---|---|
    | training rows | 2 |
    | features | 4 |
    | labels | 2 |
    | labels per row | 1.5 |
    | rows per label: least, median, greatest | 1, 1.5, 2 |
    | labels with at most 5 rows | 2 |
    <BLANKLINE>
    Most frequent labels: `net`, `server`.
    <BLANKLINE>
    <BLANKLINE>
    """
    card = model.card()
    parts = [
        _metadata(model, card),
        f"# {name}\n\n{_summary(model, card)}\n",
        "## Data\n\n" + _table(_data_rows(card)) + _frequent(model),
        "## Quality\n\n" + _quality(card),
        "## Parameters\n\n" + _table(_parameter_rows(card)),
        "## Limits\n\n[What the model should not be used for. Where the data comes from, and under which licence.]\n",
        "## Use\n\n" + _use(model),
    ]
    return "\n".join(parts)


def _metadata(model: Model, card: dict[str, Any]) -> str:
    lines = ["library_name: longtail", "tags:", "- multi-label-classification", "- extreme-classification"]
    if model.takes_texts:
        lines.append("pipeline_tag: text-classification")
    lines += ["model-index:", *_results(card)] if card.get("metrics") else []
    return "\n".join(["---", *lines, "---"]) + "\n"


def _results(card: dict[str, Any]) -> list[str]:
    """Write the metrics as the hub's leaderboards read them."""
    lines = [
        f"- name: {card['estimator']}",
        "  results:",
        "  - task:",
        "      type: text-classification",
        "    dataset:",
        f"      name: {json.dumps(_data_name(card), ensure_ascii=False)}",
        "      type: unknown",
        "    metrics:",
    ]
    for name, value in card["metrics"].items():
        lines += [f"    - type: {json.dumps(name)}", f"      value: {value:.2f}"]
    return lines


def _data_name(card: dict[str, Any]) -> str:
    return (card.get("evaluated_on") or {}).get("data") or "held-out rows"


def _summary(model: Model, card: dict[str, Any]) -> str:
    inputs = "texts" if model.takes_texts else "rows of features"
    kind = "calibrated probabilities" if model.calibration_ is not None else "scores"
    return (
        f"A {card['estimator']} model of longtail {card['versions']['longtail']}: "
        f"ranks {card['n_labels']:,} labels for {inputs}, with {kind}."
    )


def _data_rows(card: dict[str, Any]) -> list[tuple[str, str]]:
    counts = card["label_counts"]
    spread = ", ".join(f"{counts[name]:,}" for name in ("least", "median", "greatest"))
    return [
        ("training rows", f"{card['n_rows']:,}"),
        ("features", f"{card['n_features']:,}"),
        ("labels", f"{card['n_labels']:,}"),
        ("labels per row", f"{counts['labels_per_row']:.2g}"),
        ("rows per label: least, median, greatest", spread),
        ("labels with at most 5 rows", f"{counts['n_labels_up_to_5']:,}"),
    ]


def _frequent(model: Model) -> str:
    names = model.label_names_
    if not names:
        return ""
    order = sorted(range(len(names)), key=lambda label_id: (-int(model.label_counts_[label_id]), label_id))
    shown = ", ".join(_code(names[label_id]) for label_id in order[:_N_FREQUENT])
    return f"\nMost frequent labels: {shown}.\n"


def _quality(card: dict[str, Any]) -> str:
    metrics = card.get("metrics") or {}
    if not metrics:
        return "Not measured: `longtail evaluate` measures a model on held-out rows, and `Tagger.evaluate` keeps it.\n"
    measured = f"Measured on {_code(_data_name(card))}, in percent:\n\n"
    return measured + _table([(name, f"{value:.2f}") for name, value in metrics.items()])


def _parameter_rows(card: dict[str, Any]) -> list[tuple[str, str]]:
    parts = {card["estimator"]: card.get("parameters"), "TextVectorizer": card.get("vectorizer")}
    return [
        (f"{owner}: {name}", _code(json.dumps(value, ensure_ascii=False)))
        for owner, params in parts.items()
        for name, value in (params or {}).items()
    ]


def _use(model: Model) -> str:
    call = 'model.tag(["a text"])' if model.takes_texts else "model.predict_top_k(X)"
    return f'```python\nimport longtail as lt\n\nmodel = lt.load("path of this folder")\n{call}\n```\n'


def _table(rows: list[tuple[str, str]]) -> str:
    return "".join(["| | |\n|---|---|\n", *(f"| {name} | {value} |\n" for name, value in rows)])


def _code(text: str) -> str:
    """Quote a name for Markdown, also within tables, whatever it holds."""
    plain = " ".join(text.split()).replace("|", "\\|")[:200]
    if "`" not in plain:
        return f"`{plain}`"
    ticks = "`" * (plain.count("`") + 1)
    return f"{ticks} {plain} {ticks}"
