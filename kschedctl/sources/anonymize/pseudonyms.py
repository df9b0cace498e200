"""Pseudonyms that sort as the originals do, and the original of each.

Names and values are replaced as a whole. Keys, ``[domain/]name``, are replaced part by part, as some settings mean all
keys of a domain; those that stay stand among the others as before, as the order of resources decides which devices go
to which request.
"""

from __future__ import annotations

import string
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.resource_names import is_qualified_name
from kschedctl.sources.anonymize.keys import COINED, KEPT_PARTS, is_well_known, is_well_known_domain

INVALID = "?"
"""Makes no valid label or key out of one: what is refused for it stays refused."""
LEAST_DIGITS = 4
_LETTERS = string.ascii_lowercase + string.digits


class Pseudonyms:
    """First asked for everything once, then, after ``settle``, for what to put in the place of it.

    ``composed``: the texts of which others read the parts between dashes, and these parts.
    """

    def __init__(self, composed: Mapping[str, tuple[str, ...]]) -> None:
        self._composed = composed
        self._names: dict[str, str] = {}
        self._heads: dict[str, str] = {}
        self._kept: set[str] = set()
        self.stays: set[str] = set()
        """The keys and names of resources that have no pseudonym."""

    def name(self, text: str) -> str:
        """A text as a whole; the dashes of a composed one stay, and so does the empty text."""
        if text in self._composed:
            return "-".join(map(self.name, self._composed[text]))
        return self._names.setdefault(text, text) if text else text

    def key(self, text: str) -> str:
        """The key of a label or taint, or a name of that form; one that everybody has stays."""
        domain, slash, name = text.rpartition("/")
        if is_well_known(text) or not text:
            return self.keep(text)
        part = name if name in KEPT_PARTS else self.name(name)
        made = f"{self.domain(domain)}/{part}" if slash else self._head(text)
        return made if is_qualified_name(text) else f"{made}{INVALID}"

    def keep(self, text: str) -> str:
        """A key that stays."""
        domain, slash, _ = text.rpartition("/")
        self._kept.add(f"{domain}/" if slash else text)
        self.stays.add(text)
        return text

    def domain(self, text: str) -> str:
        """The part of keys before the slash."""
        if text in COINED or is_well_known_domain(text):
            self._kept.add(f"{text}/")
            return text
        return self._head(f"{text}/")

    def settle(self) -> dict[str, str]:
        """Choose a pseudonym for everything that was asked for; pseudonym -> original."""
        kept = sorted(self._kept - {""})
        texts = sorted([*((text, False) for text in self._names), *((text, True) for text in self._heads)])
        digits = max(len(str(len(texts))), LEAST_DIGITS)
        originals = {}
        for number, (text, is_head) in enumerate(texts):
            made = f"x{number:0{digits}d}"
            if is_head:
                made = self._heads[text] = f"{_between(kept, text)}{made}"
            else:
                self._names[text] = made
            originals[made] = text.removesuffix("/") if is_head else text
        return originals

    def _head(self, text: str) -> str:
        """The domain with its slash, or the whole key without a domain: in this order keys sort."""
        return self._heads.setdefault(text, text)


def _between(kept: Sequence[str], text: str) -> str:
    """What a pseudonym of the text begins with, so that it comes between the same kept ones.

    >>> _between(["cpu", "memory", "nvidia.com/"], "example.com/"), _between(["cpu", "memory"], "team")
    ('d.', '')
    """
    place = bisect(kept, text)
    after, before = kept[place - 1] if place else "", kept[place] if place < len(kept) else None
    for start in _starts(after.rstrip("/")):
        if after < f"{start}x" and (before is None or f"{start}x~" < before):
            return start
    return ""


def _starts(text: str) -> Iterable[str]:
    yield ""
    for length in range(len(text) + 1):
        yield from (f"{text[:length]}{letter}." for letter in _LETTERS)
