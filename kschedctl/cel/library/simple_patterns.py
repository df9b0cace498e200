r"""The regular expressions that Python's ``re`` runs exactly as RE2 does, in bounded time.

They are made of literals, ``.``, classes, anchors, groups and alternatives; a character or class may be repeated in any
way, a group only by ``?``. So the ways through a pattern can be counted: a repetition without bound has as many as the
text has characters, one with bounds as many as there are lengths, alternatives add up and what follows each other
multiplies. Flags, names, Unicode classes, ``\pN``, ``\C``, ``\Q`` and the like are left to RE2.

Syntax: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MOST_STEPS = 20_000_000
"""Ways times places to begin, of a few nanoseconds each."""
USUAL_TEXT = 64
"""Characters of the longest text that a driver may publish of a device."""
MOST_REPEATED = 1000
"""RE2's own limit of a counted repetition."""
_ESCAPES = {
    **{c: "\\" + c for c in "\\.+*?()|[]{}^$-/"},
    **{c: "\\" + c for c in "tnrfv"},
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[0-9A-Za-z_]",
    "W": "[^0-9A-Za-z_]",
    "s": r"[\t\n\f\r ]",
    "S": r"[^\t\n\f\r ]",
    "b": r"\b",
    "B": r"\B",
    "A": r"\A",
    "z": r"\Z",
}
_IN_CLASS = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_REPETITION = re.compile(r"[*+?]|\{(\d{1,4})(,(\d{0,4}))?\}")
_CLASS = re.compile(
    r"""\[\^?-?                                   # a hyphen stands first or last
        (?: [0-9]-[0-9] | [a-z]-[a-z] | [A-Z]-[A-Z]  # a range
          | [^\\\[\]^&|~-]                         # a character that means itself in both languages
          | \\[dwstnrfv\\.+*?()|\[\]{}^$/-]
        )+ -?\]""",
    re.VERBOSE,
)
_ANCHORS = {"^": r"\A", "$": r"\Z"}
_EMPTY_WIDTH = (r"\A", r"\Z", r"\b", r"\B")


class NotSimpleError(ValueError):
    """A pattern outside the subset, or none at all."""


class _Part(NamedTuple):
    """A translated part; through a text of n characters it has at most ``ways * (n + 1) ** unbounded`` ways."""

    text: str
    ways: int = 1
    unbounded: int = 0
    character: bool = False


class _Translation:
    """A pattern of RE2 on its way to one of Python's."""

    def __init__(self, pattern: str) -> None:
        self.pattern, self.at = pattern, 0

    def whole(self) -> _Part:
        """The pattern. Raises NotSimpleError."""
        part = self._alternatives()
        if self.at < len(self.pattern):
            raise NotSimpleError(self.pattern)
        return part

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self._next() == "|":
            self.at += 1
            parts.append(self._sequence())
        return _Part("|".join(p.text for p in parts), sum(p.ways for p in parts), max(p.unbounded for p in parts))

    def _sequence(self) -> _Part:
        whole = _Part("")
        while self._next() not in ("", "|", ")"):
            part = self._repeated()
            whole = _Part(whole.text + part.text, whole.ways * part.ways, whole.unbounded + part.unbounded)
        return whole

    def _repeated(self) -> _Part:
        part = self._atom()
        repetition = _REPETITION.match(self.pattern, self.at)
        if repetition is None:
            return part
        self.at = repetition.end()
        lazy = "?" if self._next() == "?" else ""
        self.at += len(lazy)
        optional = repetition.group() == "?"
        if _REPETITION.match(self.pattern, self.at) or part.text in _EMPTY_WIDTH or not (part.character or optional):
            raise NotSimpleError(self.pattern)
        text = part.text + repetition.group() + lazy
        if optional:
            return _Part(text, part.ways + 1, part.unbounded)
        least, comma, most = repetition.groups()
        if least is None or (comma and not most):
            return _Part(text, 1, 1)
        lengths = int(most or least) - int(least) + 1
        if lengths < 1 or int(most or least) > MOST_REPEATED:
            raise NotSimpleError(self.pattern)
        return _Part(text, lengths)

    def _atom(self) -> _Part:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._class()
        self.at += 1
        if character == "\\":
            return self._escape()
        if character in "*+?{})":
            raise NotSimpleError(self.pattern)
        if character in _ANCHORS:
            return _Part(_ANCHORS[character])
        return _Part("." if character == "." else re.escape(character), character=True)

    def _escape(self) -> _Part:
        escaped = _ESCAPES.get(self._next())
        if escaped is None:
            raise NotSimpleError(self.pattern)
        self.at += 1
        return _Part(escaped, character=escaped not in _EMPTY_WIDTH)

    def _group(self) -> _Part:
        self.at += 1
        if self.pattern.startswith("?:", self.at):
            self.at += 2
        part = self._alternatives()
        if self._next() != ")":
            raise NotSimpleError(self.pattern)
        self.at += 1
        return part._replace(text=f"(?:{part.text})")

    def _class(self) -> _Part:
        character_class = _CLASS.match(self.pattern, self.at)
        if character_class is None:
            raise NotSimpleError(self.pattern)
        self.at = character_class.end()
        return _Part(re.sub(r"\\([dws])", lambda escape: _IN_CLASS[escape[1]], character_class.group()), character=True)

    def _next(self) -> str:
        return self.pattern[self.at : self.at + 1]


class SimplePattern(NamedTuple):
    """A pattern of the subset."""

    compiled: re.Pattern[str]
    ways: int
    unbounded: int

    def takes(self, length: int) -> bool:
        """Whether a text of so many characters is searched in bounded time."""
        steps: int = self.ways * (length + 1) ** (self.unbounded + 1)
        return steps <= MOST_STEPS


@lru_cache(maxsize=1024)
def simple_pattern(pattern: str) -> SimplePattern | None:
    r"""A pattern compiled, None for one that is not of the subset or takes too long on a text of the usual length.

    >>> [simple_pattern(p) is not None for p in (r"^gpu-[a-z0-9]+\.v(1|2)$", "(a+)+$", "(?i)a", "(a", "a{2,1}")]
    [True, False, False, False, False]
    """
    try:
        part = _Translation(pattern).whole()
        simple = SimplePattern(re.compile(part.text, re.ASCII), part.ways, part.unbounded)
    except (NotSimpleError, re.error, RecursionError):
        return None
    return simple if simple.takes(USUAL_TEXT) else None
