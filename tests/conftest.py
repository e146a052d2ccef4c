"""Fixtures that every test file may use."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

_REPOSITORY = Path(__file__).resolve().parent.parent


def pytest_configure() -> None:
    """Let Ctrl-C through: what a shell starts in the background ignores it, and so would the processes we test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Give the function ``shared_data(name)``: the folder of a public data set, or a skipped test.

    The sets are too large, or not ours, to keep in the repository. They are looked for in ``$LONGTAIL_DATA``,
    then in ``../shared/data``; ``shared_data("eurlex/eurlex_test.txt.gz")`` names one file.
    """

    def find(name: str) -> Path:
        folders = [_REPOSITORY.parent / "shared" / "data"]
        if wanted := os.environ.get("LONGTAIL_DATA"):
            folders.insert(0, Path(wanted))
        for folder in folders:
            if (folder / name).exists():
                return folder / name
        looked_in = " or ".join(map(str, folders))
        pytest.skip(f"data set {name!r} is not in {looked_in}: set LONGTAIL_DATA to its parent folder")

    return find
