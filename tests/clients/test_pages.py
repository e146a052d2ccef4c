"""The examples of the clients' pages, with the packages that they are about."""

import doctest
import shutil
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parent.parent.parent / "docs" / "clients"


@pytest.mark.parametrize(
    ("page", "package"),
    [("spacy", "spacy"), ("hugging_face", "huggingface_hub"), ("duckdb", "duckdb"), ("polars", "polars")],
)
def test_every_example_of_a_page_is_true(page, package, model, tmp_path, monkeypatch):
    pytest.importorskip(package, reason=f"{package} is not installed; run `make clients-test`")
    shutil.copytree(model, tmp_path / "tags.model")
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(PAGES / f"{page}.md"), module_relative=False, encoding="utf-8")
    assert results.attempted >= 4
    assert results.failed == 0
