"""Output by kubectl's templates: `-o jsonpath=` and `-o custom-columns=`.

Upstream: staging/src/k8s.io/client-go/util/jsonpath and staging/src/k8s.io/kubectl/pkg/cmd/get/customcolumn.go (v1.36),
whose templates have text, {paths}, {"quoted text"} and {range …}…{end}. The library jsonpath (RFC 9535) evaluates the
paths; in its filters, strings cannot be compared with numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import NamedTuple

from kschedctl.api.json_values import Json, JsonObject, array_at
from kschedctl.errors import UsageError
from kschedctl.text.printable import printable

ROW_FIELDS = {
    "Explanations": "explanations",
    "PendingPods": "groups",
    "Findings": "findings",
    "LintRules": "rules",
    "Simulation": "workloads",
    "Capacity": "shapes",
    "Failures": "failures",
    "WhatIf": "changes",
    "Answers": "answers",
    "SnapshotDiff": "changes",
}
"""Kind of a document -> the list whose items are rows of custom columns; other kinds are one row."""
GAP = 3
"""The number of spaces between two columns."""
_COLUMN_SEPARATOR = re.compile(r",(?![^\[]*\])")
"""A comma outside of brackets: paths can have commas within brackets."""
_STEP = re.compile(
    r"""(?P<deep>\.\.)?(?:\.?(?P<any>\*)|(?P<bracket>\[(?:"[^"]*"|'[^']*'|[^\]"'])*\])|\.?(?P<name>(?:\\.|[^.\[\]\\\s])+))"""
)


class Action(NamedTuple):
    """A piece of a template."""

    text: str = ""
    """Literal text."""
    path: str = ""
    """The path to print, or to repeat over."""
    repeated: tuple[Action, ...] | None = None
    """The actions that a {range} repeats."""


def render_jsonpath(document: JsonObject, template: str) -> str:
    """Fill in a template of `-o jsonpath`, leaving out missing values. Raises UsageError for an invalid template."""
    actions = _parse_template(template)
    if not any(action.path for action in actions):
        raise _build_template_error(template, "it has no {path}", "as in -o jsonpath='{.kind}'")
    return "".join(_iter_filled_in_texts(actions, document, document))


def render_custom_columns(document: JsonObject, template: str) -> str:
    """Render a table with columns such as `NAME:.path` and one row per item.

    Several values at a path are joined by commas, and a missing value is shown as `<none>`. Raises UsageError if the
    template is invalid.
    """
    columns = []
    for part in _COLUMN_SEPARATOR.split(template):
        name, _, path = part.partition(":")
        columns.append((name, path))
    if not all(name and path for name, path in columns):
        raise _build_template_error(
            template, "each column is NAME:path", "as in -o custom-columns=POD:.pod,VERDICT:.verdict"
        )
    paths = [_normalize_path(path) for _, path in columns]
    rows = [[name for name, _ in columns]]
    field = ROW_FIELDS.get(str(document["kind"]), "")
    items = array_at(document, field) if field in document else [document]
    for item in items:
        cells = []
        for path in paths:
            values = _find_path_values(path, document, item)
            cells.append(",".join(map(_format_value, values)) or "<none>")
        rows.append(cells)
    return _align_columns(rows)


def _align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return the rows as lines of text with aligned columns."""
    widths = [max(map(len, column)) + GAP for column in zip(*rows, strict=True)]
    text = ""
    for row in rows:
        line = "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        text += f"{line.rstrip()}\n"
    return text


def _normalize_path(path: str) -> str:
    """Return the path with a leading dot: `.a`, `a`, `{a}` and `{.a}` are equal.

    >>> _normalize_path("{metadata.name}"), _normalize_path(".pod")
    ('.metadata.name', '.pod')
    """
    inner = path.strip().removeprefix("{").removesuffix("}")
    return inner if inner.startswith((".", "$", "@", "[")) else f".{inner}"


# -- templates --------------------------------------------------------------------------------------------------------


def _parse_template(template: str) -> tuple[Action, ...]:
    """Parse a template into its actions: texts, paths, and ranges with the actions that they repeat.

    Raises UsageError if the template is invalid.
    """
    stack: list[list[Action]] = [[]]  # the actions outside, then those of each open {range}
    ranges: list[str] = []  # the path of each open {range}
    # Split the template into texts and {…}, which may contain braces within quotes.
    for text in re.split(r"(\{(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^{}\"'])*\})", template):
        inner = text[1:-1].strip() if text.startswith("{") and text.endswith("}") else None
        if inner is None:
            if "{" in text or "}" in text:
                raise _build_template_error(template, "a brace is not closed", "write {path}")
            stack[-1].append(Action(text=text))
        elif inner.startswith("range "):
            ranges.append(inner.removeprefix("range ").strip())
            stack.append([])
        elif inner == "end":
            if not ranges:
                raise _build_template_error(template, "{end} without {range}", "write {range path}…{end}")
            repeated = tuple(stack.pop())
            stack[-1].append(Action(path=ranges.pop(), repeated=repeated))
        elif inner[:1] in ("'", '"'):
            stack[-1].append(Action(text=_unquote(inner, template)))
        else:
            stack[-1].append(Action(path=inner))
    if ranges:
        raise _build_template_error(template, "{range} without {end}", "write {range path}…{end}")
    return tuple(stack[0])


def _unquote(text: str, template: str) -> str:
    """Return the content of a quoted string. Raises UsageError if the quotes or escapes are invalid."""
    try:
        return str(json.loads(f'"{text[1:-1]}"'))
    except ValueError:
        raise _build_template_error(template, f"{text} is not a string", 'write {"\\n"}') from None


def _iter_filled_in_texts(actions: Sequence[Action], root: Json, item: Json) -> Iterator[str]:
    """Yield the texts of the template's actions, filled in for an item."""
    for text, path, repeated in actions:
        if not path:
            yield text
        elif repeated is None:
            yield " ".join(map(_format_value, _find_path_values(path, root, item)))
        else:
            for element in _find_path_values(path, root, item):
                yield from _iter_filled_in_texts(repeated, root, element)


def _format_value(value: Json) -> str:
    """Return a string as it is, and other values as JSON."""
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=True, separators=(",", ":"))


# -- paths ------------------------------------------------------------------------------------------------------------


def _find_path_values(path: str, root: Json, item: Json) -> list[Json]:
    """Return the values at a path, which starts at the root for `$`, otherwise at the item.

    Raises UsageError if the path is invalid.
    """
    library = import_module("jsonpath")
    begin = path[:1] if path[:1] in ("$", "@") else ""
    steps = _translate_path(path, path.removeprefix(begin))
    try:
        return [match.obj for match in library.finditer(f"${steps}", root if begin == "$" else item)]
    except library.JSONPathError as error:
        raise _build_template_error(
            path, " ".join(str(error).split()), "regular expressions and functions are not supported"
        ) from None


def _translate_path(path: str, text: str) -> str:
    r"""Translate kubectl's path to RFC 9535, with all names quoted. The path "." of the whole document becomes "".

    ``text`` is the path without a leading `$` or `@`. ``path`` is the path as the user wrote it. Error messages quote
    it, and if it begins with `$` or `@`, the first dot may be missing. Raises UsageError if ``text`` is invalid.

    >>> _translate_path("$.metadata.labels.app\\.io/name", ".metadata.labels.app\\.io/name")
    "['metadata']['labels']['app.io/name']"
    >>> _translate_path("@.items[*]..name", ".items[*]..name")
    "['items'][*]..['name']"
    """
    if text == ".":
        return ""
    translated = ""
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        lacks_dot = position == 0 and text[0] not in ".[" and path[:1] not in ("$", "@")
        if step is None or lacks_dot:
            raise _build_template_error(path, "a path begins with a dot", "as .nodes[*].name")
        translated += step["deep"] or ""
        if step["any"]:
            translated += "[*]"
        elif step["bracket"]:
            translated += step["bracket"]
        else:
            name = re.sub(r"\\(.)", r"\1", step["name"] or "").replace("'", "\\'")
            translated += f"['{name}']"
        position = step.end()
    return translated


def _build_template_error(template: str, what: str, hint: str) -> UsageError:
    """Build the error about a template."""
    return UsageError(f'"{template}": {what}', where="-o", hint=hint)
