"""`longtail convert` writes what users need, and vectors come through pipes."""

from __future__ import annotations

import gzip
import json
import shlex
from pathlib import Path

import pytest

import longtail as lt
from tests.cli.test_commands import longtail
from tests.cli.test_reading_options import ROWS

TEXTS = [text for _, text, _ in ROWS]
LABELS = [tags.split("|") for _, _, tags in ROWS]


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "tsv", "parquet", "arrow", "fasttext", "json.gz"])
def test_texts_come_back_from_every_format(tmp_path: Path, ending: str) -> None:
    data = tmp_path / "texts.jsonl"
    lt.datasets.write_jsonl(data, TEXTS, LABELS)
    output = tmp_path / f"out.{ending}"
    longtail("convert", data, output)
    assert tuple(lt.datasets.read_text(output)) == (TEXTS, LABELS)


@pytest.mark.parametrize("ending", ["jsonl", "json", "csv", "tsv", "parquet", "arrow", "fasttext"])
def test_texts_without_labels_are_converted(tmp_path: Path, ending: str) -> None:
    data = tmp_path / "lines.txt"
    data.write_text("red apple\ngreen pear\n")
    output = tmp_path / f"out.{ending}"
    longtail("convert", data, output)
    back = lt.datasets.read_text(output)
    assert back.texts == ["red apple", "green pear"]
    assert back.without_labels is not None


def test_an_annif_corpus_is_written(tmp_path: Path) -> None:
    data = tmp_path / "texts.jsonl"
    lt.datasets.write_jsonl(data, TEXTS, LABELS)
    longtail("convert", data, tmp_path / "corpus.tsv", "--to", "annif")
    assert (tmp_path / "corpus.tsv").read_text().splitlines()[0] == "red apple\t<fruit> <red>"
    assert tuple(lt.datasets.read_text(tmp_path / "corpus.tsv")) == (TEXTS, LABELS)
    lt.datasets.write_jsonl(tmp_path / "blanks.jsonl", ["a"], [["two words"]])
    refused = longtail("convert", tmp_path / "blanks.jsonl", "-", "--to", "annif", ok=False)
    assert refused.code == 2
    assert "Annif's subjects have no blanks" in refused.stderr


def test_names_with_the_separator_get_another_one(tmp_path: Path) -> None:
    data = tmp_path / "texts.jsonl"
    lt.datasets.write_jsonl(data, ["a", "b"], [["x;y", "z"], ["z"]])
    refused = longtail("convert", data, tmp_path / "out.csv", ok=False)
    assert refused.code == 2
    assert "--to-separator" in refused.stderr
    longtail("convert", data, tmp_path / "out.csv", "--to-separator", "|")
    assert lt.datasets.read_text(tmp_path / "out.csv", label_separator="|").labels == [["x;y", "z"], ["z"]]


def test_ids_keep_their_type_in_parquet(tmp_path: Path) -> None:
    for ids in ([7, 8], ["a", "b"]):
        lt.datasets.write_text(tmp_path / "t.parquet", ["x", "y"], [["l"], []], ids=ids, overwrite=True)
        assert lt.datasets.read_text(tmp_path / "t.parquet").ids == ids
    lt.datasets.write_text(tmp_path / "t.parquet", ["x", "y"], [["l"], []], ids=[1, "b"], overwrite=True)
    assert lt.datasets.read_text(tmp_path / "t.parquet").ids == ["1", "b"]


def test_a_table_without_rows_has_its_header(tmp_path: Path) -> None:
    lt.datasets.write_text(tmp_path / "t.csv", [], [])
    assert (tmp_path / "t.csv").read_text() == "text,labels\n"
    lt.datasets.write_text(tmp_path / "t.json", [], [])
    assert json.loads((tmp_path / "t.json").read_text()) == []


def test_a_text_that_fasttext_would_read_as_a_label_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="row 0: the text holds a word with '__label__'"):
        lt.datasets.write_text(tmp_path / "t.fasttext", ["say __label__x"], [["a"]])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ending", ["txt", "svm"])
def test_vectors_come_through_standard_input(tmp_path: Path, ending: str, packed: bool) -> None:
    data = lt.datasets.make_synthetic(n_rows=60, n_features=20, n_labels=5, labels_per_row=2)
    path = tmp_path / f"rows.{ending}"
    lt.datasets.write(path, data.X, data.Y)
    piped = gzip.compress(path.read_bytes()) if packed else path.read_bytes()
    longtail("train", "-", "-o", tmp_path / "m", "-e", "Popularity", stdin=piped)
    from_file, from_pipe = (
        longtail("predict", tmp_path / "m", path),
        longtail("predict", tmp_path / "m", "-", stdin=piped),
    )
    assert from_pipe.stdout == from_file.stdout
    assert len(from_pipe.stdout.splitlines()) == 60
    broken = longtail("predict", tmp_path / "m", "-", stdin=path.read_bytes() + b"0 x\n", ok=False)
    assert broken.code == 2
    assert "standard input" in broken.stderr


def test_tune_prints_a_command_that_reads_the_data_in_the_same_way(tmp_path: Path) -> None:
    data = tmp_path / "articles.tsv"
    data.write_text("head\tbody\ttags\n" + "".join(f'"{i}\t{text}\t{tags}\n' for i, text, tags in ROWS))
    reading = ["--text-column", "body=2", "--text-column", "head", "--label-column", "tags"]
    reading += ["--label-separator", "|", "--no-quotes"]
    for search in (["--n-trials", "2"], ["--minutes", "0.02"]):
        found = longtail("tune", data, "-e", "DiSMEC", "-p", "n_jobs=1", *search, *reading)
        command = found.stderr.splitlines()[-1]
        if search[0] == "--n-trials":
            assert " ".join(reading).replace("|", "'|'") in command
            words = shlex.split(command.replace("MODEL", str(tmp_path / "m")))
            longtail(*words[1:], "-t", "min_df=1")


def test_plain_lines_are_predicted_from_files_and_pipes(tmp_path: Path) -> None:
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(["a text"], [["label"]])
    model, plain = tmp_path / "m", tmp_path / "plain.txt"
    lt.save(tagger, model)
    plain.write_text("a text\nanother text\n")
    for found in (longtail("predict", model, plain), longtail("predict", model, "-", stdin=plain.read_bytes())):
        assert "2 texts from lines" in found.stderr
        assert len(found.stdout.splitlines()) == 2
    refused = longtail("evaluate", model, plain, ok=False)
    assert "the format of these texts is not clear" in refused.stderr
    (tmp_path / "rows.txt").write_text("1 2 2\n0 1:0.5\n")
    assert "holds vectors" in longtail("predict", model, tmp_path / "rows.txt", ok=False).stderr
