"""Run a declared matrix of data sets, systems and threads, ours and others', and show what came out.

`longtail bench` is a shell over this package: a matrix (`matrix.py`) lists cells; each runs in a process of its own
(`worker.py`), a peer's in its own environment (`environments.py`); lines are stored (`runner.py`, `results.py`) and
rendered (`tables.py`, `plots.py`).
"""

from longtail.bench.environments import Environments
from longtail.bench.matrix import Cell, Data, make_matrix, read_matrix
from longtail.bench.plots import check_matplotlib, draw_plots
from longtail.bench.results import read_results
from longtail.bench.runner import run_matrix
from longtail.bench.tables import render_tables

__all__ = [
    "Cell",
    "Data",
    "Environments",
    "check_matplotlib",
    "draw_plots",
    "make_matrix",
    "read_matrix",
    "read_results",
    "render_tables",
    "run_matrix",
]
