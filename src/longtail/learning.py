"""Learn from the corrections of a saved model, keep the models that were replaced, and put them back.

Beside `tags.model` lies `tags.model.earlier`: the replaced models by number, and `learnt.json`, which says from which
of them each learnt model was made. A model is always learnt from the model that was trained, and from all corrections:
learning twice changes nothing, and corrections that were deleted are forgotten.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from longtail._array_files import staged
from longtail.feedback import Feedback, FeedbackStore, feedback_path
from longtail.saving import load, save
from longtail.tagging import Learnt, Tagger

# Replaced models to keep, besides those that a model is learnt from.
_N_KEPT = 3
_PRODUCTS = "learnt.json"


def learn_from_feedback(
    model: str | os.PathLike[str], feedback: Iterable[Feedback] | None = None, *, held_back: float = 0.2
) -> Learnt:
    """Put the corrections of a saved model into it; a running service takes the new model over.

    Parameters
    ----------
    model : path of a saved Tagger
    feedback : Feedback objects, optional
        Default: all that ``longtail serve --feedback`` has stored beside the model.
    held_back : float in [0, 0.5], default 0.2
        The share of the texts on which the effect is measured.

    Returns
    -------
    Learnt
    """
    path = Path(os.path.normpath(model))
    if feedback is None:
        store = FeedbackStore(feedback_path(path), must_exist=True)
        feedback = [stored.feedback for stored in store]
        store.close()
    texts, right, wrong, complete = merge_feedback(feedback)
    if not texts:
        raise ValueError(f"{path}: there are no corrections to learn from")
    base = _base_of(path)
    tagger = load(path if base is None else _earlier(path) / str(base))
    if not isinstance(tagger, Tagger):
        raise ValueError(f"{path}: must be a model for texts to learn from corrections")
    learnt = tagger.learn(texts, right, rejected=wrong, complete=complete, held_back=held_back)
    kept = _keep(path)
    made = _earlier(path) / "next"
    save(tagger, made, overwrite=True)
    # Before the model is in place, so that it is never taken for one that was trained.
    _write_products(path, _products(path) | {version_of(made): kept if base is None else base})
    with staged(path, overwrite=True) as folder:
        _link_tree(made, folder)
    shutil.rmtree(made)
    _drop_old(path)
    return learnt


def roll_back(model: str | os.PathLike[str]) -> int:
    """Put the model back that the last `learn_from_feedback` replaced; return how many earlier ones are left."""
    path = Path(os.path.normpath(model))
    numbers = _numbers(path)
    if not numbers:
        raise ValueError(f"{path}: there is no earlier model to go back to")
    newest = _earlier(path) / str(numbers[-1])
    load(newest)  # nothing is replaced by what cannot be loaded
    with staged(path, overwrite=True) as folder:
        _link_tree(newest, folder)
    shutil.rmtree(newest)
    products = {version: base for version, base in _products(path).items() if base != numbers[-1]}
    _write_products(path, products)
    return len(numbers) - 1


def merge_feedback(feedback: Iterable[Feedback]) -> tuple[list[str], list[list[str]], list[list[str]], list[bool]]:
    """Collect what is known of each text: texts, right labels, wrong labels, completeness; the newest answer counts."""
    answers: dict[str, dict[str, bool]] = {}
    complete: dict[str, bool] = {}
    for item in feedback:
        known = answers.setdefault(item.text, {})
        if item.complete:  # what was said to be right before and is not any more
            known.update(dict.fromkeys((label for label, is_right in known.items() if is_right), False))
        known.update(dict.fromkeys(item.rejected, False))
        known.update(dict.fromkeys(item.labels, True))
        complete[item.text] = complete.get(item.text, False) or item.complete
    texts = list(answers)
    right = [sorted(label for label, is_right in answers[text].items() if is_right) for text in texts]
    wrong = [sorted(label for label, is_right in answers[text].items() if not is_right) for text in texts]
    return texts, right, wrong, [complete[text] for text in texts]


def version_of(model: Path) -> str:
    """Return the version of a saved model: a hash of its manifest, which holds the checksums of all arrays."""
    return hashlib.sha256((model / "manifest.json").read_bytes()).hexdigest()[:12]


def _earlier(path: Path) -> Path:
    return path.with_name(path.name + ".earlier")


def _numbers(path: Path) -> list[int]:
    folder = _earlier(path)
    return sorted(int(child.name) for child in folder.iterdir() if child.name.isdigit()) if folder.is_dir() else []


def _base_of(path: Path) -> int | None:
    """Return the number of the model that the current one was learnt from; None if the current one was trained."""
    base = _products(path).get(version_of(path))
    return base if base in _numbers(path) else None


def _keep(path: Path) -> int:
    """Keep the current model under the next number; its files are linked, not copied."""
    _earlier(path).mkdir(exist_ok=True)
    number = max(_numbers(path), default=0) + 1
    with staged(_earlier(path) / str(number)) as folder:
        _link_tree(path, folder)
    return number


def _drop_old(path: Path) -> None:
    bases = set(_products(path).values())
    spare = [number for number in _numbers(path) if number not in bases]
    for number in spare[:-_N_KEPT]:
        shutil.rmtree(_earlier(path) / str(number))


def _link_tree(source: Path, target: Path) -> None:
    """Link every file of a model into an empty directory: files of models are never written to again."""
    for child in source.iterdir():
        if child.is_dir():
            (target / child.name).mkdir()
            _link_tree(child, target / child.name)
            continue
        try:
            os.link(child, target / child.name)
        except OSError:  # another file system, or one without links
            shutil.copyfile(child, target / child.name)


def _products(path: Path) -> dict[str, int]:
    """Return the number of the model that each learnt model was made from, by version."""
    try:
        found: Any = json.loads((_earlier(path) / _PRODUCTS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError:
        found = None
    if not isinstance(found, dict) or any(type(number) is not int for number in found.values()):
        raise ValueError(
            f"{_earlier(path) / _PRODUCTS}: must map versions to numbers; remove it to learn from the model"
        )
    return found


def _write_products(path: Path, products: dict[str, int]) -> None:
    target = _earlier(path) / _PRODUCTS
    beside = target.with_suffix(".tmp")
    beside.write_text(json.dumps(products), encoding="utf-8")
    beside.replace(target)
