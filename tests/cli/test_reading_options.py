"""Commands read what users have: columns by name, separators, standard input, ids; and say what they understood."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from sklearn.preprocessing import MultiLabelBinarizer

import longtail as lt
from tests.cli.test_commands import longtail

ROWS = [("1", "red apple", "fruit|red"), ("2", "green pear", "fruit|green"), ("3", "red car", "car|red")] * 8


def run(*words: str | Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own; `longtail` is quicker where that is not the point."""
    command = [sys.executable, "-m", "longtail", *map(str, words)]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "articles.csv"
    path.write_text("id;body;tags\n" + "".join(f"{i};{text};{tags}\n" for i, text, tags in ROWS))
    return path


def test_columns_are_named_and_the_understanding_is_printed(table: Path, tmp_path: Path) -> None:
    reading = ["--text-column", "body", "--label-column", "tags", "--label-separator", "|"]
    model = tmp_path / "m"
    trained = run("train", table, "-o", model, "-t", "min_df=1", *reading)
    assert trained.returncode == 0, trained.stderr
    assert "24 texts from column 'body'" in trained.stderr
    assert "4 labels" in trained.stderr
    predicted = longtail("predict", model, table, "--json", "--top-k", "2", "--text-column", "body")
    first = json.loads(predicted.stdout.splitlines()[0])
    assert first["id"] == "1"
    assert set(first["labels"]) == {"fruit", "red"}
    piped = run("predict", model, "-", "--json", "--top-k", "1", stdin='{"text": "green pear"}\n')
    assert json.loads(piped.stdout)["labels"][0] in ("fruit", "green"), piped.stderr
    assert run("evaluate", model, table, *reading).returncode == 0
    converted = run("convert", table, tmp_path / "articles.jsonl", *reading)
    assert converted.returncode == 0, converted.stderr
    assert json.loads((tmp_path / "articles.jsonl").read_text().splitlines()[0])["labels"] == ["fruit", "red"]


def test_a_file_is_not_taken_for_a_text(table: Path, tmp_path: Path) -> None:
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(["a text"], [["label"]])
    lt.save(tagger, tmp_path / "m")
    for texts in ([table], ["a text", table]):
        found = longtail("tag", tmp_path / "m", *texts, ok=False)
        assert found.code == 2
        assert "is a file, but `tag` takes texts; use longtail predict" in found.stderr


def test_tag_takes_long_texts_and_standard_input(tmp_path: Path) -> None:
    tagger = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(["a text"], [["label"]])
    lt.save(tagger, tmp_path / "m")
    assert "label" in longtail("tag", tmp_path / "m", "text " * 2000).stdout, "longer than any file name"
    piped = run("tag", tmp_path / "m", "-", stdin="a text\nmore text\n")
    assert piped.stdout.count("label") == 2, piped.stderr


def test_a_tagger_takes_tables_matrices_and_single_names() -> None:
    texts = [text for _, text, _ in ROWS]
    names = [tags.split("|") for _, _, tags in ROWS]
    expected = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(texts, names)
    frame = pd.DataFrame({"body": texts, "tags": [tags for _, _, tags in ROWS]})
    binarizer = MultiLabelBinarizer().fit(names)
    for fit in (
        lambda t: t.fit(frame, text_column="body", label_column="tags", label_separator="|"),
        lambda t: t.fit((text for text in texts), names),
        lambda t: t.fit([{"text": text, "labels": row} for text, row in zip(texts, names, strict=True)]),
        lambda t: t.fit(texts, binarizer.transform(names), label_names=binarizer.classes_),
    ):
        found = fit(lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)))
        assert found.label_names_ == expected.label_names_
        assert found.label_counts_.tolist() == expected.label_counts_.tolist()
    single = lt.Tagger(lt.Popularity(), lt.TextVectorizer(min_df=1)).fit(texts, [row[0] for row in names])
    assert single.label_names_ == ["car", "fruit"]


def test_a_model_keeps_the_columns_of_its_texts_and_their_weights(tmp_path: Path) -> None:
    rows = "".join(f"{'chess' if i % 2 else 'web'},number{i % 7},{'game' if i % 2 else 'net'}\n" for i in range(40))
    data, model = tmp_path / "train.csv", tmp_path / "m"
    data.write_text("title,body,labels\n" + rows)
    answer = longtail("train", data, "--text-column", "title=3", "--text-column", "body", "-o", model, "-e", "DiSMEC")
    assert "'title' (3 times) and 'body'" in answer.stderr
    loaded = lt.load(model)
    assert isinstance(loaded, lt.Tagger)
    assert loaded.text_columns_ == {"title": 3, "body": 1}
    answer = longtail("evaluate", model, data)
    assert "'title' (3 times) and 'body'" in answer.stderr, "the model knows its columns"
    table = [{"title": "chess", "body": "number1"}]
    assert loaded.tag(table, top_k=1) == loaded.tag(["chess\nchess\nchess\nnumber1"], top_k=1)
    assert loaded.tag(table)[0][0].label == "game"
    fitted = lt.Tagger(lt.DiSMEC(n_jobs=1)).fit(
        [{"title": "chess", "body": "x y"}, {"title": "web", "body": "x y"}] * 5,
        [["game"], ["net"]] * 5,
        text_weights={"title": 3, "body": 1},
    )
    assert fitted.text_columns_ == {"title": 3, "body": 1}
    lines = tmp_path / "texts.txt"
    lines.write_text("chess\n")
    assert "game" in longtail("predict", model, lines, "--format", "lines").stdout
