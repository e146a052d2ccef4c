"""Change saved models at random and load them: a model loads or is refused with ValueError or OSError, nothing else.

    python -m tests.attacks.fuzz_load --n 100000            # executions 0 ... 99999 of seed 0
    python -m tests.attacks.fuzz_load --first 4711 --n 1    # one of them again

What loads is used, too: a prediction that crashes means that a check is missing. Every execution depends on its seed
and number only. A crash leaves the number of the last hundred on stderr, a hang ends with a traceback.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import longtail as lt
from longtail._array_files.specs import DTYPES
from longtail.saving.registry import HOMES, Home
from tests.contract.estimators import ESTIMATORS
from tests.models.make import make_labels, make_rows
from tests.saving.toy_tree import ToyTree

Files = dict[str, bytes]
_HANG_SECONDS = 300
_NUMBERS = [0, 1, -1, 2, 127, 255, 2**31 - 1, -(2**31), 2**31, 2**32, 2**48, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**30]
_VALUES: list[Any] = [
    None,
    True,
    False,
    0.5,
    -0.0,
    1e308,
    "",
    "x",
    "classes",
    "object",
    "float64",
    "bool",
    [],
    {},
    [[]],
]
_VALUES += [[0], [2**62, 4], "../x", "inner_", "Tagger", "ToyTree", {"class": "ToyTree", "parameters": {}}, *_NUMBERS]
_HEADER_WORDS = [
    b"<f4",
    b"<i4",
    b"<i8",
    b"|O",
    b"<f8",
    b"|u1",
    b">f4",
    b"True",
    b"False",
    b"(0,)",
    b"()",
    b"(3, 1)",
    b"fort",
]


def make_models() -> dict[str, tuple[Files, Any]]:
    """Save one small model of each kind; return its files, and something to ask it."""
    X = np.eye(6, dtype=np.float32)
    Y = np.array([[1, 0, 1], [0, 1, 1], [1, 0, 0]] * 2, np.float32)
    texts, labels = ["web server", "web browser", "mail"], [["net", "serve"], ["net", "é\n"], ["mail"]]
    tagger = lt.Tagger(lt.Popularity(n_jobs=1), lt.TextVectorizer(min_df=1)).fit(texts, labels)
    models: dict[str, tuple[Any, Any]] = {
        "matrix": (lt.Popularity(n_jobs=1).fit(X, Y), X),
        "classes": (lt.Popularity(n_jobs=1).fit(X, np.array([3, 5, 7] * 2)), X),
        "words": (lt.Popularity(n_jobs=1).fit(X, np.array(["ant", "bee", "cat"] * 2)), X),
        "tree": (ToyTree(n_jobs=1, helper=lt.Popularity(n_jobs=1)).fit(X, Y), X),
        "tagger": (tagger, texts),
    }
    rows, labels_of_rows = make_rows(), make_labels()
    for name, make in ESTIMATORS.items():
        models[name] = make().fit(rows, labels_of_rows), rows[:5]
        if name != "Popularity":
            models[f"{name} dense"] = make().fit(rows.toarray(), labels_of_rows), rows[:5].toarray()
    made: dict[str, tuple[Files, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, question) in models.items():
            path = Path(folder, name)
            lt.save(model, path)
            files = {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
            made[name] = files, question
    return made


def mutate(files: Files, rng: random.Random) -> Files:
    """Return some of the files, changed."""
    changed: Files = {}
    names = sorted(files) + 3 * sorted(name for name in files if name.endswith(".npy"))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        name = rng.choice(names)
        data = changed.get(name, files[name])
        mutations: list[Callable[[bytes, random.Random], bytes]] = [flip, splice, cut, grow]
        if name.endswith(".json"):
            mutations += 6 * [edit_json]
        elif name.endswith(".npy"):
            mutations += [edit_header, *6 * [edit_values]]
        changed[name] = rng.choice(mutations)(data, rng)
        if name.endswith((".npy", ".jsonl")) and rng.random() < 0.7:
            agree(files, changed, name)
    if rng.random() < 0.05:
        here, there = rng.choice(sorted(files)), rng.choice(sorted(files))
        changed[here], changed[there] = files[there], files[here]
    return changed


def flip(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return data
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(out))
        out[at] = rng.choice((rng.randrange(256), out[at] ^ (1 << rng.randrange(8)), ord(rng.choice('"{}[],:0\\\n'))))
    return bytes(out)


def splice(data: bytes, rng: random.Random) -> bytes:
    a, b, c = (rng.randint(0, len(data)) for _ in range(3))
    return data[:a] + data[min(b, c) : max(b, c)] + data[rng.choice((a, b, c)) :]


def cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randint(0, len(data))]


def grow(data: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(data))
    piece = rng.choice((b"\x00", b"[", b"9", b'"', b'{"a":', b"\\u", b"\xff", data[-16:]))
    return data[:at] + piece * rng.choice((1, 2, 8, 3000)) + data[at:]


def edit_json(data: bytes, rng: random.Random) -> bytes:
    """Replace, remove or add one value anywhere in the manifest."""
    try:
        root = json.loads(data)
    except (ValueError, RecursionError):
        return flip(data, rng)
    node: Any = root
    while isinstance(node, dict | list) and node:
        key = rng.choice(sorted(node)) if isinstance(node, dict) else rng.randrange(len(node))
        if not isinstance(node[key], dict | list) or rng.random() < 0.3:
            break
        node = node[key]
    if not isinstance(node, dict | list) or not node:
        return flip(data, rng)
    action = rng.random()
    if action < 0.15:
        del node[key]
    elif action < 0.3 and isinstance(node, dict):
        node[rng.choice(("x", "", "__class__", "classes_", "../x", "feature_names_in_"))] = node[key]
    elif action < 0.6 and isinstance(node[key], int):
        node[key] += rng.choice((-1, 1, 64, 1 << 31))
    else:
        node[key] = rng.choice(_VALUES)
    return json.dumps(root).encode()


def edit_header(data: bytes, rng: random.Random) -> bytes:
    old = rng.choice(
        [word for word in (*_HEADER_WORDS, b"(3,)", b"(7,)", b"v\x00", b"\x01\x00") if word in data] or [b"'"]
    )
    return data.replace(old, rng.choice((*_HEADER_WORDS, bytes([rng.randrange(256), 0]))), 1)


def edit_values(data: bytes, rng: random.Random) -> bytes:
    """Put an interesting number where an array's values are."""
    if len(data) < 132:
        return flip(data, rng)
    out = bytearray(data)
    number = rng.choice((*_NUMBERS[:12], 3, 6, 7))
    real = np.float32(rng.choice((np.nan, np.inf, -np.inf, -1, 1e38))).tobytes()
    value = rng.choice(
        (real, (number & (2**32 - 1)).to_bytes(4, "little"), (number & (2**64 - 1)).to_bytes(8, "little"))
    )
    at = 128 + 4 * rng.randrange((len(out) - 128) // 4)
    out[at : at + len(value)] = value[: len(out) - at]
    return bytes(out)


def agree(files: Files, changed: Files, name: str) -> None:
    """Let the manifest agree with a changed file, so that the checks behind the first one are reached."""
    manifest = str(Path(name).parent / "manifest.json")
    try:
        root = json.loads(changed.get(manifest, files[manifest]))
        claim = root["arrays" if name.endswith(".npy") else "names"][Path(name).stem]
        claim["size_bytes"] = len(changed[name])
        if name.endswith(".jsonl"):
            claim["n_names"] = changed[name].count(b"\n")
        elif len(claim["shape"]) == 1:
            claim["shape"] = [(len(changed[name]) - 128) // DTYPES[claim["dtype"]].itemsize]
        changed[manifest] = json.dumps(root).encode()
    except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
        return


def load_and_use(path: Path, question: Any, rng: random.Random) -> str:
    """Return the class of what came out."""
    with contextlib.suppress(ValueError, OSError):
        lt.describe(path)
    try:
        model = lt.load(path, verify=rng.random() < 0.1)
    except (ValueError, OSError) as error:
        return type(error).__name__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.predict_top_k(question, top_k=4)
    except (ValueError, TypeError):
        return "loaded, question refused"  # the model may now want other features
    return "loaded"


def fuzz(n_executions: int, seed: int = 0, first: int = 0, *, report: bool = False) -> collections.Counter[str]:
    """Run the executions and count what came out; anything but the allowed errors is raised with its number."""
    HOMES["ToyTree"] = Home("tests.saving.toy_tree", "estimator")
    models = make_models()
    counts: collections.Counter[str] = collections.Counter()
    try:
        with tempfile.TemporaryDirectory(prefix="fuzz-load-") as folder:
            for name, (files, _) in models.items():
                for file, data in files.items():
                    path = Path(folder, name, file)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
            for number in range(first, first + n_executions):
                if number % 100 == 0:
                    faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
                    if report:
                        print(f"\r{number}", end="", file=sys.stderr, flush=True)
                rng = random.Random(f"{seed}:{number}")
                name = rng.choice(sorted(models))
                files, question = models[name]
                changed = mutate(files, rng)
                for file, data in changed.items():
                    Path(folder, name, file).write_bytes(data)
                if removed := rng.choice([None] * 50 + sorted(files)):
                    Path(folder, name, removed).unlink()
                try:
                    counts[load_and_use(Path(folder, name), question, rng)] += 1
                except Exception as error:
                    error.add_note(f"fuzz_load: execution {number} of seed {seed}, model {name!r}, {sorted(changed)}")
                    raise
                for file in {*changed, removed or "manifest.json"}:
                    Path(folder, name, file).write_bytes(files[file])
    finally:
        faulthandler.cancel_dump_traceback_later()
        del HOMES["ToyTree"]
    return counts


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="executions (default 100000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first execution")
    options = parser.parse_args()
    counts = fuzz(options.n, options.seed, options.first, report=True)
    print(json.dumps({"executions": options.n, "seed": options.seed, "first": options.first, **counts}))


if __name__ == "__main__":
    main()
