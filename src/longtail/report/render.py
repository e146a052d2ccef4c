"""Render findings as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import jinja2
from markupsafe import Markup

import longtail
from longtail.report.findings import TABLE_KS, Findings
from longtail.report.plots import draw_all

_MEASURES = {
    "P": "Precision",
    "nDCG": "nDCG",
    "recall": "Recall",
    "F1": "F1",
    "coverage": "Coverage",
    "PSP": "Precision, propensity-scored",
    "PSnDCG": "nDCG, propensity-scored",
    "PSrecall": "Recall, propensity-scored",
}


def render(findings: Findings, *, title: str = "Evaluation report", model: str = "", data: str = "") -> str:
    """Write the findings as HTML; everything that comes from the model or the data is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("longtail.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = lambda value: f"{value:,}"
    environment.filters["fact"] = _fact
    return environment.get_template("template.html").render(
        f=findings,
        title=title,
        model=model,
        data=data,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        library_version=longtail.__version__,
        ks=TABLE_KS,
        measures={name: text for name, text in _MEASURES.items() if name in findings.table},
        plots={name: Markup(svg) for name, svg in draw_all(findings).items()},  # numbers only
        card=_flat({name: fact for name, fact in findings.card.items() if name != "metrics"}),  # newer ones are above
    )


def _flat(facts: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Lay nested facts out as one list of names and values."""
    rows: list[tuple[str, Any]] = []
    for key, value in facts.items():
        name = f"{prefix}{str(key).replace('_', ' ')}"
        if isinstance(value, Mapping):
            rows += _flat(value, f"{name}: ")
        else:
            rows.append((name, value))
    return rows


def _fact(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_fact, value))
    return str(value)
