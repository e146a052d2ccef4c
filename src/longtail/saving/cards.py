"""Write what a saved model was measured to be worth into it, without touching its arrays."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from longtail._array_files import staged
from longtail._array_files.strict_json import MAX_BYTES, dump_json, parse_json
from longtail.saving.models import load


def record_evaluation(
    path: str | os.PathLike[str], metrics: Mapping[str, float], *, n_rows: int, data: str | None = None
) -> None:
    """Store measures in the card of a saved model, in place of earlier ones.

    Arrays are linked, not copied, so that a large model takes no longer than a small one; where links are not possible
    they are copied. A crash at any moment leaves the model as it was or with the new card.

    Parameters
    ----------
    path : path
        The directory of the model.
    metrics : mapping of names to numbers
        For instance an `Evaluation`.
    n_rows : int
        Rows or texts that were measured.
    data : str, optional
        What the card calls them.

    Examples
    --------
    >>> import numpy as np, longtail as lt, tempfile
    >>> from longtail.saving import record_evaluation
    >>> path = tempfile.mkdtemp() + "/popular.model"
    >>> lt.save(lt.Popularity().fit(np.ones((2, 4)), np.array([[1, 1, 0], [1, 0, 0]])), path)
    >>> record_evaluation(path, {"P@1": 100.0}, n_rows=2, data="train.txt")
    >>> lt.load(path).card()["evaluated_on"]
    {'data': 'train.txt', 'n_rows': 2}
    """
    source = Path(path)
    with staged(source, overwrite=True) as folder:
        shutil.copytree(source, folder, copy_function=_link, dirs_exist_ok=True)
        manifest = folder / "manifest.json"
        meta = parse_json(str(manifest), manifest.read_bytes(), max_bytes=MAX_BYTES)
        meta["fitted"] = meta["fitted"] | {
            "metrics_": {name: float(value) for name, value in metrics.items() if math.isfinite(value)},
            "evaluated_on_": {"data": data, "n_rows": int(n_rows)},
        }
        manifest.unlink()  # a link to the old one
        manifest.write_bytes(dump_json(str(manifest), meta))
        load(folder)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)
