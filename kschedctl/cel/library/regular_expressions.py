"""Regular expressions with Go's semantics in linear time: google-re2 if installed, otherwise a safe subset.

Patterns of the subset run in Python's ``re`` exactly as in RE2 and in bounded time. They consist of literals, ``.``,
classes, anchors, groups and alternatives. A character or class may be repeated in any way, a group only by ``?``. This
makes the number of ways through a pattern countable: a repetition without bound has as many as the text has characters,
a repetition with bounds as many as there are lengths, alternatives add up, and consecutive parts multiply. Flags,
names, Unicode classes, ``\\pN``, ``\\C``, ``\\Q`` and the like are left to RE2.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/regex.go (v1.36) and matches() of cel-go's standard library.
Syntax: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import NamedTuple, Protocol

from kschedctl.cel.errors import AbortedError, CelError
from kschedctl.cel.values import Value

MAX_CACHED_PATTERNS = 1024
UNSUPPORTED_MESSAGE = "kschedctl cannot run the regular expression `{}`: install kschedctl[re2]"
GO_MESSAGES = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""Go's messages for RE2's, where they differ."""


class Match(Protocol):
    """A match of a pattern."""

    def span(self) -> tuple[int, int]:
        """Return the indices of the first character and of the one after the last."""


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, pos: int = 0) -> Match | None:
        """Return the first match at or after an index, or None."""


@cache
def has_re2() -> bool:
    """Return whether google-re2 is installed."""
    try:
        import re2  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - optional, and takes a moment
    except ImportError:
        return False
    return True


def is_supported(pattern: str) -> bool:
    """Return whether the pattern can be run here, or can be rejected as invalid."""
    return has_re2() or compile_simple_pattern(pattern) is not None


def validate_pattern(pattern: str) -> None:
    """Raise CelError for an invalid pattern. A pattern that cannot be run here is accepted."""
    if has_re2():
        _compile_re2(pattern)


@lru_cache(maxsize=MAX_CACHED_PATTERNS)
def _compile_re2(pattern: str) -> Pattern:
    """Compile a pattern with google-re2. Raises CelError with Go's message if it is invalid."""
    import re2  # noqa: PLC0415 - optional, and takes a moment

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except UnicodeError as error:
        raise CelError(str(error)) from None
    except re2.error as error:
        raise CelError(
            f"error parsing regexp: {_translate_error_message(error.args[0].decode(errors='replace'))}"
        ) from None
    return compiled


def _translate_error_message(error: str) -> str:
    r"""Translate an error message of RE2 to Go's words.

    >>> _translate_error_message("missing ): (a"), _translate_error_message("trailing \\")
    ('missing closing ): `(a`', 'trailing backslash at end of expression: ``')
    """
    if error.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    what, _, where = error.partition(": ")
    return f"{GO_MESSAGES.get(what, what)}: `{where}`"


def _compile_for_text(pattern: str, text: str) -> Pattern:
    """Compile a pattern to run on a text.

    Raises CelError if the pattern is invalid. Raises AbortedError if it needs RE2, which is not installed.
    """
    if has_re2():
        return _compile_re2(pattern)
    simple: SimplePattern | None = compile_simple_pattern(pattern)
    if simple is None or not simple.is_fast_for(len(text)):
        raise AbortedError(UNSUPPORTED_MESSAGE.format(pattern))
    return simple.compiled


def _iter_match_spans(text: str, pattern: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each match that Go's FindAllString finds.

    Like Go, skip an empty match that touches the previous match. Raises CelError if the pattern is invalid.
    """
    compiled = _compile_for_text(pattern, text)
    position = 0
    last_end = -1  # no previous match
    while position <= len(text):
        try:
            match = compiled.search(text, position)
        except UnicodeError as error:  # half a surrogate pair
            raise CelError(str(error)) from None
        if match is None:
            return
        begin, end = match.span()
        touches_previous_match = begin == last_end
        if end > begin or not touches_previous_match:
            yield begin, end
        position = end if end > position else position + 1  # an empty match must not be found again
        last_end = end


def matches(text: str, pattern: str) -> bool:
    """Return whether the pattern matches somewhere in the text. Raises CelError for an invalid pattern."""
    return next(_iter_match_spans(text, pattern), None) is not None


def find_first_match(text: str, pattern: str) -> str:
    """Return the first match, or "". Raises CelError for an invalid pattern."""
    return next(iter(find_all_matches(text, pattern, limit=1)), "")


def find_all_matches(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return all matches, or the first ``limit``, including empty ones. Raises CelError for an invalid pattern.

    >>> find_all_matches("baac", "a*")
    ['', 'aa', '']
    """
    validate_pattern(pattern)
    texts: list[str] = []
    if limit == 0:
        return texts
    for begin, end in _iter_match_spans(text, pattern):
        texts.append(text[begin:end])
        if len(texts) == limit:
            break
    return texts


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "matches(string, string) bool": matches,
    "{string}.matches(string) bool": matches,
    "{string}.find(string) string": find_first_match,
    "{string}.findAll(string) list(string)": find_all_matches,
    "{string}.findAll(string, int) list(string)": find_all_matches,
}
PATTERN_FUNCTIONS = frozenset(["matches", "find", "findAll"])
"""Functions whose constant patterns are compiled beforehand."""


MAX_STEPS = 20_000_000
"""The limit on ways times starting positions, of a few nanoseconds each."""
USUAL_TEXT_LENGTH = 64
"""The length of the longest text that a driver may publish for a device."""
MAX_REPETITIONS = 1000
"""RE2's own limit on counted repetitions."""
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
    """A pattern outside the subset, or an invalid one."""


class _TranslatedPart(NamedTuple):
    """A translated part. A text of n characters has at most ``ways * (n + 1) ** unbounded`` ways through it."""

    text: str
    ways: int = 1
    unbounded: int = 0
    """The number of unbounded repetitions on one way."""
    character: bool = False
    """True if the part matches exactly one character."""


class _Translation:
    """The translation of an RE2 pattern to a Python pattern."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.position = 0

    def translate(self) -> _TranslatedPart:
        """Translate the pattern. Raises NotSimpleError if it is not in the subset."""
        part = self._translate_alternatives()
        if self.position < len(self.pattern):
            raise NotSimpleError(self.pattern)
        return part

    def _translate_alternatives(self) -> _TranslatedPart:
        """Translate alternatives separated by `|`."""
        parts = [self._translate_sequence()]
        while self._get_next_character() == "|":
            self.position += 1
            parts.append(self._translate_sequence())
        return _TranslatedPart(
            "|".join(part.text for part in parts),
            ways=sum(part.ways for part in parts),
            unbounded=max(part.unbounded for part in parts),
        )

    def _translate_sequence(self) -> _TranslatedPart:
        """Translate a sequence up to the next `|`, `)` or the end."""
        whole = _TranslatedPart("")
        while self._get_next_character() not in ("", "|", ")"):
            part = self._translate_repetition()
            whole = _TranslatedPart(
                whole.text + part.text,
                ways=whole.ways * part.ways,
                unbounded=whole.unbounded + part.unbounded,
            )
        return whole

    def _translate_repetition(self) -> _TranslatedPart:
        """Translate an atom with its repetition, if there is one.

        Raises NotSimpleError for a group that is repeated other than by `?`, for a repeated anchor, for nested
        repetitions, and for too many repetitions.
        """
        part = self._translate_atom()
        repetition = _REPETITION.match(self.pattern, self.position)
        if repetition is None:
            return part
        self.position = repetition.end()
        lazy = "?" if self._get_next_character() == "?" else ""
        self.position += len(lazy)

        optional = repetition.group() == "?"
        is_repeated_again = _REPETITION.match(self.pattern, self.position) is not None
        is_empty = part.text in _EMPTY_WIDTH
        is_repeated_group = not (part.character or optional)  # could match a text in too many ways
        if is_repeated_again or is_empty or is_repeated_group:
            raise NotSimpleError(self.pattern)

        text = part.text + repetition.group() + lazy
        if optional:  # one more way, without the part
            return _TranslatedPart(text, ways=part.ways + 1, unbounded=part.unbounded)
        return self._build_repeated_character(text, repetition)

    def _build_repeated_character(self, text: str, repetition: re.Match[str]) -> _TranslatedPart:
        """Build the part for a repeated character, with one way for each possible length.

        `text` is the translation of the character with its repetition.
        Raises NotSimpleError if the bounds of the repetition are out of order or too large.
        """
        least, comma, most = repetition.groups()
        is_unbounded = least is None or (comma and not most)  # *, + or {3,}
        if is_unbounded:
            return _TranslatedPart(text, unbounded=1)
        maximum = int(most or least)  # {3} stands for {3,3}
        lengths = maximum - int(least) + 1
        if lengths < 1 or maximum > MAX_REPETITIONS:
            raise NotSimpleError(self.pattern)
        return _TranslatedPart(text, ways=lengths)

    def _translate_atom(self) -> _TranslatedPart:
        """Translate a group, class, escape, anchor or character. Raises NotSimpleError for any other syntax."""
        character = self._get_next_character()
        if character == "(":
            return self._translate_group()
        if character == "[":
            return self._translate_class()
        self.position += 1
        if character == "\\":
            return self._translate_escape()
        if character in "*+?{})":
            raise NotSimpleError(self.pattern)
        if character in _ANCHORS:
            return _TranslatedPart(_ANCHORS[character])
        return _TranslatedPart("." if character == "." else re.escape(character), character=True)

    def _translate_escape(self) -> _TranslatedPart:
        r"""Translate an escape such as `\d`, after its backslash. Raises NotSimpleError if it is not in the subset."""
        escaped = _ESCAPES.get(self._get_next_character())
        if escaped is None:
            raise NotSimpleError(self.pattern)
        self.position += 1
        return _TranslatedPart(escaped, character=escaped not in _EMPTY_WIDTH)

    def _translate_group(self) -> _TranslatedPart:
        """Translate a group in parentheses into one that does not capture.

        Raises NotSimpleError if the group is not closed or has flags.
        """
        self.position += 1
        if self.pattern.startswith("?:", self.position):
            self.position += 2
        part = self._translate_alternatives()
        if self._get_next_character() != ")":
            raise NotSimpleError(self.pattern)
        self.position += 1
        return part._replace(text=f"(?:{part.text})")

    def _translate_class(self) -> _TranslatedPart:
        """Translate a character class in brackets. Raises NotSimpleError if it is not in the subset."""
        character_class = _CLASS.match(self.pattern, self.position)
        if character_class is None:
            raise NotSimpleError(self.pattern)
        self.position = character_class.end()
        return _TranslatedPart(
            re.sub(r"\\([dws])", lambda escape: _IN_CLASS[escape[1]], character_class.group()), character=True
        )

    def _get_next_character(self) -> str:
        """Return the next character, or "" at the end."""
        return self.pattern[self.position : self.position + 1]


class SimplePattern(NamedTuple):
    """A pattern of the subset."""

    compiled: re.Pattern[str]
    ways: int
    unbounded: int

    def is_fast_for(self, length: int) -> bool:
        """Return whether a text of that length is searched in bounded time."""
        steps: int = self.ways * (length + 1) ** (self.unbounded + 1)
        return steps <= MAX_STEPS


@lru_cache(maxsize=MAX_CACHED_PATTERNS)
def compile_simple_pattern(pattern: str) -> SimplePattern | None:
    r"""Compile a pattern if it is in the safe subset.

    Return None for other patterns, and for patterns that are too slow on a text of usual length.

    >>> [compile_simple_pattern(p) is not None for p in (r"^gpu-[a-z0-9]+\.v(1|2)$", "(a+)+$", "(?i)a", "(a", "a{2,1}")]
    [True, False, False, False, False]
    """
    try:
        part = _Translation(pattern).translate()
        simple = SimplePattern(re.compile(part.text, re.ASCII), part.ways, part.unbounded)
    except (NotSimpleError, re.error, RecursionError):
        return None
    return simple if simple.is_fast_for(USUAL_TEXT_LENGTH) else None
