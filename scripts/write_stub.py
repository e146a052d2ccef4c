"""Write the type stub of the native core; with --check, fail if the committed one is out of date."""

import argparse
import importlib
import sys
from pathlib import Path

from nanobind.stubgen import StubGen

import longtail._core as core


def stub_text() -> str:
    module = importlib.import_module(f"longtail._core_{core.isa}")
    generator = StubGen(module)
    generator.put(module)
    header = "# Written by scripts/write_stub.py (make stub); do not edit.\n"
    return header + generator.get().replace(f"_core_{core.isa}", "_core") + "\nisa: str\n"


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("stub", type=Path)
parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the stub is out of date")
options = parser.parse_args()
text = stub_text()
if not options.check:
    options.stub.write_text(text)
elif not options.stub.exists() or options.stub.read_text() != text:
    sys.exit(f"{options.stub} is out of date: run `make stub` and commit it")
