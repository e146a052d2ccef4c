"""Evaluation reports: one self-contained HTML file; needs the extra ``longtail[report]``."""

from longtail.report.findings import Findings, Timing, examine
from longtail.report.render import render

__all__ = ["Findings", "Timing", "examine", "render"]
