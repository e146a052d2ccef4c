"""Hostile models: each is refused with its own message, whichever claim of the directory is the false one."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longtail as lt
from longtail._array_files import write_arrays
from longtail.saving.upgrades import FORMAT
from tests.saving.toy_tree import ToyTree, register

Attack = Callable[[Path], object]
X = np.eye(6, dtype=np.float32)
Y = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 0]] * 2, np.float32)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    register(monkeypatch)
    lt.save(ToyTree(n_jobs=1).fit(X, Y), tmp_path / "m")
    return tmp_path / "m"


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    model = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1))
    lt.save(model.fit(["web server", "web browser"], [["net", "serve"], ["net", "browse"]]), tmp_path / "m")
    return tmp_path / "m"


def edit(change: Callable[[dict[str, Any]], object], inside: str = "") -> Attack:
    def attack(folder: Path) -> None:
        path = folder / inside / "manifest.json"
        manifest = json.loads(path.read_text())
        change(manifest)
        path.write_text(json.dumps(manifest))

    return attack


def put(inside: str = "", **values: Any) -> Attack:
    return edit(lambda m: m.update({key.replace("klass", "class"): value for key, value in values.items()}), inside)


def within(key: str, inside: str = "", **values: Any) -> Attack:
    return edit(lambda m: m[key].update(values), inside)


def drop(key: str, name: str, inside: str = "") -> Attack:
    return edit(lambda m: m[key].pop(name), inside)


def array(name: str, change: Callable[[Any], Any]) -> Attack:
    """Put changed values in an array's file; the manifest agrees on everything but the checksum."""

    def attack(folder: Path) -> None:
        path = folder / f"{name}.npy"
        found = np.load(path)
        changed = change(found)
        np.save(path, found if changed is None else changed)
        claim = {"shape": list(np.load(path).shape), "size_bytes": path.stat().st_size}
        edit(lambda m: m["arrays"][Path(name).name].update(claim), str(Path(name).parent))(folder)

    return attack


def names(name: str, data: bytes, n_names: int | None = None) -> Attack:
    """Write another file of names; the manifest agrees on its size and, unless told otherwise, its lines."""

    def attack(folder: Path) -> None:
        (folder / f"{name}.jsonl").write_bytes(data)
        claim = {"size_bytes": len(data), "n_names": data.count(b"\n") if n_names is None else n_names}
        edit(lambda m: m["names"][Path(name).name].update(claim), str(Path(name).parent))(folder)

    return attack


def set_item(index: Any, value: Any) -> Callable[[Any], None]:
    return lambda found: found.__setitem__(index, value)


def link_inner(folder: Path) -> None:
    (folder / "inner_").rename(folder.parent / "elsewhere")
    (folder / "inner_").symlink_to("../elsewhere")


TREES: dict[str, tuple[Attack, str]] = {
    "format from the future": (
        put(format=FORMAT + 1, longtail="9.0"),
        rf"written in format {FORMAT + 1} by longtail '9.0', but this longtail reads up to format {FORMAT}; upgrade",
    ),
    "format that is no number": (put(format="1"), r"format must be a whole number >= 1, got '1'"),
    "format that is a truth": (put(format=True), r"format must be a whole number >= 1, got True"),
    "format zero": (put(format=0), r"format must be a whole number >= 1, got 0"),
    "no kind": (edit(lambda m: m.pop("kind")), r"not a model: kind must be 'model', got None"),
    "another kind": (put(kind="csr-directory"), r"not a model: kind must be 'model', got 'csr-directory'"),
    "no format": (edit(lambda m: m.pop("format")), r"format must be a whole number >= 1, got None"),
    "unknown class": (put(klass="Evil"), r"class must be one of .* got 'Evil'"),
    "class by path": (put(klass="os.system"), r"class must be one of .* got 'os.system'"),
    "the base class": (put(klass="XMCClassifier"), r"class must be one of .* got 'XMCClassifier'"),
    "class that is no text": (put(klass=["Popularity"]), r"class must be one of .* got \['Popularity'\]"),
    "another class": (put(klass="Popularity"), r'"fitted": \'gain_\' is not known; it must not be there'),
    "a part as a model": (put(klass="TextVectorizer"), r'"fitted": \'n_features_in_\' is not known'),
    "version that is no text": (put(longtail=1), r'"longtail" must be the version that wrote it, got 1'),
    "unknown key": (put(hook="import os"), r"manifest.json: 'hook' is not known; it must not be there"),
    "missing key": (edit(lambda m: m.pop("names")), r"manifest.json: 'names' is missing"),
    "parameters that are no object": (put(parameters=[1]), r'"parameters" must be an object, got \[1\]'),
    "fitted that is no object": (put(fitted=None), r'"fitted" must be an object, got None'),
    "names that are no object": (put(names=[]), r'"names" must be an object, got \[\]'),
    "models that are no list": (
        put(models={"inner_": 1}),
        r"\"models\" must be a list of different names, got \{'inner_",
    ),
    "the same model twice": (put(models=["inner_", "inner_"]), r'"models" must be a list of different names'),
    # parameters
    "parameter out of range": (within("parameters", depth=0), r"ToyTree: depth must be an int in \[1, 10\], got 0"),
    "parameter of wrong type": (within("parameters", depth="2"), r"ToyTree: depth must be an int in .* got '2'"),
    "parameter that is a truth": (within("parameters", depth=True), r"ToyTree: depth must be an int .* got True"),
    "parameter that is a list": (within("parameters", rate=[0.5]), r"ToyTree: rate must be a number .* got \[0.5\]"),
    "word that is none of the choices": (within("parameters", mode="rm -rf"), r"ToyTree: mode must be one of 'fast'"),
    "endless parameter": (within("parameters", mode="x" * 500_000), r"ToyTree: mode must be one of 'fast'"),
    "unknown parameter": (within("parameters", __class__="x"), r'"parameters" of ToyTree: \'__class__\' is not known'),
    "missing parameter": (drop("parameters", "rate"), r"\"parameters\" of ToyTree: 'rate' is missing"),
    "parameter of an unknown class": (
        within("parameters", helper={"class": "Popen", "parameters": {"args": "ls"}}),
        r"a parameter: class must be one of .* got 'Popen'",
    ),
    "parameter that is no estimator": (
        within("parameters", helper={"class": "Tagger", "parameters": {}}),
        r"a parameter must be a number, a word or an estimator, got \{'class': 'Tagger'",
    ),
    "parameter without a class": (within("parameters", helper={"parameters": {}}), r"a parameter: 'class' is missing"),
    "parameter with broken parameters": (
        within("parameters", helper={"class": "Popularity", "parameters": {"unit_rows": 0, "random_state": 0}}),
        r"Popularity: unit_rows must be True or False, got 0",
    ),
    "parameter with unknown parameters": (
        within("parameters", helper={"class": "Popularity", "parameters": {"n_trees": 0}}),
        r'"parameters" of Popularity: \'n_trees\' is not known',
    ),
    # scalars
    "negative count": (within("fitted", n_labels_=-3), r'"fitted": n_labels_ must be an int in .* got -3'),
    "huge count": (
        within("fitted", n_features_in_=2**40),
        r'"fitted": n_features_in_ must be an int in .* got 1099511',
    ),
    "count that is a float": (within("fitted", n_rows_=6.0), r'"fitted": n_rows_ must be an int >= 1, got 6.0'),
    "unknown kind of y": (within("fitted", y_kind_="pickle"), r"y_kind_ must be one of 'classes', .* got 'pickle'"),
    "unknown dtype of y": (within("fitted", y_dtype_="V8"), r"y_dtype_ must be one of 'int8', .* got 'V8'"),
    "objects in a matrix y": (
        within("fitted", y_dtype_="object"),
        r"y_dtype_ of a matrix must be numeric, got 'object'",
    ),
    "classes without their array": (within("fitted", y_kind_="classes"), r"array 'classes_' is missing"),
    "unknown scalar": (within("fitted", _rules={}), r'"fitted": \'_rules\' is not known'),
    "missing scalar": (drop("fitted", "gain_"), r"\"fitted\": 'gain_' is missing"),
    "counts that disagree": (within("fitted", n_labels_=4), r"label_counts_ must have 4 entries, got 3"),
    # arrays
    "cyclic tree": (
        array("children_", set_item((2, 0), 0)),
        r"ToyTree: every child id must be greater than its parent's",
    ),
    "node that is its own child": (
        array("children_", set_item((1, 1), 1)),
        r"child id must be greater than its parent's",
    ),
    "child out of range": (array("children_", set_item((0, 1), 7)), r"ToyTree: a child must be one of 7 nodes, got 7"),
    "child far out of range": (
        array("children_", set_item((0, 1), -7)),
        r"children_.npy must hold numbers >= -1, got -7 at 1",
    ),
    "NaN": (array("weights_", set_item(3, np.nan)), r"weights_.npy must hold finite numbers, got nan at 3"),
    "wrong number of weights": (
        array("weights_", lambda w: w[:-1]),
        r"ToyTree: 7 nodes must have as many weights, got 6",
    ),
    "wrong shape": (
        array("children_", lambda c: c.reshape(2, 7)),
        r"children_.npy must have shape \(any, 2\), got \(2, 7\)",
    ),
    "negative label counts": (
        array("label_counts_", set_item(0, -1)),
        r"label_counts_.npy must hold numbers >= 0, got -1",
    ),
    "more labels than rows": (array("label_counts_", set_item(0, 10**6)), r"label_counts_: .* more than the \d+ rows"),
    # inner models
    "inner model unknown": (put(models=["inner_", "other"]), r"\"models\": 'other' is not known"),
    "path traversal to a model": (put(models=["../m"]), r"a name must be .* got '../m'"),
    "model name that is no text": (put(models=[["inner_"]]), r"a name must be .* got \['inner_'\]"),
    "inner model missing": (
        lambda folder: (folder / "inner_").rename(folder.parent / "x"),
        r"inner_: is missing",
    ),
    "inner model as a link": (link_inner, r"inner_: is a symbolic link; a directory must be there itself"),
    "inner model of another kind": (put("inner_", klass="Tagger"), r'"fitted": .* is not known'),
    "inner model of other data": (
        lambda folder: (
            within("fitted", "inner_", n_labels_=9)(folder),
            array("inner_/label_counts_", lambda c: np.zeros(9, np.int64))(folder),
        ),
        r"ToyTree: inner_ must have 3 labels, got 9",
    ),
    "index out of range in an inner model": (
        array("inner_/ranking_", set_item(0, 3)),
        r"m/inner_: Popularity: ranking_ names label 3, but there are 3 labels",
    ),
    "inner model from the future": (put("inner_", format=9), r"inner_/manifest.json: written in format 9"),
    # names
    "unknown names": (
        edit(
            lambda m: m["names"].update(evil={"file": "evil.jsonl", "n_names": 0, "size_bytes": 0, "sha256": "0" * 64})
        ),
        r"\"names\": 'evil' is not known; it must not be there",
    ),
}

TAGGERS: dict[str, tuple[Attack, str]] = {
    "names missing": (edit(lambda m: m["names"].pop("label_names_")), r"\"names\": 'label_names_' is missing"),
    "names file missing": (lambda folder: (folder / "label_names_.jsonl").unlink(), r"label_names_.jsonl: is missing"),
    "claim without a key": (
        edit(lambda m: m["names"]["label_names_"].pop("n_names")),
        r"must have the keys file, n_names",
    ),
    "path traversal": (
        edit(lambda m: m["names"]["label_names_"].update(file="../../etc/passwd")),
        r"'label_names_' must lie in its own file 'label_names_.jsonl', got '../../etc/passwd'",
    ),
    "negative count": (
        edit(lambda m: m["names"]["label_names_"].update(n_names=-1)),
        r"n_names must be a whole number",
    ),
    "size that lies": (
        edit(lambda m: m["names"]["label_names_"].update(size_bytes=5)),
        r"must be at most 5 bytes, got ",
    ),
    "checksum that is none": (
        edit(lambda m: m["names"]["label_names_"].update(sha256="x")),
        r"sha256 must be 64 hexad",
    ),
    "cut short": (
        lambda folder: os.truncate(folder / "label_names_.jsonl", 5),
        r"label_names_.jsonl: was cut short: must have \d+ bytes, got 5",
    ),
    "fewer lines": (names("label_names_", b'"a"\n"b"\n', 3), r"label_names_.jsonl: must have 3 lines, got 2"),
    "no last newline": (names("label_names_", b'"a"\n"b"', 1), r"label_names_.jsonl: must have 1 lines, got 1"),
    "fewer labels": (names("label_names_", b'"a"\n"b"\n'), r"label_names_ must have 3 entries, got 2"),
    "two names in a line": (names("label_names_", b'"a","b"\n"c"\n'), r"must have 2 names, got 3"),
    "two names in a line and none in another": (
        names("label_names_", b'"a","b"\n\n"c"\n'),
        r"one JSON string: Expecting",
    ),
    "number for a name": (names("label_names_", b'"a"\n7\n"c"\n'), r"every line must be one JSON string, got 7"),
    "list for a name": (
        names("label_names_", b'"a"\n["b"]\n"c"\n'),
        r"every line must be one JSON string, got \['b'\]",
    ),
    "list over lines": (names("label_names_", b'["a"\n"b"]\n"c"\n'), r"one JSON string, got \['a', 'b'\]"),
    "deep nesting": (names("label_names_", b"[" * 200_000 + b"\n"), r"one JSON string, got deep nesting"),
    "no JSON": (names("label_names_", b"a\nb\nc\n"), r"every line must be one JSON string: Expecting value"),
    "huge number": (names("label_names_", b"9" * 100_000 + b"\n"), r"one JSON string: Exceeds the limit"),
    "not UTF-8": (names("label_names_", b'"\xff"\n"b"\n"c"\n'), r"every line must be one JSON string: 'utf-8' codec"),
    "lone surrogate": (names("label_names_", b'"\\ud800"\n"b"\n"c"\n'), r"names must be valid Unicode"),
    "the same name twice": (names("label_names_", b'"a"\n"b"\n"a"\n'), r"label_names_ must hold different names"),
    "the same word twice": (
        lambda folder: (
            array("vectorizer/feature_bytes_", lambda _: np.frombuffer(b"abcabcweb", np.uint8))(folder),
            array("vectorizer/feature_ends_", lambda _: np.array([3, 6, 9]))(folder),
        ),
        r"feature 1 is the same as feature 0",
    ),
    "fewer words": (
        array("vectorizer/feature_ends_", lambda ends: ends[:2]),
        r"idf_ has 3 values, but there are 2 features",
    ),
    "fewer words and weights": (
        lambda folder: (
            array("vectorizer/feature_bytes_", lambda found: found[:13])(folder),
            array("vectorizer/feature_ends_", lambda ends: ends[:2])(folder),
            array("vectorizer/idf_", lambda idf: idf[:2])(folder),
            within("fitted", "vectorizer", n_words_=2)(folder),
        ),
        r"the vocabulary must have 3 entries, got 2",
    ),
    "words beyond the end": (
        array("vectorizer/feature_ends_", set_item(2, 2**60)),
        r"the last feature ends at byte 1152921504606846976, but there are 16",
    ),
    "words that go back": (array("vectorizer/feature_ends_", set_item(1, 3)), r"ends must increase from 1, got 3 at 1"),
    "words that are no text": (array("vectorizer/feature_bytes_", set_item(3, 0xFF)), r"must be UTF-8, invalid start"),
    "half a letter": (
        lambda folder: (
            array("vectorizer/feature_bytes_", lambda _: np.frombuffer("browsérserverwe".encode(), np.uint8))(folder)
            or array("vectorizer/feature_ends_", lambda _: np.array([6, 13, 16]))(folder)
        ),
        r"feature 0 ends within a character",
    ),
    "more words than features": (
        within("fitted", "vectorizer", n_words_=4),
        r"n_words must be in \[0, 3\], got 4",
    ),
    "a fraction of words": (
        within("fitted", "vectorizer", n_words_=1.5),
        r"n_words_ must be an int in \[0, 2147483647\]",
    ),
    "vectorizer that breaks its rules": (
        within("parameters", "vectorizer", max_ngram=1000),
        r"TextVectorizer: max_ngram must be an int in \[0, 5\], got 1000",
    ),
    "vectorizer with a hook": (within("parameters", "vectorizer", preprocessor="eval"), r"'preprocessor' is not known"),
    "infinite weight": (
        array("vectorizer/idf_", set_item(0, np.inf)),
        r"idf_.npy must hold finite numbers >= 0, got inf",
    ),
    "missing estimator": (put(models=["vectorizer"]), r"\"models\": 'estimator' is missing"),
    "swapped parts": (
        lambda folder: [
            (folder / "estimator").rename(folder / "t"),
            (folder / "vectorizer").rename(folder / "estimator"),
            (folder / "t").rename(folder / "vectorizer"),
        ],
        r"estimator must be a XMCClassifier, got TextVectorizer",
    ),
    "parameter of a tagger": (
        within("parameters", estimator="x"),
        r'"parameters" of Tagger: \'estimator\' is not known',
    ),
    "scalar of a tagger": (within("fitted", x=1), r'"fitted": \'x\' is not known'),
}


@pytest.mark.parametrize(("attack", "message"), TREES.values(), ids=TREES)
def test_a_hostile_estimator_is_refused(tree: Path, attack: Attack, message: str) -> None:
    _check_refused(tree, attack, message)


@pytest.mark.parametrize(("attack", "message"), TAGGERS.values(), ids=TAGGERS)
def test_a_hostile_tagger_is_refused(tagger: Path, attack: Attack, message: str) -> None:
    _check_refused(tagger, attack, message)


def _check_refused(folder: Path, attack: Attack, message: str) -> None:
    lt.load(folder, verify=True)
    attack(folder)
    modules = set(sys.modules)
    with pytest.raises(ValueError, match=message) as caught:
        lt.load(folder, verify=False)
    assert str(folder) in str(caught.value), "the error says which model"
    assert len(str(caught.value)) < 1100
    assert set(sys.modules) == modules, "nothing is imported because a file says so"


def test_a_part_of_a_model_is_not_a_model(tagger: Path) -> None:
    with pytest.raises(ValueError, match="holds a TextVectorizer, which is a part of a model, not one itself"):
        lt.load(tagger / "vectorizer")
    assert isinstance(lt.load(tagger / "estimator"), lt.Popularity)


def test_another_directory_of_arrays_is_not_a_model(tmp_path: Path) -> None:
    write_arrays(tmp_path / "data.csr", {"indptr": np.zeros(1, np.int64)}, {"kind": "csr"})
    for read in (lt.load, lt.describe):
        with pytest.raises(ValueError, match="not a model: kind must be 'model', got 'csr'"):
            read(tmp_path / "data.csr")
        with pytest.raises(FileNotFoundError, match="nowhere: no such directory"):
            read(tmp_path / "nowhere")
        with pytest.raises(ValueError, match=r"manifest\.json: is missing"):
            read(tmp_path)


def test_models_nested_without_end_are_refused(tree: Path) -> None:
    folder = tree
    for _ in range(12):  # each holds a copy of itself
        inner = folder / "inner_"
        for path in inner.iterdir():
            path.unlink()
        for path in folder.iterdir():
            if path.is_file():
                (inner / path.name).write_bytes(path.read_bytes())
        (inner / "inner_").mkdir()
        (inner / "inner_" / "x.npy").touch()
        folder = inner
    for read in (lt.load, lt.describe):
        with pytest.raises(ValueError, match="models may be nested at most 8 deep"):
            read(tree)


def test_a_change_of_any_byte_is_found_when_asked(tree: Path) -> None:
    for path in tree.rglob("*.npy"):
        good = path.read_bytes()
        path.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        with pytest.raises(ValueError):
            lt.load(tree, verify=True)
        path.write_bytes(good)
    lt.load(tree, verify=True)


def test_a_changed_name_is_found_by_its_checksum(tagger: Path) -> None:
    path = tagger / "label_names_.jsonl"
    path.write_bytes(path.read_bytes().replace(b"net", b"nut"))
    assert "nut" in lt.load(tagger, verify=False).label_names_  # type: ignore[union-attr]
    with pytest.raises(ValueError, match=r"label_names_\.jsonl: has changed: SHA-256 must be "):
        lt.load(tagger)


@pytest.mark.parametrize("file", ["manifest.json", "label_names_.jsonl", "estimator/ranking_.npy"])
def test_a_terabyte_of_file_is_refused_by_its_size(tagger: Path, file: str, reads_little: None) -> None:
    os.truncate(tagger / file, 1 << 40)
    with pytest.raises(ValueError, match=r"must (have|be at most) \d+ bytes, got 1099511627776"):
        lt.load(tagger, verify=True)


@pytest.fixture
def reads_little() -> Iterator[None]:
    def n_read() -> int:
        return int(Path("/proc/self/io").read_text().split("rchar:")[1].split()[0])

    before = n_read()
    yield
    assert n_read() - before < 1 << 20


def test_every_attack_has_its_own_message() -> None:
    for attacks in (TREES, TAGGERS):
        messages = [message for _, message in attacks.values()]
        shared = {message for message in messages if messages.count(message) > 1}
        assert shared == set() or shared == {r"ToyTree: mode must be one of 'fast'"}
