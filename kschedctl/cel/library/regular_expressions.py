"""Regular expressions: RE2, as upstream's Go has them, so that none takes more than linear time.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/regex.go (v1.36) and matches() of cel-go's standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from kschedctl.cel.errors import CelError
from kschedctl.cel.values import Value
from kschedctl.errors import InputError

_VARIABLES = ("text", "pattern", "by")


@cache
def _program(expression: str) -> Any:
    """An expression of Google's CEL library, which brings RE2 along. Raises InputError where it cannot be loaded."""
    try:
        from cel_expr_python import cel  # type: ignore[import-untyped]  # noqa: PLC0415 - takes a moment
    except ImportError as error:
        what = "the package cel-expr-python, which runs the regular expressions of device selectors, cannot be loaded"
        raise InputError(what, hint=str(error)) from None
    config = cel.NewEnvConfigFromYaml("extensions: [{name: regex}, {name: optional}]")
    env = cel.NewEnv(config=config, variables=dict.fromkeys(_VARIABLES, cel.Type.STRING))
    return env.compile(expression)


def _run(expression: str, text: str, pattern: str, by: str = "") -> Any:
    try:
        found = _program(expression).eval(data={"text": text, "pattern": pattern, "by": by})
    except RuntimeError as error:  # what cannot be written as UTF-8
        raise CelError(str(error)) from None
    if str(found.type()) == "ERROR":
        what, _, where = str(found.value()).rpartition(": ")
        raise CelError(f"error parsing regexp: {what.rpartition('invalid regular expression: ')[2]}: `{where}`")
    return found.plain_value()


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern matches somewhere in the text. Raises CelError for no pattern, as the others do."""
    return bool(_run("text.matches(pattern)", text, pattern))


def find(text: str, pattern: str) -> str:
    """The first match of a pattern, empty for none."""
    return next(iter(find_all(text, pattern, 1)), "")


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """All matches of a pattern, or the first of them; empty ones count."""
    check(pattern)  # by itself: parentheses around it could make it one
    if limit == 0:
        return []
    begin, end = _unused(text)
    marked: str = _run("regex.replace(text, pattern, by)", text, f"({pattern})", rf"{begin}\1{end}")
    found = [piece.partition(end)[0] for piece in marked.split(begin)[1:]]
    return found if limit < 0 else found[:limit]


def _unused(text: str) -> tuple[str, str]:
    """Two characters for private use that are not in the text."""
    free = (character for character in map(chr, range(0xE000, 0xF8FF)) if character not in text)
    return next(free), next(free)


def check(pattern: str) -> None:
    """Raises CelError for what is no pattern."""
    matches("", pattern)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "matches(string, string) bool": matches,
    "{string}.matches(string) bool": matches,
    "{string}.find(string) string": find,
    "{string}.findAll(string) list(string)": find_all,
    "{string}.findAll(string, int) list(string)": find_all,
}
PATTERNS = frozenset(["matches", "find", "findAll"])
"""Functions whose constant patterns are compiled beforehand."""
