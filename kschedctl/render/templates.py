"""``-o jsonpath=…`` and ``-o custom-columns=…``: what a template asks for, of the document that ``-o json`` prints.

Upstream: staging/src/k8s.io/client-go/util/jsonpath and staging/src/k8s.io/kubectl/pkg/cmd/get/customcolumn.go (v1.36),
whose templates these are: text, {paths}, {"quoted text"}, {range …}…{end}. The paths are evaluated by the library
jsonpath (RFC 9535), which differs in that strings in filters may not be compared with numbers.
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

ROWS = {
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
"""The kind of a document -> its list that custom columns have a row for each of; others are one row."""
GAP = 3
_STEP = re.compile(
    r"""(?P<deep>\.\.)?(?:\.?(?P<any>\*)|(?P<bracket>\[(?:"[^"]*"|'[^']*'|[^\]"'])*\])|\.?(?P<name>(?:\\.|[^.\[\]\\\s])+))"""
)


class Action(NamedTuple):
    """A piece of a template: ``text`` as it is, a ``path``, a ``range`` over one with what it repeats."""

    text: str = ""
    path: str = ""
    repeated: tuple[Action, ...] | None = None


def jsonpath(document: JsonObject, template: str) -> str:
    """The template filled in; what is not there is left out. Raises UsageError for a template that is none."""
    pieces = _parse(template)
    if not any(piece.path for piece in pieces):
        raise _error(template, "there is no {path} in it", "as in -o jsonpath='{.kind}'")
    return "".join(_filled(pieces, document, document))


def custom_columns(document: JsonObject, template: str) -> str:
    """``NAME:.path,NAME:.path`` as a table with a row for each thing that the document is about. Raises UsageError."""
    columns = [part.partition(":") for part in re.split(r",(?![^\[]*\])", template)]
    if not all(name and path for name, _, path in columns):
        raise _error(template, "each column is NAME:path", "as in -o custom-columns=POD:.pod,VERDICT:.verdict")
    paths = [_relaxed(path) for _, _, path in columns]
    rows = [[name for name, _, _ in columns]]
    listed = ROWS.get(str(document["kind"]), "")
    for item in array_at(document, listed) if listed in document else [document]:
        rows.append([",".join(map(_text, _find(path, document, item))) or "<none>" for path in paths])
    widths = [max(map(len, cells)) + GAP for cells in zip(*rows, strict=True)]
    lines = ("".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _relaxed(path: str) -> str:
    """``.a``, ``a``, ``{a}`` and ``{.a}`` are the same here.

    >>> _relaxed("{metadata.name}"), _relaxed(".pod")
    ('.metadata.name', '.pod')
    """
    inner = path.strip().removeprefix("{").removesuffix("}")
    return inner if inner.startswith((".", "$", "@", "[")) else f".{inner}"


# -- templates --------------------------------------------------------------------------------------------------------


def _parse(template: str) -> tuple[Action, ...]:
    """The pieces of a template. Raises UsageError."""
    stack: list[list[Action]] = [[]]
    ranges: list[str] = []
    for text in re.split(r"(\{(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^{}\"'])*\})", template):
        inner = text[1:-1].strip() if text.startswith("{") and text.endswith("}") else None
        if inner is None:
            if "{" in text or "}" in text:
                raise _error(template, "a brace is not closed", "write {path}")
            stack[-1].append(Action(text=text))
        elif inner.startswith("range "):
            ranges.append(inner.removeprefix("range ").strip())
            stack.append([])
        elif inner == "end":
            if not ranges:
                raise _error(template, "{end} without {range}", "write {range path}…{end}")
            repeated = tuple(stack.pop())
            stack[-1].append(Action(path=ranges.pop(), repeated=repeated))
        elif inner[:1] in ("'", '"'):
            stack[-1].append(Action(text=_unquoted(inner, template)))
        else:
            stack[-1].append(Action(path=inner))
    if ranges:
        raise _error(template, "{range} without {end}", "write {range path}…{end}")
    return tuple(stack[0])


def _unquoted(text: str, template: str) -> str:
    try:
        return str(json.loads(f'"{text[1:-1]}"'))
    except ValueError:
        raise _error(template, f"{text} is not a string", 'write {"\\n"}') from None


def _filled(pieces: Sequence[Action], root: Json, item: Json) -> Iterator[str]:
    for text, path, repeated in pieces:
        if not path:
            yield text
        elif repeated is None:
            yield " ".join(map(_text, _find(path, root, item)))
        else:
            for element in _find(path, root, item):
                yield from _filled(repeated, root, element)


def _text(value: Json) -> str:
    """A text as it is, all else as JSON."""
    return printable(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=True, separators=(",", ":"))


# -- paths ------------------------------------------------------------------------------------------------------------


def _find(path: str, root: Json, item: Json) -> list[Json]:
    """What is there, from the root of the document with ``$``, else from the item. Raises UsageError."""
    library = import_module("jsonpath")
    begin = path[:1] if path[:1] in ("$", "@") else ""
    steps = _steps(path, path.removeprefix(begin))
    try:
        return [match.obj for match in library.finditer(f"${steps}", root if begin == "$" else item)]
    except library.JSONPathError as error:
        raise _error(
            path, " ".join(str(error).split()), "regular expressions and functions are not supported"
        ) from None


def _steps(path: str, text: str) -> str:
    """The steps of kubectl's path, every name in quotes, as it may hold what RFC 9535 does not allow in one.

    >>> _steps("", ".metadata.labels.app\\\\.kubernetes\\\\.io/name"), _steps("", "..name"), _steps("", ".items[*]")
    ("['metadata']['labels']['app.kubernetes.io/name']", "..['name']", "['items'][*]")
    """
    made, position = "", 0
    while position < len(text) and text != ".":
        step = _STEP.match(text, position)
        if step is None or (position == 0 and text[0] not in ".[" and path[:1] not in ("$", "@")):
            raise _error(path, "a path begins with a dot", "as .nodes[*].name")
        name = re.sub(r"\\(.)", r"\1", step["name"] or "").replace("'", "\\'")
        made += (step["deep"] or "") + ("[*]" if step["any"] else step["bracket"] or f"['{name}']")
        position = step.end()
    return made


def _error(template: str, what: str, hint: str) -> UsageError:
    return UsageError(f'"{template}": {what}', where="-o", hint=hint)
