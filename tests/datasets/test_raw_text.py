"""Texts with label names: what is accepted, and where an error is said to be."""

import csv
import gzip
import re
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.datasets import load_sample, read_text, write_jsonl


def write(tmp_path, name: str, text: str | bytes):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_jsonl_keeps_the_order_drops_repeats_and_ignores_other_keys(tmp_path):
    path = write(
        tmp_path,
        "rows.jsonl",
        '\ufeff{"text": "one\\nline", "labels": ["b", "a", "b"], "id": 7}\r\n\n{"text": "größer"}\n',
    )
    assert read_text(path) == (["one\nline", "größer"], [["b", "a"], []])


def test_csv_and_tsv_have_named_columns_and_separated_labels(tmp_path):
    path = write(tmp_path, "rows.csv", 'id,labels,text\n1,b; a,"a, ""quoted""\ntext"\n2,,plain\n\n')
    assert read_text(path) == (['a, "quoted"\ntext', "plain"], [["b", "a"], []])
    path = write(tmp_path, "rows.tsv.gz", gzip.compress(b"text\tlabels\r\nsome text\tx|y\r\n"))
    assert read_text(path, label_separator="|") == (["some text"], [["x", "y"]])
    assert read_text(write(tmp_path, "bare.csv", "text\nonly text\n")) == (["only text"], [[]])


def test_long_cells_are_read_and_the_global_limit_of_csv_is_left_alone(tmp_path):
    before = csv.field_size_limit()
    path = write(tmp_path, "rows.csv", "text,labels\n" + "x" * 300_000 + ",a\n")
    texts, _ = read_text(path)
    assert len(texts[0]) == 300_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize(
    ("name", "text", "place", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "b"', "line 2, column 13", "not valid JSON"),
        ("a.jsonl", '{"text": "a"} x\n', "line 1, column 15", "Extra data"),
        ("a.jsonl", "[1]\n", "line 1, column 1", "expected an object"),
        ("a.jsonl", '{"labels": []}\n', "line 1, column 1", "expected an object"),
        ("a.jsonl", '\n\n{"text": 5}\n', "line 3, column 1", "text must be text, got int"),
        ("a.jsonl", '{"text": "a", "labels": {"b": 1}}\n', "line 1, column 1", "labels must be text or whole numbers"),
        ("a.jsonl", '{"text": "a", "labels": [1.5]}\n', "line 1, column 1", "labels must be text or whole numbers"),
        ("a.jsonl", '{"body": "a"}\n', "line 1, column 1", "got body; pass text_column="),
        ("a.jsonl", '{"text": "\\ud800"}\n', "line 1, column 1", "surrogate"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\xff"}\n', "line 2, column 11", "not valid UTF-8"),
        ("a.jsonl", "[" * 100_000, "line 1, column 1", "not JSON that can be read"),
        ("a.jsonl", "9" * 10_000, "line 1, column 1", ""),
        ("a.jsonl", '{"text": "' + "x" * 200 + '"}', "line 1, column 1", "longer than 100 bytes"),
        ("a.csv", "", "line 1, column 1", "expected a line of column names"),
        ("a.csv", "title,labels\n", "line 1, column 1", "pass text_column=… for one of title, labels"),
        ("a.csv", "text,text\n", "line 1, column 1", "there are two columns 'text'"),
        ("a.csv", "text,labels\na,b,c\n", "line 2, column 1", "expected 2 cells, got 3"),
        ("a.csv", 'text,labels\n"a"b,c\n', "line 2, column 1", "a quoted cell must be followed by ',' or the end"),
        ("a.csv", 'text,labels\n"a,c\nd\n', "line 3, column 1", "a quotation mark opens a cell that is never closed"),
        (
            "a.csv",
            'text,labels\n"' + ("x" * 60 + "\n") * 9 + '",b',
            "line 3, column 1",
            "is a closing quotation mark missing?",
        ),
        ("a.tsv", b"text\tlabels\n\xe4\tb\n", "line 2, column 1", "not valid UTF-8"),
    ],
)
def test_errors_name_file_line_and_column(tmp_path, name, text, place, message):
    path = write(tmp_path, name, text)
    limit = 100 if len(text) < 1000 else 1 << 20
    with pytest.raises(ValueError) as raised:
        read_text(path, max_line_bytes=limit)
    assert str(raised.value).startswith(f"{path}, {place}: ")
    assert message in str(raised.value)


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv"])
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from([b'{"text": "', b'", "labels": [', b'"a"', b"]}", b"text,labels\n", b"text\tlabels\n"]),
            st.sampled_from(
                [b"\n", b"\r\n", b'"', b",", b"\t", b";", b"\x00", b"\xff", b"\\ud800", b"[[", b"NaN", b"\x1f\x8b"]
            ),
        ),
        max_size=12,
    )
)
def test_any_bytes_are_read_or_refused_with_their_place(tmp_path, name, pieces):
    path = write(tmp_path, name, b"".join(pieces))
    try:
        texts, labels = read_text(path)
        message = ""
    except ValueError as error:
        texts, labels, message = [], [], str(error)
    assert len(texts) == len(labels)
    assert not message or re.search(r", line \d+, column \d+: |\(line \d+: |not a sound gzip", message)


def test_names_must_tell_the_format(tmp_path):
    with pytest.raises(
        ValueError, match=r"\.jsonl, \.ndjson, \.json, \.csv, \.tsv, \.fasttext, .* or pass format= one of jsonl, json"
    ):
        read_text(write(tmp_path, "rows.doc", ""))


def test_write_jsonl_refuses_what_is_no_text(tmp_path):
    with pytest.raises(ValueError, match="same length, got 2 and 1"):
        write_jsonl(tmp_path / "a.jsonl", ["a", "b"], [["c"]])
    with pytest.raises(ValueError, match="row 1: labels must be text or whole numbers, got float"):
        write_jsonl(tmp_path / "a.jsonl", ["a", "b"], [["c"], [3.5]])
    with pytest.raises(ValueError, match="row 0: text holds half of a surrogate pair"):
        write_jsonl(tmp_path / "a.jsonl", ["\ud800"], [[]])
    assert list(tmp_path.iterdir()) == []


def test_the_sample_is_whole_small_and_split_without_repeats():
    from longtail.datasets import sample as module

    sample = load_sample()
    assert (len(sample.train_texts), len(sample.test_texts)) == (23_055, 7_245)
    assert all(sample.train_labels)
    assert all(sample.test_labels)
    assert len({name for names in sample.train_labels for name in names}) == 583
    assert not set(sample.train_texts) & set(sample.test_texts)
    assert sum(path.stat().st_size for path in module._FOLDER.iterdir()) < 4_000_000


def test_importing_datasets_does_not_import_scikit_learn_or_scipy():
    import subprocess

    code = "import sys, longtail.datasets; sys.exit(any(m in sys.modules for m in ('sklearn', 'scipy', 'click')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
