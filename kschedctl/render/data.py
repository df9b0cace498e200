"""Reports as data: JSON and YAML, with nothing in them that a terminal would obey."""

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
    """Indented JSON in which whatever fits into a line stays in one."""
    return _escaped(_pretty(document, 0)) + "\n"


def to_yaml(document: JsonObject) -> str:
    """One YAML document."""
    return _escaped(yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_LINE))


def _pretty(value: Json, depth: int) -> str:
    if isinstance(value, dict):
        opening, closing = "{", "}"
        parts = [f"{_encode(key)}: {_pretty(item, depth + 1)}" for key, item in value.items()]
    elif isinstance(value, list):
        opening, closing = "[", "]"
        parts = [_pretty(item, depth + 1) for item in value]
    else:
        return _encode(value)
    line = f"{opening}{', '.join(parts)}{closing}"
    if len(line) + depth <= _LINE and "\n" not in line:
        return line
    inner = " " * (depth + 1)
    if isinstance(value, list) and all(type(item) is int for item in value):
        parts = wrap(line[1:-1], _LINE - depth - 1)
        return f"{opening}\n{inner}" + f"\n{inner}".join(parts) + f"\n{' ' * depth}{closing}"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{' ' * depth}{closing}"


def _escaped(text: str) -> str:
    """Both formats read ``\\u202e`` within double quotes as the character itself."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes strings with unsafe characters in double quotes."""


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _UNSAFE.search(text) else None)


_Dumper.add_representer(str, _string)
