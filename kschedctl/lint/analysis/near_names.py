"""Detection of misspelt names: names a slip apart, unless the difference is a number, a letter or a word of its own.

>>> find_similar_name("fast-sdd", ["fast-ssd", "slow-hdd"]), find_similar_name("ssd_fast", ["fast-ssd"])
('fast-ssd', 'fast-ssd')
>>> find_similar_name("data2", ["data1"]), find_similar_name("efs", ["nfs"]), find_similar_name("team-a", ["team-b"])
('', '', '')
>>> find_similar_name("standard", ["standard-rwo"])
''
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_COMMON_WORDS = """
    api app apps auth back base beta blue bold cache cfs code cold core data date dev dns east ebs edge efs etl eu gold
    good gpu gray grey head heads high host hot job jobs lab labs large left live load log logs low mail main mode nas
    net nfs node nodes north obs ops pod pods pool pools prd pre primary prod pub public qat rack read rest right role
    root sas sata sbx shop slow small snap south ssd stage staging store sub task tasks team test uat user users web
    west work worker workers
"""
_WORDS = frozenset(_COMMON_WORDS.split())
"""Words that differ from others in few letters: whoever writes one of them means it."""
_SEPARATORS = re.compile("[-._/]")
_MAX_SLIPS = 2
"""By how many letters two names may differ in length. Twice as many letters may be in only one of them."""
_MIN_LENGTH = 3
"""Shorter words do not count as misspelt."""
_SHORT_WORD = 4
"""A common word of at most this many letters is taken for what was meant."""
_LONG_WORD = 8
"""Words with this many letters may have two slips instead of one."""


def find_similar_name(written: str, known_names: Iterable[str], min_length: int = _MIN_LENGTH) -> str:
    """Find the known name that a name is a misspelling of. Return "" if the name is known or not similar to any.

    Words of fewer than ``min_length`` letters do not count as misspelt.
    """
    letters = set(written.lower())
    similar: list[tuple[int, str]] = []
    for name in known_names:
        if abs(len(written) - len(name)) > _MAX_SLIPS or len(letters ^ set(name.lower())) > 2 * _MAX_SLIPS:
            continue
        slips = _count_slips(written, name, min_length)
        if slips is not None:
            similar.append((slips, name))
    return min(similar)[1] if similar else ""


def _count_slips(written: str, known_name: str, min_length: int) -> int | None:
    """Count the slips between two names, or return None if they are different names."""
    if written == known_name or _extract_digits(written) != _extract_digits(known_name):
        return None
    written_words, known_words = _SEPARATORS.split(written.lower()), _SEPARATORS.split(known_name.lower())
    if "".join(written_words) == "".join(known_words) or sorted(written_words) == sorted(known_words):
        return 0
    differing = [(a, b) for a, b in zip(written_words, known_words, strict=False) if a != b]
    if len(written_words) != len(known_words) or len(differing) != 1:
        return None

    word, known_word = differing[0]
    shorter = min(len(word), len(known_word))
    is_common_word = word in _WORDS and (known_word in _WORDS or len(word) <= _SHORT_WORD)
    is_other_code = len(word) == len(known_word) < _SHORT_WORD and set(word) != set(known_word)  # such as rwo and rwx
    if is_common_word or is_other_code or shorter < min_length:
        return None
    slips = count_edits(word, known_word)
    allowed_slips = 2 if shorter >= _LONG_WORD else 1
    return slips if slips <= allowed_slips else None


def _extract_digits(name: str) -> str:
    """Return the digits of a name."""
    return "".join(filter(str.isdigit, name))


def count_edits(first: str, second: str) -> int:
    """Count the letters to insert, remove, replace or swap with the next one.

    >>> count_edits("cahce", "cache"), count_edits("zone", "zones"), count_edits("web", "api")
    (1, 1, 3)
    """
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        last, row = row, [i]
        for j, other_letter in enumerate(second, start=1):
            least = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != other_letter))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other_letter:
                least = min(least, before[j - 2] + 1)
            row.append(least)
        before = last
    return row[-1]
