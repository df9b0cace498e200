"""Regular expressions with Go's semantics in linear time: google-re2 if installed, else a safe subset.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/regex.go (v1.36) and matches() of cel-go's standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Protocol

from kschedctl.cel.errors import AbortedError, CelError
from kschedctl.cel.library.simple_patterns import SimplePattern, compile_simple_pattern
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

    def span(self) -> tuple[int, int]: ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, pos: int = 0) -> Match | None: ...


@cache
def has_re2() -> bool:
    """Return whether google-re2 is installed."""
    try:
        import re2  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - optional, and takes a moment
    except ImportError:
        return False
    return True


def is_supported(pattern: str) -> bool:
    """Return whether the pattern can be run here, or rejected if it is invalid."""
    return has_re2() or compile_simple_pattern(pattern) is not None


def validate_pattern(pattern: str) -> None:
    """Raise CelError for an invalid pattern. A pattern that cannot be run here passes."""
    if has_re2():
        _compile_re2(pattern)


@lru_cache(maxsize=MAX_CACHED_PATTERNS)
def _compile_re2(pattern: str) -> Pattern:
    """Compile a pattern with google-re2. Raises CelError with Go's message."""
    import re2  # noqa: PLC0415 - optional, and takes a moment

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except UnicodeError as error:
        raise CelError(str(error)) from None
    except re2.error as error:
        raise CelError(f"error parsing regexp: {_to_go_message(error.args[0].decode(errors='replace'))}") from None
    return compiled


def _to_go_message(error: str) -> str:
    r"""Return RE2's error in Go's words.

    >>> _to_go_message("missing ): (a"), _to_go_message("trailing \\")
    ('missing closing ): `(a`', 'trailing backslash at end of expression: ``')
    """
    if error.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    what, _, where = error.partition(": ")
    return f"{GO_MESSAGES.get(what, what)}: `{where}`"


def _compile_for(pattern: str, text: str) -> Pattern:
    """Compile a pattern for a text. Raises CelError if it is invalid, AbortedError if it cannot be run here."""
    if has_re2():
        return _compile_re2(pattern)
    simple: SimplePattern | None = compile_simple_pattern(pattern)
    if simple is None or not simple.is_fast_for(len(text)):
        raise AbortedError(UNSUPPORTED_MESSAGE.format(pattern))
    return simple.compiled


def _iter_spans(text: str, pattern: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of Go's FindAllString, which skips empty matches that abut the previous match."""
    compiled = _compile_for(pattern, text)
    at, last_end = 0, -1
    while at <= len(text):
        try:
            match = compiled.search(text, at)
        except UnicodeError as error:  # half a surrogate pair
            raise CelError(str(error)) from None
        if match is None:
            return
        begin, end = match.span()
        if end > begin or begin != last_end:
            yield begin, end
        at, last_end = (end if end > at else at + 1), end


def matches(text: str, pattern: str) -> bool:
    """Return whether the pattern matches somewhere in the text. Raises CelError for an invalid pattern."""
    return next(_iter_spans(text, pattern), None) is not None


def find_first(text: str, pattern: str) -> str:
    """Return the first match, or "". Raises CelError for an invalid pattern."""
    return next(iter(find_all(text, pattern, 1)), "")


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return all matches, or the first ``limit``, including empty ones. Raises CelError for an invalid pattern.

    >>> find_all("baac", "a*")
    ['', 'aa', '']
    """
    validate_pattern(pattern)
    texts: list[str] = []
    if limit == 0:
        return texts
    for begin, end in _iter_spans(text, pattern):
        texts.append(text[begin:end])
        if len(texts) == limit:
            break
    return texts


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "matches(string, string) bool": matches,
    "{string}.matches(string) bool": matches,
    "{string}.find(string) string": find_first,
    "{string}.findAll(string) list(string)": find_all,
    "{string}.findAll(string, int) list(string)": find_all,
}
PATTERN_FUNCTIONS = frozenset(["matches", "find", "findAll"])
"""Functions whose constant patterns are compiled beforehand."""
