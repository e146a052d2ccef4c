"""The native core, in the fastest build that this CPU can run.

``LONGTAIL_ISA=baseline|avx2|avx512`` asks for a slower one, for comparison or to get the same bytes on unlike machines.
"""

import importlib
import os

from longtail._cpu import best_isa

_ORDER = ("baseline", "avx2", "avx512")


def _load() -> None:
    wanted = os.environ.get("LONGTAIL_ISA") or best_isa()
    if wanted not in _ORDER[: _ORDER.index(best_isa()) + 1]:
        raise ImportError(f"LONGTAIL_ISA must be one that this CPU runs, up to {best_isa()!r}; got {wanted!r}")
    for isa in reversed(_ORDER[: _ORDER.index(wanted) + 1]):
        try:
            module = importlib.import_module(f"longtail._core_{isa}")
        except ModuleNotFoundError:
            continue  # a development build may hold one instruction set only
        globals().update({name: value for name, value in vars(module).items() if not name.startswith("__")})
        globals()["isa"] = isa
        return
    raise ImportError(
        f"longtail: no build of the native core for {wanted!r} found beside {__file__}; reinstall longtail"
    )


_load()
