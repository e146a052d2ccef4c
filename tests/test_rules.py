"""Parameter rules: what they accept and what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from longtail._rules import N_JOBS, Bool, Choice, Int, Nothing, Real, Rule, check_value


@pytest.mark.parametrize(
    ("rules", "good", "bad"),
    [
        ((Int(1),), [1, np.int32(7)], [0, -1, 1.0, True, "1", None]),
        ((Int(0, 3),), [0, 3], [4]),
        ((Real(0, above=True),), [0.1, 1, np.float32(2)], [0, -1, math.nan, math.inf, True, "0.1"]),
        ((Real(0, 1),), [0, 1, 0.5], [1.01]),
        ((Choice("msi", "zero"),), ["msi"], ["MSI", "", 3, None]),
        ((Bool(),), [True, np.bool_(False)], [0, 1, "yes"]),
        ((Nothing(), Int(1)), [None, 5], [0, "all"]),
    ],
)
def test_rules_accept_what_they_say(rules: tuple[Rule, ...], good: list[object], bad: list[object]) -> None:
    for value in good:
        check_value("Owner", "name", value, rules)
    for value in bad:
        with pytest.raises((ValueError, TypeError), match="Owner: name must be "):
            check_value("Owner", "name", value, rules)


def test_the_message_names_owner_rule_and_value() -> None:
    with pytest.raises(ValueError, match=r"^FastXML: n_trees must be an int >= 1, got 0$"):
        check_value("FastXML", "n_trees", 0, (Int(1),))
    with pytest.raises(ValueError, match=r"^DiSMEC: start must be one of 'zero', 'msi', got 'mean'$"):
        check_value("DiSMEC", "start", "mean", (Choice("zero", "msi"),))
    with pytest.raises(TypeError, match=r"^FastXML: n_trees must be an int >= 1, got 2.0$"):
        check_value("FastXML", "n_trees", 2.0, (Int(1),))
    with pytest.raises(ValueError, match=r"must be a number in \(0, 1\], got 0"):
        check_value("GBDTSparse", "shrinkage", 0, (Real(0, 1, above=True),))
    with pytest.raises(ValueError, match=r"must be a finite number > 0, got inf"):
        check_value("DiSMEC", "cost", math.inf, (Real(0, above=True),))
    with pytest.raises(ValueError, match=r"n_jobs must be None or an int >= 1 or -1, got 0$"):
        check_value("FastXML", "n_jobs", 0, N_JOBS)
