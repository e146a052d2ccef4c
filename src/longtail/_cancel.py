"""Stop predictions from another thread.

Kernels look at a `_core.Control` as they go. Methods that predict have no parameter for one: they take the Control of
the context that they run in. The service gives each request its own and cancels it when the request is late.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from longtail import _core

_current: ContextVar[_core.Control | None] = ContextVar("longtail_control", default=None)


@contextmanager
def stoppable(control: _core.Control) -> Iterator[None]:
    """Let ``control.cancel()`` stop the predictions made in this context; they then raise ``Cancelled``."""
    token = _current.set(control)
    try:
        yield
    finally:
        _current.reset(token)


def current_control() -> _core.Control:
    """Return the Control of this context, or a new one that only Ctrl-C cancels."""
    found = _current.get()
    return _core.Control() if found is None else found


def check_cancelled() -> None:
    """Raise ``Cancelled`` if this context was asked to stop: for predictions that are written in Python."""
    if current_control().cancelled:
        raise _core.Cancelled("stopped before the end")


@contextmanager
def as_interrupt() -> Iterator[None]:
    """Turn a kernel's ``Cancelled`` into KeyboardInterrupt, where nothing but Ctrl-C can have stopped it."""
    try:
        yield
    except _core.Cancelled:
        if _current.get() is not None:
            raise
        raise KeyboardInterrupt from None
