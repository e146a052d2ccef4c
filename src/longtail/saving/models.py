"""Save, load and describe models."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from longtail._array_files import ArrayDirectory, DamagedFileError, Verification, read_directory, staged, write_folder
from longtail._array_files.specs import check_name, shown
from longtail._base import XMCClassifier
from longtail._rules import check_value
from longtail._version import __version__
from longtail.saving import estimators, fitted_parts, taggers
from longtail.saving.names import NamesClaim, check_names_claims, read_names, write_names
from longtail.saving.parts import Parts, Storage, check_keys
from longtail.saving.registry import HOMES, Kind, find_class, name_of
from longtail.saving.upgrades import FORMAT, KIND, upgrade
from longtail.tagging import Tagger

# What can be saved; the protocol is longtail._model.Model.
Model = XMCClassifier | Tagger
_KEYS = ("kind", "format", "longtail", "class", "parameters", "fitted", "names", "models")
_MAX_DEPTH = 8
_MAX_MESSAGE = 1000
_STORAGES: dict[Kind, Storage] = {
    "estimator": estimators.STORAGE,
    "tagger": taggers.STORAGE,
    "part": fitted_parts.STORAGE,
}


def save(model: Model, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Save a fitted model as a directory of mapped arrays.

    Parameters
    ----------
    model : estimator or Tagger
        A fitted model of one of longtail's own classes.
    path : path
        The directory to make.
    overwrite : bool, default False
        Replace a model that is there. A crash at any moment leaves the old one or the new one.

    Examples
    --------
    >>> import numpy as np, longtail as lt, tempfile
    >>> model = lt.Popularity().fit(np.ones((2, 4)), np.array([[1, 1, 0], [1, 0, 0]]))
    >>> path = tempfile.mkdtemp() + "/popular.model"
    >>> lt.save(model, path)
    >>> lt.load(path).predict_top_k(np.ones((1, 4)), top_k=2).label_ids
    array([[0, 1]], dtype=int32)
    """
    if not isinstance(model, Model):
        raise TypeError(f"save: model must be a longtail estimator or a Tagger, got {type(model).__name__}")
    name_of(model)
    with staged(path, overwrite=overwrite) as folder:
        _write(model, folder)
        load(folder, verify=False)  # nothing is put in place that could not be loaded


def load(path: str | os.PathLike[str], *, verify: bool | Literal["background"] = "background") -> Model:
    """Load a model that `save` wrote.

    Arrays are mapped, not copied, and several processes share the memory. Every claim of the directory is checked
    before it is used; nothing in it can run code.

    Parameters
    ----------
    path : path
        The directory of the model.
    verify : bool or "background", default "background"
        Compare checksums, which takes about a second per GB. "background" compares files of up to 4 MiB at once and
        leaves larger ones to a thread: once it finds damage, it gives a warning, and every use of the model raises
        `DamagedFileError`. Python does not exit before the thread is done while the model exists. True compares all
        files before it returns, False none.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    DamagedFileError
        If a checksum differs.
    ValueError
        If anything in it is not what it must be; DamagedFileError is one.
    """
    if verify not in (True, False, "background"):
        raise ValueError(f"load: verify must be True, False or 'background', got {verify!r}")
    model = read_directory(path, lambda directory: _load(directory, verify))
    if not isinstance(model, Model):
        raise ValueError(f"{path}: holds a {type(model).__name__}, which is a part of a model, not one itself")
    return model


def version_of(path: str | os.PathLike[str]) -> str:
    """Return the version of a saved model: a hash of its manifests, which hold the checksums of all arrays."""
    folder = Path(path)
    found = hashlib.sha256()
    for manifest in [folder / "manifest.json", *sorted(folder.glob("*/**/manifest.json"))]:
        found.update(str(manifest.relative_to(folder)).encode() + b"\0" + manifest.read_bytes() + b"\0")
    return found.hexdigest()[:12]


def _load(directory: ArrayDirectory, verify: bool | Literal["background"]) -> Any:
    verification = Verification() if verify == "background" else None
    model = _read(directory, verify=bool(verify) if verification is None else verification, depth=0)
    if verification is not None:
        verification.start()
    return model


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell what a saved model is, from its manifest, without reading its arrays.

    Parameters
    ----------
    path : path
        The directory of the model.

    Returns
    -------
    dict
        JSON values: class, format, library version, size in bytes, parameters, fitted scalars, arrays, names, and the
        models inside.
    """
    return read_directory(path, lambda directory: _describe(directory, depth=0))


@dataclass(frozen=True)
class _Manifest:
    """The checked manifest of one model."""

    owner: str
    format: int
    version: str
    cls: type[Any]
    storage: Storage
    parameters: dict[str, Any]
    fitted: dict[str, Any]
    names: dict[str, NamesClaim]
    models: list[str]


def _write(model: Any, folder: Path) -> None:
    name = name_of(model)
    parts = _STORAGES[HOMES[name].kind].take_apart(model)
    models = {key: inner for key, inner in parts.models.items() if inner is not None}
    meta = {
        "kind": KIND,
        "format": FORMAT,
        "longtail": __version__,
        "class": name,
        "parameters": parts.parameters,
        "fitted": parts.fitted,
        "names": write_names(folder, parts.names),
        "models": sorted(models),
    }
    write_folder(folder, parts.arrays, meta)
    for key, inner in models.items():
        (folder / key).mkdir()
        _write(inner, folder / key)


def _read(directory: ArrayDirectory, *, verify: bool | Verification, depth: int) -> Any:
    manifest = _check_manifest(directory, depth)
    owner = str(directory.path)
    try:
        expected = manifest.storage.expect(manifest.cls, manifest.owner, manifest.fitted)
        expected.check_members(manifest.owner, manifest.names, manifest.models)
        parts = Parts(manifest.parameters, manifest.fitted, directory.read(expected.arrays, verify=verify))
        parts.verification = verify if isinstance(verify, Verification) else None
        for name, claim in manifest.names.items():
            parts.names[name] = read_names(directory, name, claim, verify=bool(verify))
        for name in manifest.models:
            with directory.folder(name) as inner:
                parts.models[name] = _read(inner, verify=verify, depth=depth + 1)
            check_value(owner, name, parts.models[name], expected.models[name])
        return manifest.storage.put_together(manifest.cls, parts)
    except DamagedFileError:
        raise
    except (TypeError, ValueError) as error:
        message = str(error)
        message = message if owner in message else f"{owner}: {message}"
        raise ValueError(message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + "…") from None


def _check_manifest(directory: ArrayDirectory, depth: int) -> _Manifest:
    owner = str(directory.path / "manifest.json")
    if depth > _MAX_DEPTH:
        raise ValueError(f"{owner}: models may be nested at most {_MAX_DEPTH} deep")
    meta = upgrade(owner, directory.meta)
    check_keys(owner, meta, _KEYS)
    for key in ("parameters", "fitted"):
        if not isinstance(meta[key], dict):
            raise ValueError(f'{owner}: "{key}" must be an object, got {shown(meta[key])}')
    if not isinstance(meta["longtail"], str):
        raise ValueError(f'{owner}: "longtail" must be the version that wrote it, got {shown(meta["longtail"])}')
    models = meta["models"]
    if not isinstance(models, list) or len({check_name(owner, name) for name in models}) != len(models):
        raise ValueError(f'{owner}: "models" must be a list of different names, got {shown(models)}')
    cls, kind = find_class(owner, meta["class"])
    return _Manifest(
        owner=owner,
        format=directory.meta["format"],
        version=meta["longtail"],
        cls=cls,
        storage=_STORAGES[kind],
        parameters=meta["parameters"],
        fitted=meta["fitted"],
        names=check_names_claims(owner, meta["names"]),
        models=models,
    )


def _describe(directory: ArrayDirectory, depth: int) -> dict[str, Any]:
    manifest = _check_manifest(directory, depth)
    models: dict[str, Any] = {}
    for name in manifest.models:
        with directory.folder(name) as inner:
            models[name] = _describe(inner, depth + 1)
    claims = directory.claims
    size_bytes = directory.size_bytes("manifest.json")
    size_bytes += sum(directory.size_bytes(f"{name}.npy") for name in claims)
    size_bytes += sum(directory.size_bytes(f"{name}.jsonl") for name in manifest.names)
    return {
        "path": str(directory.path),
        "class": manifest.cls.__name__,
        "format": manifest.format,
        "longtail": manifest.version,
        "size_bytes": size_bytes + sum(model["size_bytes"] for model in models.values()),
        "parameters": manifest.parameters,
        "fitted": manifest.fitted,
        "arrays": {
            name: {"dtype": claim.dtype.name, "shape": list(claim.shape), "size_bytes": claim.size_bytes}
            for name, claim in claims.items()
        },
        "names": {name: claim.n_names for name, claim in manifest.names.items()},
        "models": models,
    }
