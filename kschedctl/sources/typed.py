"""One document as its struct; what is wrong with it is an error that names the exact field."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from kschedctl.api.decoding import convert_builtins, type_name
from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import without_nulls
from kschedctl.errors import InputError
from kschedctl.sources.documents.place import Place

T = TypeVar("T")
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_PROBLEM = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_GOT = re.compile(r"got `(\w+)`")
_encode = msgspec.msgpack.Encoder().encode


def typed(document: JsonObject, struct: type[T], place: Place) -> T:
    """The document as this struct. Raises InputError."""
    document = without_nulls(document)
    try:
        obj = convert_builtins(document, struct)
        _encode(obj)
    except msgspec.ValidationError as error:
        raise _field_error(document, str(error), place) from None
    except UnicodeEncodeError:
        raise place.error("holds half of a surrogate pair, which is not text") from None
    except OverflowError:
        pass
    path = _too_large(document)
    if path is not None:
        raise place.error("number out of range", path.lstrip("."))
    return obj


def _field_error(document: JsonObject, message: str, place: Place) -> InputError:
    what, path = _PROBLEM.fullmatch(message).groups(default="")  # type: ignore[union-attr]
    got = _GOT.search(what)
    steps = [name or f"[{index}]" for name, index in _STEP.findall(path)]
    beyond = _is_beyond(document, steps)
    if "[...]" in path and got:
        path = _locate(document, steps, got[1]) or path
    what = what[:1].lower() + what[1:].replace("`", "").replace(" | null", "")
    if what.startswith(("expected int <=", "expected int >=")) or (what == "expected int, got float" and beyond):
        what = "number out of range"
    return place.error(what, path.lstrip("."))


def _is_beyond(value: object, steps: list[str]) -> bool:
    """Whether a number there takes more than 64 bits; YAML makes a float of such, msgspec calls it one."""
    if not steps:
        return isinstance(value, int | float) and not -(2**63) <= value < 2**63
    return any(_is_beyond(inner, steps[1:]) for _, inner in _inside(value, steps[0]))


def _locate(value: object, steps: list[str], got: str) -> str | None:
    """The path to the first value of type ``got`` at the end of the steps, of which ``[...]`` is any key of a map."""
    if not steps:
        return "" if type_name(value) == got else None
    tried = ((at, _locate(inner, steps[1:], got)) for at, inner in _inside(value, steps[0]))
    return next((at + path for at, path in tried if path is not None), None)


def _inside(value: object, step: str) -> Iterator[tuple[str, object]]:
    """What a step leads to, and what it is called: nothing, one value, or with ``[...]`` all values of a map."""
    if isinstance(value, Mapping):
        if step == "[...]":
            yield from ((f"[{key}]", inner) for key, inner in value.items())
        elif step in value:
            yield f".{step}", value[step]
    elif isinstance(value, list) and step[1:-1].isdecimal() and int(step[1:-1]) < len(value):
        yield step, value[int(step[1:-1])]


def _too_large(value: object) -> str | None:
    """The path to the first number that takes more than 64 bits."""
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**63 else ""
    if isinstance(value, dict):
        for key, inner in value.items():
            if (path := _too_large(inner)) is not None:
                return f".{key}{path}"
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if (path := _too_large(inner)) is not None:
                return f"[{index}]{path}"
    return None
