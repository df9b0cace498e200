"""Pseudonyms that sort like their originals, and the original of each."""

from __future__ import annotations

import string
from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.resource_names import is_qualified_name
from kschedctl.sources.anonymize.kept_texts import (
    CUSTOM_NAME_DOMAINS,
    KEPT_PARTS,
    is_well_known_domain,
    is_well_known_key,
)

INVALID_SUFFIX = "?"
"""A suffix that makes a label value or key invalid, so that an invalid original remains invalid."""
MIN_DIGITS = 4
"""The minimum number of digits in a pseudonym."""
_LETTERS = string.ascii_lowercase + string.digits


class Pseudonyms:
    """Pseudonyms of strings, which are collected in a first pass and replaced in a second pass.

    ``assign_pseudonyms`` is called between the passes. Until then, the methods below return strings unchanged.
    ``composed`` maps names whose parts between dashes are names themselves to these parts.
    """

    def __init__(self, composed: Mapping[str, tuple[str, ...]]) -> None:
        self._composed = composed
        self._names: dict[str, str] = {}
        """The pseudonym of each text that is replaced as a whole, or the text itself during the first pass."""
        self._heads: dict[str, str] = {}
        """The pseudonym of each domain, with its slash, and of each key without a domain."""
        self._kept_heads: set[str] = set()
        """The domains, with their slashes, and the keys without a domain that are kept."""
        self.kept_keys: set[str] = set()
        """The keys and names of resources that have no pseudonym."""

    def replace_name(self, text: str) -> str:
        """Replace a name by its pseudonym. The parts of a composed name are replaced separately; "" is kept."""
        if text in self._composed:
            return "-".join(map(self.replace_name, self._composed[text]))
        return self._names.setdefault(text, text) if text else text

    def replace_key(self, text: str) -> str:
        """Replace the key of a label or taint, or a name of the same form, unless it is well known.

        The domain and the name after the slash are replaced separately. The replacement of an invalid key is invalid
        as well.
        """
        if is_well_known_key(text) or not text:
            return self.keep_key(text)
        domain, slash, name = text.rpartition("/")
        if slash:
            name_pseudonym = name if name in KEPT_PARTS else self.replace_name(name)
            pseudonym = f"{self.replace_domain(domain)}/{name_pseudonym}"
        else:
            pseudonym = self._replace_key_head(text)
        return pseudonym if is_qualified_name(text) else f"{pseudonym}{INVALID_SUFFIX}"

    def keep_key(self, text: str) -> str:
        """Record that a key is not replaced, and return the key."""
        domain, slash, _ = text.rpartition("/")
        self._kept_heads.add(f"{domain}/" if slash else text)
        self.kept_keys.add(text)
        return text

    def replace_domain(self, text: str) -> str:
        """Replace the domain of a key unless it is well known."""
        if text in CUSTOM_NAME_DOMAINS or is_well_known_domain(text):
            self._kept_heads.add(f"{text}/")
            return text
        return self._replace_key_head(f"{text}/")

    def assign_pseudonyms(self) -> dict[str, str]:
        """Choose a pseudonym for every collected string, and return a map from pseudonyms to their originals.

        Pseudonyms are numbered in the order of their originals. The pseudonyms of domains and keys also get a prefix,
        so that they keep their place among the domains and keys without a pseudonym.
        """
        kept = sorted(self._kept_heads - {""})
        texts = sorted([*((text, False) for text in self._names), *((text, True) for text in self._heads)])
        digits = max(len(str(len(texts))), MIN_DIGITS)
        originals = {}
        for number, (text, is_head) in enumerate(texts):
            pseudonym = f"x{number:0{digits}d}"
            if is_head:
                pseudonym = self._heads[text] = f"{_find_sort_prefix(kept, text)}{pseudonym}"
            else:
                self._names[text] = pseudonym
            originals[pseudonym] = text.removesuffix("/") if is_head else text
        return originals

    def _replace_key_head(self, text: str) -> str:
        """Replace the head of a key: its domain with the slash, or the whole key if it has no domain.

        Keys sort by their head.
        """
        return self._heads.setdefault(text, text)


def _find_sort_prefix(kept: Sequence[str], text: str) -> str:
    """Return a prefix with which a pseudonym sorts between the same kept keys as its original text.

    The prefix is empty if none is needed, or if no prefix achieves this. A pseudonym is "x" and digits, so with a
    prefix it sorts after ``prefix + "x"`` and before ``prefix + "x~"``.

    >>> _find_sort_prefix(["cpu", "memory", "nvidia.com/"], "example.com/")
    'd.'
    >>> _find_sort_prefix(["cpu", "memory"], "team")
    ''
    """
    place = bisect(kept, text)
    previous_kept = kept[place - 1] if place else ""
    next_kept = kept[place] if place < len(kept) else None
    for prefix in _iter_sort_prefixes(previous_kept.rstrip("/")):
        if previous_kept < f"{prefix}x" and (next_kept is None or f"{prefix}x~" < next_kept):
            return prefix
    return ""


def _iter_sort_prefixes(text: str) -> Iterable[str]:
    """Yield candidates for a prefix: first "", then every beginning of the text followed by a letter and a dot.

    Shorter candidates come first.
    """
    yield ""
    for length in range(len(text) + 1):
        yield from (f"{text[:length]}{letter}." for letter in _LETTERS)
