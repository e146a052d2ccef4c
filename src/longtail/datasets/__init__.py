"""Read, write and make data sets: sparse rows with sparse labels, or raw text with label names."""

from longtail.datasets._csr import unit_rows
from longtail.datasets.csr_directory import read_csr_directory, write_csr_directory
from longtail.datasets.formats import read, write
from longtail.datasets.in_memory import texts_and_labels
from longtail.datasets.npz import read_npz, write_npz
from longtail.datasets.raw_text import read_text, text_format
from longtail.datasets.sample import Sample, load_sample
from longtail.datasets.svmlight import read_svmlight, write_svmlight
from longtail.datasets.synthetic import Synthetic, make_synthetic
from longtail.datasets.text_data import TextData
from longtail.datasets.text_writers import write_jsonl, write_text
from longtail.datasets.xmc import read_xmc, write_xmc

__all__ = [
    "Sample",
    "Synthetic",
    "TextData",
    "load_sample",
    "make_synthetic",
    "read",
    "read_csr_directory",
    "read_npz",
    "read_svmlight",
    "read_text",
    "read_xmc",
    "text_format",
    "texts_and_labels",
    "unit_rows",
    "write",
    "write_csr_directory",
    "write_jsonl",
    "write_npz",
    "write_svmlight",
    "write_text",
    "write_xmc",
]
