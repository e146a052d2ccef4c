"""Messages of commands use the words of the shell."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from longtail.cli.app import app
from longtail.cli.shell_words import in_shell_words
from tests.cli.test_commands import longtail


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("f.csv: pass label_column=… for one of a, b", "f.csv: pass --label-column … for one of a, b"),
        ("pass label_separator=',' to split them there", "pass --label-separator ',' to split them there"),
        ("or label_separator='' if each", "or --label-separator '' if each"),
        ("m exists; pass overwrite=True to replace it", "m exists; pass --overwrite to replace it"),
        ("or pass quotes=False if", "or pass --no-quotes if"),
        ("top_k must be an int >= 1, got 0", "--top-k must be an int >= 1, got 0"),
        ("data 'small': top_k must be a str, got 3", "data 'small': top_k must be a str, got 3"),
        ("or pass format= one of jsonl, json", "or pass --format one of jsonl, json"),
        ("pass it, such as encoding='cp1252'", "pass it, such as --encoding 'cp1252'"),
        ("it has bias, n_jobs, top_k", "it has bias, n_jobs, top_k"),
        ("data/top_k.csv does not exist", "data/top_k.csv does not exist"),
        ("there is no column 'label_column'", "there is no column 'label_column'"),
        ("no format with the ending .x is known", "no format with the ending .x is known"),
    ],
)
def test_parameters_become_options(message: str, expected: str) -> None:
    assert in_shell_words(message, app.commands["predict"]) == expected


def test_parameters_of_other_commands_stay() -> None:
    assert in_shell_words("pass top_k=3", click.Command("none")) == "pass top_k=3"


@pytest.mark.parametrize("quoted", ['"5 inch" disk\tdisk\n', 'a disk\tdisk\n"open\tdisk\n'])
def test_quotation_marks_in_a_tsv_have_a_way_out(tmp_path: Path, quoted: str) -> None:
    data = tmp_path / "t.tsv"
    data.write_text(f"text\tlabels\n{quoted}")
    refused = longtail("convert", data, "-", ok=False)
    assert refused.code == 2
    assert "--no-quotes" in refused.stderr
    assert "quotes=" not in refused.stderr
    longtail("convert", data, "-", "--no-quotes")


def test_columns_are_asked_for_in_shell_words(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("body,tags\na,b\n")
    assert "pass --text-column … for one of body, tags" in longtail("convert", data, "-", ok=False).stderr
