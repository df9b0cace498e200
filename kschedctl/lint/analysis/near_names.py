"""Whether one name was meant for another: a slip of the finger apart, and no number, letter or word of its own.

>>> one_meant("fast-sdd", ["fast-ssd", "slow-hdd"]), one_meant("data2", ["data1"]), one_meant("efs", ["nfs"])
('fast-ssd', '', '')
>>> one_meant("ssd_fast", ["fast-ssd"]), one_meant("team-a", ["team-b"]), one_meant("standard", ["standard-rwo"])
('fast-ssd', '', '')
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_LETTER_APART = """
    api app apps auth back base beta blue bold cache cfs code cold core data date dev dns east ebs edge efs etl eu gold
    good gpu gray grey head heads high host hot job jobs lab labs large left live load log logs low mail main mode nas
    net nfs node nodes north obs ops pod pods pool pools prd pre primary prod pub public qat rack read rest right role
    root sas sata sbx shop slow small snap south ssd stage staging store sub task tasks team test uat user users web
    west work worker workers
"""
_WORDS = frozenset(_LETTER_APART.split())
"""Words that others are a letter away from: whoever writes one of them means it."""
_SEPARATORS = re.compile("[-._/]")
_MOST_SLIPS = 2
"""The most letters by which two names differ in length; twice as many may be in one of them alone."""
_LEAST, _SHORT, _LONG = 3, 4, 8
"""Letters that a word has to have to be a slip; of one that may be a word of its own; for two slips."""


def one_meant(written: str, known: Iterable[str], least: int = _LEAST) -> str:
    """Which of the known names was meant; empty where it is one of them, or near none.

    ``least``: the letters that a word has to have to be a slip.
    """
    letters = set(written.lower())
    near = [
        (_slips(written, name, least), name)
        for name in known
        if abs(len(written) - len(name)) <= _MOST_SLIPS and len(letters ^ set(name.lower())) <= 2 * _MOST_SLIPS
    ]
    return min(((slips, name) for slips, name in near if slips is not None), default=(0, ""))[1]


def _slips(written: str, name: str, least: int) -> int | None:
    """How many slips two names are apart; None where they are two names."""
    if written == name or _digits(written) != _digits(name):
        return None
    ours, theirs = (_SEPARATORS.split(text.lower()) for text in (written, name))
    if "".join(ours) == "".join(theirs) or sorted(ours) == sorted(theirs):
        return 0
    differing = [(a, b) for a, b in zip(ours, theirs, strict=False) if a != b]
    if len(ours) != len(theirs) or len(differing) != 1:
        return None
    word, other = differing[0]
    own_word = word in _WORDS and (other in _WORDS or len(word) <= _SHORT)
    code = len(word) == len(other) < _SHORT and set(word) != set(other)  # as rwo and rwx
    if own_word or code or min(len(word), len(other)) < least:
        return None
    slips = edits(word, other)
    return slips if slips <= 1 + (min(len(word), len(other)) >= _LONG) else None


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))


def edits(one: str, other: str) -> int:
    """Letters to insert, leave out, replace, or swap with the next one, each pair of them once.

    >>> edits("cahce", "cache"), edits("zone", "zones"), edits("web", "api")
    (1, 1, 3)
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        last, row = row, [i]
        for j, theirs in enumerate(other, start=1):
            least = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != theirs))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == theirs:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        before = last
    return row[-1]
