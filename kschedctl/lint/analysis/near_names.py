"""Detection of misspelled names: names that differ by a typing slip, but not by digits, a short code or a common word.

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
"""Common words that differ from others in few letters, and so are meant if they are written."""
_SEPARATORS = re.compile("[-._/]")
_MAX_SLIPS = 2
"""The maximum difference of names in length. Twice as many letters may occur in only one of two names."""
_MIN_LENGTH = 3
"""Shorter words do not count as misspelled."""
_SHORT_WORD = 4
"""A common word of at most this many letters never counts as misspelled."""
_LONG_WORD = 8
"""Words with this many letters may have two slips instead of one."""


def find_similar_name(written: str, known_names: Iterable[str], min_length: int = _MIN_LENGTH) -> str:
    """Return the known name that differs from a misspelled name by the fewest typing slips, or "" if none is similar.

    A name is not similar to itself. Words of fewer than ``min_length`` letters do not count as misspelled.
    """
    letters = set(written.lower())
    slips_by_name: dict[str, int] = {}
    for name in known_names:
        # A cheap test that excludes most names.
        if abs(len(written) - len(name)) > _MAX_SLIPS or len(letters ^ set(name.lower())) > 2 * _MAX_SLIPS:
            continue
        slips = _count_typing_slips(written, name, min_length)
        if slips is not None:
            # 0 slips are a result as well: the names differ only in case, separators or word order
            slips_by_name[name] = slips
    return min(slips_by_name, key=lambda name: (slips_by_name[name], name), default="")


def _count_typing_slips(written: str, known_name: str, min_length: int) -> int | None:
    """Count the typing slips between two names, or return None if one is no misspelling of the other.

    Names that differ only in case, separators or the order of their words are 0 slips apart. The result is None for
    equal names, names with different digits, and names that differ in more than one word. It is also None if the
    differing word is a common word or a short code, has fewer than ``min_length`` letters, or has too many slips.
    """
    if written == known_name or _extract_digits(written) != _extract_digits(known_name):
        return None
    written_words, known_words = _SEPARATORS.split(written.lower()), _SEPARATORS.split(known_name.lower())
    if "".join(written_words) == "".join(known_words) or sorted(written_words) == sorted(known_words):
        return 0
    pairs = zip(written_words, known_words, strict=False)
    differing_pairs = [(word, known_word) for word, known_word in pairs if word != known_word]
    if len(written_words) != len(known_words) or len(differing_pairs) != 1:
        return None

    ((word, known_word),) = differing_pairs
    shorter_length = min(len(word), len(known_word))
    if shorter_length < min_length or _is_meant_common_word(word, known_word) or _are_other_codes(word, known_word):
        return None
    slips = count_edits(word, known_word)
    allowed_slips = _MAX_SLIPS if shorter_length >= _LONG_WORD else 1
    return slips if slips <= allowed_slips else None


def _is_meant_common_word(word: str, known_word: str) -> bool:
    """Return whether a word is a common word that is meant as written, not a misspelling of the known word.

    A long common word may be a misspelling of a word that is not common.
    """
    return word in _WORDS and (known_word in _WORDS or len(word) <= _SHORT_WORD)


def _are_other_codes(word: str, known_word: str) -> bool:
    """Return whether two words are short codes of the same length with different letters, such as rwo and rwx."""
    are_codes_of_same_length = len(word) == len(known_word) and len(word) < _SHORT_WORD
    return are_codes_of_same_length and set(word) != set(known_word)


def _extract_digits(name: str) -> str:
    """Return the digits of a name as one text."""
    return "".join(filter(str.isdigit, name))


def count_edits(first: str, second: str) -> int:
    """Count the edits that turn one word into the other.

    An edit inserts, removes or replaces a letter, or swaps two neighbouring letters.

    >>> count_edits("cahce", "cache"), count_edits("zone", "zones"), count_edits("web", "api")
    (1, 1, 3)
    """
    # row[j] is the Damerau-Levenshtein distance between the first i letters of `first` and the first j of `second`.
    row_before_last: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, start=1):
        last_row = row
        row = [i]
        for j, other_letter in enumerate(second, start=1):
            removed, inserted = last_row[j] + 1, row[j - 1] + 1
            replaced = last_row[j - 1] + (letter != other_letter)
            distance = min(removed, inserted, replaced)
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == other_letter:
                distance = min(distance, row_before_last[j - 2] + 1)
            row.append(distance)
        row_before_last = last_row
    return row[-1]
