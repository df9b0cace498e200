"""Regular expressions as Go's regexp has them, in linear time: RE2 where google-re2 is installed, else a safe subset.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/regex.go (v1.36) and matches() of cel-go's standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Protocol

from kschedctl.cel.errors import AbortedError, CelError
from kschedctl.cel.library.simple_patterns import SimplePattern, simple_pattern
from kschedctl.cel.values import Value

PROGRAMS_KEPT = 1024
NOT_RUN = "kschedctl cannot run the regular expression `{}`: install kschedctl[re2]"
GO_WORDS = {
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""RE2's words for what is wrong with a pattern, where Go's regexp/syntax has others."""


class Match(Protocol):
    """A match, by where it begins and ends."""

    def span(self) -> tuple[int, int]: ...


class Pattern(Protocol):
    """A compiled pattern."""

    def search(self, text: str, pos: int = 0) -> Match | None: ...


@cache
def has_re2() -> bool:
    """Whether google-re2 is installed."""
    try:
        import re2  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - optional, and takes a moment
    except ImportError:
        return False
    return True


def is_run(pattern: str) -> bool:
    """Whether a pattern can be run here, and refused if it is none."""
    return has_re2() or simple_pattern(pattern) is not None


def check(pattern: str) -> None:
    """Raises CelError for what is no pattern; one that cannot be run here passes."""
    if has_re2():
        _by_re2(pattern)


@lru_cache(maxsize=PROGRAMS_KEPT)
def _by_re2(pattern: str) -> Pattern:
    import re2  # noqa: PLC0415 - optional, and takes a moment

    options = re2.Options()
    options.log_errors = False
    try:
        compiled: Pattern = re2.compile(pattern, options)
    except UnicodeError as error:
        raise CelError(str(error)) from None
    except re2.error as error:
        raise CelError(f"error parsing regexp: {_in_go(error.args[0].decode(errors='replace'))}") from None
    return compiled


def _in_go(error: str) -> str:
    r"""RE2's error as Go words it.

    >>> _in_go("missing ): (a"), _in_go("trailing \\")
    ('missing closing ): `(a`', 'trailing backslash at end of expression: ``')
    """
    if error.startswith("trailing \\"):
        return "trailing backslash at end of expression: ``"
    what, _, where = error.partition(": ")
    return f"{GO_WORDS.get(what, what)}: `{where}`"


def _pattern(pattern: str, text: str) -> Pattern:
    """Raises CelError for what is no pattern, AbortedError for one that cannot be run on the text here."""
    if has_re2():
        return _by_re2(pattern)
    simple: SimplePattern | None = simple_pattern(pattern)
    if simple is None or not simple.takes(len(text)):
        raise AbortedError(NOT_RUN.format(pattern))
    return simple.compiled


def _spans(text: str, pattern: str) -> Iterator[tuple[int, int]]:
    """Where Go's FindAllString finds matches: an empty one that abuts the match before does not count."""
    compiled = _pattern(pattern, text)
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
    """Whether a pattern matches somewhere in the text. Raises CelError for no pattern, as the others do."""
    return next(_spans(text, pattern), None) is not None


def find(text: str, pattern: str) -> str:
    """The first match of a pattern, empty for none."""
    return next(iter(find_all(text, pattern, 1)), "")


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """All matches of a pattern, or the first of them; empty ones count.

    >>> find_all("baac", "a*")
    ['', 'aa', '']
    """
    check(pattern)
    texts: list[str] = []
    if limit == 0:
        return texts
    for begin, end in _spans(text, pattern):
        texts.append(text[begin:end])
        if len(texts) == limit:
            break
    return texts


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "matches(string, string) bool": matches,
    "{string}.matches(string) bool": matches,
    "{string}.find(string) string": find,
    "{string}.findAll(string) list(string)": find_all,
    "{string}.findAll(string, int) list(string)": find_all,
}
PATTERNS = frozenset(["matches", "find", "findAll"])
"""Functions whose constant patterns are compiled beforehand."""
