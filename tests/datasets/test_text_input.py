"""One reader for texts: columns, separators, formats by content, and a line that says what was understood."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from longtail.datasets import TextData, read_text, text_format, write_text


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_fasttext_splits_at_ascii_blanks_only(tmp_path: Path) -> None:
    path = put(tmp_path, "a.ft", "__label__new\u00a0york a\u00a0b\u3000c\t__label__x\u2028y d\n")
    assert read_text(path) == (["a\u00a0b\u3000c d"], [["new\u00a0york", "x\u2028y"]])


def test_a_table_of_one_column_keeps_blank_rows(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", 'text\none\n\n""\nfour\n')
    data = read_text(path)
    assert data.texts == ["one", "", "", "four"]
    assert data.understood == "4 texts from column 'text', 2 of them empty, no labels"


@pytest.mark.parametrize("mark", [",", "|"])
def test_labels_separated_by_something_else_are_never_one_label(tmp_path: Path, mark: str) -> None:
    path = put(tmp_path, "a.tsv", f"text\tlabels\none\tx\ntwo\ta{mark}b{mark}c\n")
    with pytest.raises(ValueError, match=r"labels hold '.' but no ';' \(line 3|labels hold '.' \(line 3") as raised:
        read_text(path)
    assert f"pass label_separator={mark!r} to split them there, or label_separator=''" in str(raised.value)
    assert read_text(path, label_separator=mark).labels == [["x"], ["a", "b", "c"]]
    assert read_text(path, label_separator="").labels == [["x"], [f"a{mark}b{mark}c"]]
    assert read_text(path, with_labels=False).labels == [[], []]


def test_commas_inside_names_are_fine_where_semicolons_separate(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", "text\tlabels\none\tscience, general; art\ntwo\tlaw, civil\n")
    data = read_text(path)
    assert data.labels == [["science, general", "art"], ["law, civil"]]
    assert data.understood == ("2 texts from column 'text' (tab-separated), 3 labels from column 'labels' split at ';'")


@pytest.mark.parametrize("clear", ["a;b", '"[""a""]"'])
def test_one_clear_cell_does_not_turn_hundreds_of_others_into_single_labels(tmp_path: Path, clear: str) -> None:
    path = put(tmp_path, "a.csv", f"text,labels\none,{clear}\n" + 'two,"x,y"\n' * 11)
    with pytest.raises(ValueError, match=r"labels hold ',' \(line 3: 'x,y'\), as do 11 cells in all, but only 1 can"):
        read_text(path)
    assert read_text(path, label_separator=";").labels[1:] == [["x,y"]] * 11


def test_a_blank_line_between_rows_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "text,labels\none,x\n\n\ntwo,y\n")
    with pytest.raises(ValueError, match=r"a.csv, line 3, column 1: expected 2 cells, got a blank line; remove it"):
        read_text(path)
    assert read_text(put(tmp_path, "b.csv", "text,labels\none,x\n\n\n")).texts == ["one"]


def test_lists_that_pandas_writes_into_cells_are_read(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "text,labels\none,\"['a', 'b, c']\"\ntwo,[]\n" + 'three,"[""d""]"\n')
    data = read_text(path)
    assert data.labels == [["a", "b, c"], [], ["d"]]
    assert "written as lists" in data.understood
    with pytest.raises(ValueError, match=r"label_separator=''"):  # NumPy writes no commas: not a list to be sure of
        read_text(put(tmp_path, "b.csv", "text,labels\none,\"['a' 'b'],\"\n"))


@pytest.mark.parametrize(("mark", "name"), [(";", "a.csv"), ("\t", "a.csv"), (",", "a.tsv"), (";", "a.tsv")])
def test_the_delimiter_is_the_one_that_gives_the_columns(tmp_path: Path, mark: str, name: str) -> None:
    path = put(tmp_path, name, f"id{mark}text{mark}labels\n7{mark}one{mark}x|y\n")
    data = read_text(path, label_separator="|")
    assert (data.texts, data.labels, data.ids) == (["one"], [["x", "y"]], ["7"])


def test_columns_are_named_and_weighted(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "title,body,tags\nnginx,a web server,net;www\n,no title,\n")
    data = read_text(path, text_column=["title", "body"], text_weights={"title": 3, "body": 1}, label_column="tags")
    assert data.texts == ["nginx\nnginx\nnginx\na web server", "no title"]
    assert data.labels == [["net", "www"], []]
    assert "from columns 'title' (3 times) and 'body'" in data.understood
    with pytest.raises(ValueError, match=r"no column 'tag' for the labels; pass label_column=… for one of title, body"):
        read_text(path, text_column="body", label_column="tag")
    with pytest.raises(ValueError, match=r"text_weights must be an int in \[1, 20\], got 0"):
        read_text(path, text_column="body", text_weights=[0])
    with pytest.raises(ValueError, match="text_weights must have one number for each of title, body, got 1"):
        read_text(path, text_column=["title", "body"], text_weights=[1])


def test_label_instead_of_labels_is_understood(tmp_path: Path) -> None:
    path = put(tmp_path, "a.jsonl", '{"text": "one", "label": "x"}\n{"text": "two", "label": 3}\n')
    data = read_text(path)
    assert data.labels == [["x"], ["3"]]
    assert data.understood.startswith("2 texts from key 'text', 2 labels from key 'label'")
    path = put(tmp_path, "b.jsonl", '{"text": "one", "labels": ["x"]}\n{"text": "two", "label": "y"}\n')
    with pytest.raises(ValueError, match="line 2, column 1: labels are in 'label' here but in 'labels' before"):
        read_text(path)


def test_missing_labels_are_explained_when_they_are_needed(tmp_path: Path) -> None:
    data = read_text(put(tmp_path, "a.jsonl", '{"text": "one", "tags": ["x"]}\n'))
    assert data.labels == [[]]
    with pytest.raises(ValueError, match=r"no text has a label; there is no key 'labels'; pass label_column=… for one"):
        data.require_labels()
    read_text(put(tmp_path, "b.jsonl", '{"text": "one", "labels": ["x"]}\n')).require_labels()


@pytest.mark.parametrize(
    "content",
    [
        '[{"text": "one", "labels": ["x"]}, {"text": "two"}]',
        '{"data": [{"text": "one", "labels": ["x"]}, {"text": "two"}], "version": 1}',
        '{"text": ["one", "two"], "labels": [["x"], []]}',
    ],
)
def test_json_holds_a_list_of_objects_or_columns(tmp_path: Path, content: str) -> None:
    assert read_text(put(tmp_path, "a.json", content)) == (["one", "two"], [["x"], []])


def test_wrong_json_names_the_place(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 2, column 3: not valid JSON"):
        read_text(put(tmp_path, "a.json", "[\n ]]"))
    with pytest.raises(ValueError, match="record 1: text must be text, got int"):
        read_text(put(tmp_path, "a.json", '[{"text": "one"}, {"text": 2}]'))
    with pytest.raises(ValueError, match="expected a list of objects"):
        read_text(put(tmp_path, "a.json", "7"))
    with pytest.raises(ValueError, match="columns must have one length, got 1, 2"):
        read_text(put(tmp_path, "a.json", '{"text": ["one"], "labels": [[], []]}'))


def test_annif_folders_pair_texts_with_their_subjects(tmp_path: Path) -> None:
    put(tmp_path, "b.txt", "second\ntext")
    put(tmp_path, "b.key", "cats\n\ncats\nold dogs\n")
    put(tmp_path, "a.txt", "first")
    put(tmp_path, "a.tsv", "<http://x/1>\tcats\n<http://x/2>\tdogs\n")
    put(tmp_path, "c.txt", "")
    data = read_text(tmp_path)
    assert data.texts == ["first", "second\ntext", ""]
    assert data.labels == [["http://x/1", "http://x/2"], ["cats", "old dogs"], []]
    assert data.ids == ["a", "b", "c"]
    assert "1 without subjects" in data.understood
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"a directory of texts must hold \.txt files"):
        read_text(tmp_path / "empty")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"text": "one", "labels": ["x"]}\n', "jsonl"),
        ('[{"text": "one", "labels": ["x"]}]', "json"),
        ('{\n "text": ["one"],\n "labels": [["x"]]\n}', "json"),
        ("__label__x one\n", "fasttext"),
        ("one\t<x>\n", "annif"),
        ("text,labels\none,x\n", "csv"),
        ("labels;text\nx;one\n", "csv"),
        ("text\tlabels\none\tx\n", "tsv"),
    ],
)
def test_files_with_other_names_are_recognised_by_content(tmp_path: Path, content: str, expected: str) -> None:
    for name, data in (("a.txt", content.encode()), ("a.dat.gz", gzip.compress(content.encode()))):
        path = put(tmp_path, name, data)
        assert text_format(path) == expected
        assert read_text(path) == (["one"], [["x"]])


@pytest.mark.parametrize("content", ["", "some text about a web server\n", "0 1:0.5 2:1\n", "a,b\nc,d\n", "[1, 2]\n"])
def test_what_is_not_clear_is_not_guessed(tmp_path: Path, content: str) -> None:
    path = put(tmp_path, "a.dat", content)
    assert text_format(path) is None
    with pytest.raises(ValueError, match="is not clear from the name or the content"):
        read_text(path)
    assert read_text(path, format="lines").texts == content.splitlines()


def test_rows_of_numbers_are_named_as_such(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"begins as XMC text does: rows of numbers, not texts; use .*datasets\.read"):
        read_text(put(tmp_path, "a.txt", "1 2 2\n0 1:1\n"))


def test_other_encodings_are_given_or_told_by_their_mark(tmp_path: Path) -> None:
    content = "text,labels\nGröße,ä\n"
    path = put(tmp_path, "a.csv", content.encode("cp1252"))
    with pytest.raises(ValueError, match=r"line 2, column 3: not valid UTF-8: .*pass it, such as encoding='cp1252'"):
        read_text(path)
    assert read_text(path, encoding="cp1252") == (["Größe"], [["ä"]])
    assert read_text(put(tmp_path, "b.csv", content.encode("utf-16"))) == (["Größe"], [["ä"]])
    assert read_text(put(tmp_path, "c.csv", content.encode("utf-8-sig"))) == (["Größe"], [["ä"]])
    for wrong in ("no-such", "base64"):
        with pytest.raises(ValueError, match="encoding must be the name of a text encoding"):
            read_text(path, encoding=wrong)
    with pytest.raises(ValueError, match="not valid utf-16 after byte 5"):
        read_text(put(tmp_path, "d.csv", b"\xff\xfeabc"))


def test_a_quote_in_tsv_says_what_to_do(tmp_path: Path) -> None:
    path = put(tmp_path, "a.tsv", 'text\tlabels\n"Macbeth" is a play\tart\n')
    with pytest.raises(ValueError, match=r"line 2, .*followed by a tab or the end of the line; .*or pass quotes=False"):
        read_text(path)
    assert read_text(path, quotes=False).texts == ['"Macbeth" is a play']


def test_streams_are_read_as_files_are(tmp_path: Path) -> None:
    line = '{"id": "a7", "text": "größer", "labels": ["x"]}\n'
    for stream in (io.BytesIO(line.encode()), io.StringIO(line), io.BytesIO(gzip.compress(line.encode()))):
        data = read_text(stream)
        assert (data.texts, data.ids) == (["größer"], ["a7"])
    with put(tmp_path, "a.csv", "text\none\n").open("rb") as file:
        assert read_text(file).texts == ["one"]
    with pytest.raises(TypeError, match="path must be a path, '-' or a file object, got list"):
        read_text(["a text"])  # type: ignore[arg-type]


def test_a_dash_is_standard_input_and_output() -> None:
    code = (
        "from longtail.datasets import read_text, write_text; d = read_text('-'); "
        "write_text('-', d.texts, d.labels, ids=d.ids, format='csv')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=b'{"id": 1, "text": "a, b", "labels": ["x", "y"]}\n', capture_output=True
    )
    assert done.stdout == b'id,text,labels\n1,"a, b",x;y\n', done.stderr


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.fasttext", "a.csv.gz"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    texts, labels = ["one, two", 'a "quoted" text', "größer"], [["x", "new\u00a0york"], [], ["z"]]
    write_text(tmp_path / name, texts, labels)
    assert read_text(tmp_path / name) == (texts, labels)


def test_labels_that_would_not_come_back_are_refused(tmp_path: Path) -> None:
    for name, label in (("a.csv", "x;y"), ("a.csv", " x"), ("a.ft", "new york"), ("a.tsv", "")):
        with pytest.raises(ValueError, match=r"row 0: .*\.jsonl"):
            write_text(tmp_path / name, ["a"], [[label]])
    for name in ("a.xlsx", "a.parquet.gz"):
        with pytest.raises(ValueError, match=r"texts are written as \.jsonl, \.json, \.csv, \.tsv or \.fasttext"):
            write_text(tmp_path / name, ["a"], [["x"]])
    with pytest.raises(ValueError, match="texts and ids must have the same length, got 1 and 2"):
        write_text(tmp_path / "a.csv", ["a"], [["x"]], ids=[1, 2])
    assert list(tmp_path.iterdir()) == []


def arrow_table(**columns: Any) -> Any:
    return pytest.importorskip("pyarrow").table(columns)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather", "a.dat"])
def test_arrow_columns_are_chosen_by_name(tmp_path: Path, name: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = arrow_table(body=["one", "two"], tags=["x|y", None], id=[4, 5], other=[1.5, 2.5])
    path = tmp_path / name
    if name in ("a.parquet", "a.dat"):
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    elif name == "a.feather":
        pytest.importorskip("pyarrow.feather").write_feather(table, path, compression="uncompressed")
    else:
        with pyarrow.ipc.new_stream(path, table.schema) as writer:
            writer.write_table(table)
    for source in (path, io.BytesIO(path.read_bytes())):
        if name == "a.arrow" and source is not path:
            continue  # a stream of Arrow has no mark at its beginning
        form = {"a.parquet": "parquet", "a.dat": None}.get(name, "arrow") if source is not path else None
        data = read_text(source, format=form, text_column="body", label_column="tags", label_separator="|")
        assert (data.texts, data.labels, data.ids) == (["one", "two"], [["x", "y"], []], [4, 5])
    with pytest.raises(ValueError, match=r"labels hold '\|' \(.*row 0"):
        read_text(path, text_column="body", label_column="tags")


def test_a_parquet_bomb_is_refused(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow_table(text=["x" * 100_000] * 1000), tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 1_000_000
    with pytest.raises(ValueError, match="unpack to more than the limit of 16,777,216"):
        read_text(tmp_path / "a.parquet")


def test_damaged_arrow_files_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    for name in ("a.parquet", "a.arrow"):
        with pytest.raises(ValueError, match="is not a sound"):
            read_text(put(tmp_path, name, b"ARROW1 or not"))


def test_the_result_unpacks_and_keeps_ids_only_when_all_rows_have_them(tmp_path: Path) -> None:
    rows = [{"id": 1, "text": "a"}, {"text": "b"}]
    data = read_text(put(tmp_path, "a.jsonl", "\n".join(map(json.dumps, rows))))
    assert isinstance(data, TextData)
    texts, labels = data
    assert (texts, labels, data.ids) == (["a", "b"], [[], []], None)
    with pytest.raises(ValueError, match="not every record has a key 'id'"):
        read_text(tmp_path / "a.jsonl", id_column="id")
