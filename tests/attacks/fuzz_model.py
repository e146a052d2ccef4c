"""Change the values and shapes of saved models, with right checksums, and use what loads.

    python -m tests.attacks.fuzz_model --n 100000            # executions 0 ... 99999 of seed 0
    python -m tests.attacks.fuzz_model --first 4711 --n 1    # one of them again

Unlike fuzz_load.py, which changes bytes, every file is well formed here and agrees with its manifest, so that only the
checks of values stand between a changed array and native code. A model is refused with ValueError, or it loads; then it
predicts, explains, gains and loses labels, with answers that are rankings. Run it with a native core that was built
with sanitizers to see reads out of bounds (docs/reliability.md has the command). Every execution depends on its seed
and number only; a crash leaves the number of the last execution in --log.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import hashlib
import io
import json
import random
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import longtail as lt
from longtail.tagging.explanations import contributions_of
from tests.attacks.fuzz_load import Files
from tests.contract.estimators import ESTIMATORS
from tests.models.make import make_labels, make_rows

_HANG_SECONDS = 120
_INTS = (0, 1, -1, 2, 3, 7, 64, 255, 32767, 65535, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**63))
_REALS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e-30, 1e30, 3e38, -3e38, np.inf, -np.inf, np.nan)
_TEXTS = ["small web server", "web browser", "mail server", "music player", "chess game"] * 5
_LABELS = [["net", "server"], ["net"], ["net", "server", "mail"], ["music"], ["game"]] * 5


class Wrong(AssertionError):  # noqa: N818 -- the finding of a run, not an error of the library
    """A model that loaded gave an answer that is no ranking."""


def make_models() -> dict[str, tuple[Files, Any]]:
    """Save one small model of each kind; return its files, and inputs for it."""
    X, Y = make_rows(), make_labels()
    models: dict[str, tuple[Any, Any]] = {}
    for name, make in ESTIMATORS.items():
        models[name] = make().fit(X, Y), X[:5]
        models[f"{name} dense"] = make().fit(X.toarray(), Y.toarray()), X[:5].toarray()
    models["DiSMEC int8"] = lt.DiSMEC(n_jobs=1, weight_type="int8").fit(X, Y), X[:5]
    models["LabelTree int8"] = lt.LabelTree(n_jobs=1, max_leaf_size=2, weight_type="int8").fit(X, Y), X[:5]
    models["calibrated"] = lt.LEML(n_components=2, n_jobs=1).fit(X, Y, calibrate=True), X[:5]
    blend = lt.Blend(first=lt.LEML(n_components=2, n_jobs=1), second=lt.Popularity(n_jobs=1), n_jobs=1)
    models["Blend"] = blend.fit(X, Y), X[:5]
    vectorizer = lt.TextVectorizer(min_df=1, max_ngram=2, max_chars=3)
    for name in ("DiSMEC", "LabelTree", "FastXML", "GBDTSparse"):
        tagger = lt.Tagger(ESTIMATORS[name](), vectorizer).fit(_TEXTS, _LABELS)
        models[f"tagger {name}"] = tagger.calibrate(_TEXTS, _LABELS), _TEXTS[:3]
    made: dict[str, tuple[Files, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, inputs) in models.items():
            path = Path(folder, name)
            lt.save(model, path)
            files = {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
            made[name] = files, inputs
    return made


def mutate(files: Files, rng: random.Random) -> Files:
    """Return the changed files and their manifests, which agree with them."""
    changed: Files = {}
    arrays = sorted(name for name in files if name.endswith(".npy"))
    manifests = sorted(name for name in files if name.endswith("manifest.json"))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if rng.random() < 0.2:
            name = rng.choice(manifests)
            changed[name] = change_scalar(changed.get(name, files[name]), rng)
            continue
        name = rng.choice(arrays)
        array = np.load(io.BytesIO(changed.get(name, files[name])))
        with np.errstate(all="ignore"):
            array = change_array(array, rng)
        buffer = io.BytesIO()
        np.save(buffer, np.ascontiguousarray(array))
        changed[name] = buffer.getvalue()
        manifest = str(Path(name).parent / "manifest.json")
        root = json.loads(changed.get(manifest, files[manifest]))
        claim = root["arrays"][Path(name).stem]
        claim["shape"], claim["size_bytes"] = list(array.shape), len(changed[name])
        claim["sha256"] = hashlib.sha256(changed[name]).hexdigest()
        changed[manifest] = json.dumps(root).encode()
    return changed


def change_scalar(data: bytes, rng: random.Random) -> bytes:
    """Change one number or word of a manifest's parameters or fitted scalars."""
    root = json.loads(data)
    values = root[rng.choice(("parameters", "fitted", "fitted"))]
    if not values:
        return data
    name = rng.choice(sorted(values))
    old = values[name]
    if isinstance(old, bool):
        values[name] = not old
    elif isinstance(old, int):
        values[name] = rng.choice((old - 1, old + 1, 2 * old, *_INTS))
    elif isinstance(old, float):
        values[name] = rng.choice((0.0, -old, old / 2, old * 1e30, 1e-30, 1e308, 1.0))
    elif isinstance(old, str):
        values[name] = rng.choice(("int8", "float32", "sparse", "dense", "classes", "logistic", "squared_hinge", "x"))
    return json.dumps(root).encode()


def change_array(array: NDArray[Any], rng: random.Random) -> NDArray[Any]:
    """Change values, the order or the shape of an array; its dtype stays."""
    flat = array.reshape(-1).copy()
    kinds = ("set", "set", "set", "fill", "copy", "swap", "add", "drop", "repeat", "cut", "grow", "roll", "shape")
    kind = rng.choice(kinds)
    if flat.size == 0:
        return np.zeros(rng.choice((0, 1, 2)) if array.ndim == 1 else array.shape, array.dtype)
    at, other = rng.randrange(flat.size), rng.randrange(flat.size)
    if kind == "set":
        for _ in range(rng.choice((1, 1, 4))):
            flat[rng.randrange(flat.size)] = interesting(array, rng)
    elif kind == "fill":  # both signs of one large number: sums of products overflow in both directions
        value = interesting(array, rng)
        flat[:] = value
        flat[::3] = -value if array.dtype.kind == "f" else value
    elif kind == "copy":
        flat[at] = flat[other]
    elif kind == "swap":
        flat[[at, other]] = flat[[other, at]]
    elif kind == "add":
        flat[at] += array.dtype.type(rng.choice((1, 1, 2)) if rng.random() < 0.5 else 0)
    elif kind == "roll":
        flat = np.roll(flat, rng.choice((1, -1)))
    elif array.ndim == 1:
        edits = {
            "drop": lambda: np.delete(flat, at),
            "repeat": lambda: np.insert(flat, at, flat[at]),
            "cut": lambda: flat[:at],
            "grow": lambda: np.append(flat, flat[: 1 + at]),
            "shape": lambda: flat.reshape(1, -1) if rng.random() < 0.1 else flat[:0],
        }
        return edits[kind]()
    else:
        axis = rng.randrange(array.ndim)
        lines = list(range(array.shape[axis]))
        place = rng.randrange(len(lines))
        if kind in ("drop", "cut"):
            lines = lines[:place] if kind == "cut" else lines[:place] + lines[place + 1 :]
        elif kind in ("repeat", "grow"):
            lines.insert(place, place)
        else:
            return array.T
        return array.take(lines, axis=axis)
    return flat.reshape(array.shape)


def interesting(array: NDArray[Any], rng: random.Random) -> Any:
    """Return a value at the edges of the dtype, of the array's length or of its own values."""
    if array.dtype.kind == "f":
        return array.dtype.type(rng.choice((*_REALS, -float(array.flat[0]), float(array.max()) * 2)))
    largest = int(array.max())
    number = rng.choice(
        (*_INTS, array.size, array.size - 1, array.size + 1, largest, largest + 1, int(array.min()) - 1)
    )
    bounds = np.iinfo(array.dtype)
    return array.dtype.type(max(bounds.min, min(bounds.max, number)))


def use(model: Any, inputs: Any, rng: random.Random) -> str:
    """Do everything with a loaded model that a user can; return what came of it."""
    n_refused = 0
    for action in (rank, decide, explain, change_labels):
        try:
            action(model, inputs, rng)
        except (ValueError, TypeError, NotImplementedError):
            n_refused += 1  # the model may now want other features
    return "used" if n_refused == 0 else f"refused {n_refused} of 4 uses"


def rank(model: Any, inputs: Any, rng: random.Random) -> None:
    top = model.predict_top_k(inputs, rng.choice((1, 4, 100)))
    for ids, scores in zip(top.label_ids, top.scores, strict=True):
        given = ids[ids >= 0]
        if len(set(given.tolist())) != len(given):
            raise Wrong(f"a label comes twice: {ids.tolist()}")
        if len(given) and given.max() >= model.n_labels_:
            raise Wrong(f"a label that is not there: {ids.tolist()}")
        if np.isnan(scores).any():
            raise Wrong(f"a score is NaN: {scores.tolist()}")


def decide(model: Any, inputs: Any, rng: random.Random) -> None:
    model.predict(inputs)
    model.card()


def explain(model: Any, inputs: Any, rng: random.Random) -> None:
    if isinstance(model, lt.Tagger):
        model.tag(inputs, threshold=rng.choice((None, 0.5, "auto")))
        model.explain(inputs[0], rng.choice(model.label_names_))
    else:
        row = sp.csr_array(inputs)[:1]
        contributions_of(model, row if sp.issparse(inputs) else row.toarray(), rng.randrange(model.n_labels_))


def change_labels(model: Any, inputs: Any, rng: random.Random) -> None:
    if isinstance(model, lt.Tagger):
        model = model.estimator
        inputs = sp.csr_array((3, model.n_features_in_), dtype=np.float32)
    if hasattr(model, "add_labels"):
        model.add_labels(inputs, np.eye(inputs.shape[0], 2, dtype=np.float32))
        model.predict_top_k(inputs, 4)
    if hasattr(model, "remove_labels"):
        model.remove_labels([rng.randrange(model.n_labels_)])
        model.predict_top_k(inputs, 4)


def load_and_use(path: Path, inputs: Any, rng: random.Random) -> str:
    """Return what came out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = lt.load(path, verify=True)
        except (ValueError, OSError):
            return "refused"
        with np.errstate(all="ignore"):
            return use(model, inputs, rng)


def fuzz(n_executions: int, seed: int = 0, first: int = 0, *, log: Path | None = None) -> collections.Counter[str]:
    """Run the executions and count what came out; anything but the allowed errors is raised with its number."""
    models = make_models()
    counts: collections.Counter[str] = collections.Counter()
    names = sorted(models)
    with tempfile.TemporaryDirectory(prefix="fuzz-model-", dir="/dev/shm") as folder:
        for name, (files, _) in models.items():
            write(Path(folder, name), files)
        for number in range(first, first + n_executions):
            rng = random.Random(f"{seed}:{number}")
            name = rng.choice(names)
            files, inputs = models[name]
            changed = mutate(files, rng)
            write(Path(folder, name), changed)
            if log is not None:
                log.write_text(f"{number} {name} {sorted(changed)}\n")
            faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
            try:
                counts[load_and_use(Path(folder, name), inputs, rng)] += 1
            except Exception as error:
                error.add_note(f"fuzz_model: execution {number} of seed {seed}, model {name!r}, {sorted(changed)}")
                if log is None:
                    raise
                counts[f"FOUND {type(error).__name__}"] += 1
                with log.with_suffix(".found").open("a") as file:
                    file.write(f"{number} {name} {sorted(changed)}: {type(error).__name__}: {error}\n")
            finally:
                faulthandler.cancel_dump_traceback_later()
            write(Path(folder, name), {file: files[file] for file in changed})
    return counts


def write(folder: Path, files: Files) -> None:
    for file, data in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="executions (default 100000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first execution")
    parser.add_argument("--log", type=Path, help="file for the number of the running execution; findings go beside it")
    options = parser.parse_args()
    counts = fuzz(options.n, options.seed, options.first, log=options.log)
    print(json.dumps({"executions": options.n, "seed": options.seed, "first": options.first, **counts}))
    return int(any(outcome.startswith("FOUND") for outcome in counts))


if __name__ == "__main__":
    raise SystemExit(main())
