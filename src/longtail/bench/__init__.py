"""Measure a matrix of data sets, systems and threads, and render the results.

`longtail bench` is a shell over this package. A matrix (`matrix.py`) lists cells; each cell runs in its own process
(`worker.py`); results are stored (`runner.py`, `results.py`) and rendered (`tables.py`, `plots.py`). Other libraries
take part through adapters outside of this package (`systems.load_peers`).
"""

from longtail.bench.matrix import Cell, Data, make_matrix, read_matrix
from longtail.bench.plots import check_matplotlib, draw_plots
from longtail.bench.results import read_results
from longtail.bench.runner import run_matrix
from longtail.bench.systems import load_peers
from longtail.bench.tables import render_tables

__all__ = [
    "Cell",
    "Data",
    "check_matplotlib",
    "draw_plots",
    "load_peers",
    "make_matrix",
    "read_matrix",
    "read_results",
    "render_tables",
    "run_matrix",
]
