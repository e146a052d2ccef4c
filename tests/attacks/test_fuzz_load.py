"""A short run of the fuzzer; longer ones by hand, see fuzz_load.py."""

from __future__ import annotations

from tests.attacks.fuzz_load import fuzz


def test_a_changed_model_loads_or_is_refused() -> None:
    counts = fuzz(1500, seed=1)
    assert counts.keys() <= {"ValueError", "DamagedFileError", "loaded", "loaded, question refused"}
    assert counts["ValueError"] > 500
    assert counts["loaded"] > 50, "mutations that always break something early test nothing"
