"""Texts and lists in CEL selectors; regular expressions run by RE2, and no function returns more than MAX_TEXT.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/{regex,lists}.go and cel-go's ext/strings.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from kschedctl.scheduler.dynamic_resources.cel_values import COST_LIMIT, MAX_INCLUDES, MAX_TEXT, Value, load_library


@cache
def _extract(function: str) -> Any:
    cel = load_library()
    config = cel.NewEnvConfigFromYaml("extensions:\n  - name: regex\n  - name: optional\n")
    env = cel.NewEnv(config=config, variables={"text": cel.Type.STRING, "pattern": cel.Type.STRING})
    return env.compile(function)


def _ungrouped(pattern: str) -> str:
    """The pattern with its capturing groups made plain: the whole match is asked for.

    >>> _ungrouped(r"(a)[(](?:b)\\(")
    '(?:a)[(](?:b)\\\\('
    """
    return re.sub(r"\\.|\[\^?\]?[^\]]*\]|\((?!\?)", lambda m: "(?:" if m[0] == "(" else m[0], pattern)


def _run(function: str, text: str, pattern: str) -> Any:
    found = _extract(function).eval(data={"text": text, "pattern": _ungrouped(pattern)})
    if str(found.type()) == "ERROR":
        raise ValueError(str(found.value()).partition(": ")[2])
    return found.plain_value()


def find(text: str, pattern: str) -> str:
    """The first match of a pattern, empty for none."""
    return str(_run('regex.extract(text, pattern).orValue("")', text, pattern))


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """All matches of a pattern, or the first of them."""
    found: list[str] = _run("regex.extractAll(text, pattern)", text, pattern)
    return found if limit < 0 else found[:limit]


def position(where: Value, what: Value, start: int | None = None) -> int:
    """Where a value is in a list, or a text in a text from a start on; -1 for nowhere."""
    if isinstance(where, list):
        return where.index(what) if what in where else -1
    if start is not None and not 0 <= start <= len(where):
        raise ValueError(f"index out of range: {start}")
    return int(where.find(what, start or 0))


def last_position(where: Value, what: Value, start: int | None = None) -> int:
    """The same from the end."""
    if isinstance(where, list):
        return len(where) - 1 - where[::-1].index(what) if what in where else -1
    if start is None:
        return int(where.rfind(what))
    if not 0 <= start <= len(where):
        raise ValueError(f"index out of range: {start}")
    return int(where.rfind(what, 0, start + len(what)))


def char_at(text: str, at: int) -> str:
    """The character at a place, empty just behind the last one."""
    if not 0 <= at <= len(text):
        raise ValueError(f"index out of range: {at}")
    return text[at : at + 1]


def substring(text: str, start: int, end: int | None = None) -> str:
    """The text from a place to another, or to its end."""
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise ValueError(f"index out of range: {start if not 0 <= start <= len(text) else end}")
    return text[start:end]


def replace(text: str, old: str, new: str, count: int = -1) -> str:
    """The text with some or all of another's occurrences replaced."""
    times = len(text) + 1 if not old else text.count(old)
    if len(text) + times * len(new) > MAX_TEXT:
        raise ValueError(COST_LIMIT)
    return text.replace(old, new, count)


def join(parts: Sequence[str], separator: str = "") -> str:
    """Texts put together."""
    if sum(map(len, parts)) + len(parts) * len(separator) > MAX_TEXT:
        raise ValueError(COST_LIMIT)
    return separator.join(parts)


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """A text taken apart, into a limited number of parts at the most."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1) if limit > 0 else text.split(separator)
    characters = list(text)
    return (
        characters if limit < 0 else characters[: limit - 1] + ["".join(characters[limit - 1 :])] * (len(text) >= limit)
    )


def ascii(text: str, change: Callable[[str], str]) -> str:
    """Each ASCII character changed."""
    return "".join(change(c) if c.isascii() else c for c in text)


def format(template: str, values: Sequence[Value]) -> str:
    """``%s %d %f %e %x %X %o %b %%``, with a precision where the verb takes one."""
    rest = list(values)

    def fill(match: re.Match[str]) -> str:
        precision, verb = match[1] or "", match[2]
        if verb == "%":
            return "%"
        if not rest:
            raise ValueError(f"index {len(values)} out of range")
        value = rest.pop(0)
        if verb == "s":
            return _text(value)
        if verb in "fe":
            return f"{float(value):{precision or '.6'}{verb}}"
        if verb in "xX" and isinstance(value, str | bytes):
            return (value.encode() if isinstance(value, str) else value).hex().translate(_UPPER if verb == "X" else {})
        return f"{int(value):{verb}}"

    filled = re.sub(r"%(\.\d{1,3})?([sdfexXob%])", fill, template)
    if len(filled) > MAX_TEXT:
        raise ValueError(COST_LIMIT)
    return filled


_UPPER = str.maketrans("abcdef", "ABCDEF")


def _text(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case list():
            return f"[{', '.join(map(_text, value))}]"
        case dict():
            return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in sorted(value.items())) + "}"
        case float() if value == int(value):
            return str(int(value))
    return str(value)


def quote(text: str) -> str:
    """The text as a literal."""
    escapes = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
    table = str.maketrans(escapes | {"\\": r"\\", '"': r"\""})
    return f'"{text.translate(table)}"'


def includes(target: Value, value: Value) -> bool:
    """Whether a value is, or a short list has, another."""
    if not isinstance(target, list):
        return bool(target == value)
    if value in target[:MAX_INCLUDES]:
        return True
    if len(target) > MAX_INCLUDES:
        raise ValueError(f"'includes' function cannot be applied to lists longer than {MAX_INCLUDES} values")
    return False
