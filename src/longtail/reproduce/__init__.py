"""Reproduce the tables and figures of the papers that longtail implements.

`longtail reproduce` is a shell over this package. Tables and figures are declared in `papers/*.toml` (`paper.py`),
planned (`plan.py`), run as cells of a bench (`longtail.bench`), compared with the published numbers (`compare.py`),
and rendered (`render.py`, `figures.py`).
"""

from longtail.reproduce.compare import Measured, by_key, compare_row
from longtail.reproduce.figures import draw_item
from longtail.reproduce.paper import Item, Paper, paper_keys, read_paper
from longtail.reproduce.plan import Plan, check_names, describe_item, join_plans, plan_item
from longtail.reproduce.render import LEGEND, item_records, render_item

__all__ = [
    "LEGEND",
    "Item",
    "Measured",
    "Paper",
    "Plan",
    "by_key",
    "check_names",
    "compare_row",
    "describe_item",
    "draw_item",
    "item_records",
    "join_plans",
    "paper_keys",
    "plan_item",
    "read_paper",
    "render_item",
]
