"""The sample that ships with longtail: Debian packages and their tags."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from longtail.datasets.raw_text import read_text

_FOLDER = Path(__file__).parent / "debtags"


@dataclass(frozen=True)
class Sample:
    """Texts and their label names, in two parts that share no source package."""

    train_texts: list[str] = field(repr=False)
    train_labels: list[list[str]] = field(repr=False)
    test_texts: list[str] = field(repr=False)
    test_labels: list[list[str]] = field(repr=False)


def load_sample() -> Sample:
    """Load the shipped sample: 30,300 Debian package descriptions with their debtags.

    The text is name, short and long description of a package; a label is a tag such as ``role::program``. The split
    is fixed: 23,055 rows to learn from, 7,245 to test on, 583 labels. ``debtags/README.md`` beside this module tells
    where it comes from.

    Returns
    -------
    sample : Sample
        With ``train_texts``, ``train_labels``, ``test_texts``, ``test_labels``.

    Examples
    --------
    >>> import longtail as lt
    >>> sample = lt.datasets.load_sample()
    >>> len(sample.train_texts), len(sample.test_texts)
    (23055, 7245)
    >>> sample.train_texts[0].splitlines()[1]
    'Real-time strategy game of ancient warfare'
    >>> sample.train_labels[0][:2]
    ['game::strategy', 'interface::graphical']
    """
    return Sample(*read_text(_FOLDER / "train.jsonl.gz"), *read_text(_FOLDER / "test.jsonl.gz"))
