"""JSON and YAML without characters that could control a terminal."""

from __future__ import annotations

import json
import re
from textwrap import wrap

import yaml

from kschedctl.api.json_values import Json, JsonObject

_UNSAFE = re.compile("[\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_LINE = 100
_encode = json.JSONEncoder(ensure_ascii=False).encode


def to_json(document: JsonObject) -> str:
    """Render as JSON, indented only where an object does not fit on a line."""
    return _escape_unsafe(_format_value(document, 0)) + "\n"


def to_yaml(document: JsonObject) -> str:
    """Render as a YAML document."""
    return _escape_unsafe(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_LINE))


def _format_value(value: Json, depth: int) -> str:
    """Format a value, on one line if it fits.

    Otherwise, each item or field gets its own line, except that the integers of a list of integers fill the lines.
    ``depth`` is the number of containers around the value, by which its lines are indented.
    """
    if isinstance(value, dict):
        opening, closing = "{", "}"
        parts = [f"{_encode(key)}: {_format_value(item, depth + 1)}" for key, item in value.items()]
    elif isinstance(value, list):
        opening, closing = "[", "]"
        parts = [_format_value(item, depth + 1) for item in value]
    else:
        return _encode(value)
    line = f"{opening}{', '.join(parts)}{closing}"
    if len(line) + depth <= _LINE and "\n" not in line:
        return line
    inner = " " * (depth + 1)
    if isinstance(value, list) and all(type(item) is int for item in value):  # not bools
        parts = wrap(line[1:-1], _LINE - depth - 1)
        return f"{opening}\n{inner}" + f"\n{inner}".join(parts) + f"\n{' ' * depth}{closing}"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{' ' * depth}{closing}"


def _escape_unsafe(text: str) -> str:
    r"""Escape unsafe characters as `\\u202e`, which both formats read as the character in double quotes."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """A YAML dumper that quotes strings with unsafe characters."""


def _represent_string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Represent a string, in double quotes if it has unsafe characters."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _UNSAFE.search(text) else None)


_Dumper.add_representer(str, _represent_string)
