"""YAML as Kubernetes reads it: scalars mean what they mean on their way to the API server, and nothing can blow up.

Upstream: sigs.k8s.io/yaml (goyaml.v2/resolve.go and yaml.go). Unlike it, a key that stands twice is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain

import yaml
from yaml.events import (
    AliasEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from kschedctl.api.json_values import Json, JsonObject
from kschedctl.errors import InputError
from kschedctl.sources.documents.json_documents import DEEPEST
from kschedctl.sources.documents.place import ParsedDocument, Place

Scalar = str | float | None
MOST_ALIASED = 100_000  # values that aliases stand for, in one document

LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS = {
    "y Y yes Yes YES true True TRUE on On ON": True,
    "n N no No NO false False FALSE off Off OFF": False,
    "~ null Null NULL": None,
    ".nan .NaN .NAN": math.nan,
    ".inf .Inf .INF +.inf +.Inf +.INF": math.inf,
    "-.inf -.Inf -.INF": -math.inf,
}
_CONSTANTS: Mapping[str, Scalar] = {word: value for words, value in _WORDS.items() for word in words.split()} | {
    "": None
}
_RESOLVED_FIRST = frozenset("0123456789+-.yYnNtTfFoO~")
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_INTEGERS = 2.0**63
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TAG = "tag:yaml.org,2002:"
_TYPES: dict[str, type | tuple[type, ...]] = {
    f"{_TAG}bool": bool,
    f"{_TAG}int": int,
    f"{_TAG}float": (float, int),
    f"{_TAG}null": type(None),
}
_MERGES = f"{_TAG}merge"
_TEXTS = (f"{_TAG}str", f"{_TAG}timestamp", _MERGES)
_PLAIN_CONTAINERS = (None, "!", f"{_TAG}map", f"{_TAG}seq")


def parse_yaml(text: str, file: str) -> Iterator[ParsedDocument]:
    """The documents that are not empty. Raises InputError."""
    number = 0
    stream: Iterator[Event] = yaml.parse(text, Loader=LOADER)
    try:
        for event in stream:
            if type(event) is DocumentStartEvent:
                number += 1
                line = event.start_mark.line + 1  # type: ignore[union-attr]
                value = _Builder(Place(file, number, line)).build(stream)
                if value is not None:
                    yield ParsedDocument(value, number, line)
    except yaml.YAMLError as error:
        raise _hinted(_syntax_error(error, file, number), text) from None
    except InputError as error:
        raise _hinted(error, text) from None


class _MergeKey(str):
    """Stands for ``<<`` where that is no key of its own."""


_MERGE = _MergeKey("<<")


class _Container:
    """A mapping or list while it is filled; ``size`` counts the values in it, those of aliases too."""

    def __init__(self, value: dict[str, Json] | list[Json], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.merged: list[JsonObject] = []
        self.size = 1


class _Builder:
    """Builds the value of one document."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.open: list[_Container] = []
        self.anchors: dict[str, tuple[Json, int]] = {}
        self.aliased = 0
        self.root: Json = None

    def build(self, stream: Iterator[Event]) -> Json:
        """The value of the document whose start was read last."""
        for event in stream:
            if type(event) is ScalarEvent:
                self._scalar(event)
            elif type(event) is MappingStartEvent or type(event) is SequenceStartEvent:
                self._start(event, {} if type(event) is MappingStartEvent else [])
            elif type(event) is AliasEvent:
                self._alias(event)
            elif type(event) is DocumentEndEvent:
                break
            else:
                self._end(event)
        return self.root

    def _scalar(self, event: ScalarEvent) -> None:
        value: Json
        if event.implicit[0]:
            value = resolve(event.value)
        elif event.tag is None or event.implicit[1] or event.tag in _TEXTS:
            value = event.value
        else:
            value = self._tagged(event)
        if event.anchor:
            self.anchors[event.anchor] = value, 1
        merge = event.value == "<<" and (event.implicit[0] or event.tag == _MERGES)
        self._add(event, value, 1, merge)

    def _tagged(self, event: ScalarEvent) -> Json:
        value = resolve(event.value)
        if event.tag not in _TYPES:
            raise self._error(event, f"the tag {event.tag} means nothing to Kubernetes")
        if not isinstance(value, _TYPES[event.tag]):
            raise self._error(event, f"cannot decode {event.value[:40]!r} as a !!{event.tag.removeprefix(_TAG)}")
        return value

    def _start(self, event: CollectionStartEvent, value: dict[str, Json] | list[Json]) -> None:
        if event.tag not in _PLAIN_CONTAINERS:
            raise self._error(event, f"the tag {event.tag} means nothing to Kubernetes")
        if len(self.open) >= DEEPEST:
            raise self._error(event, f"nested more than {DEEPEST} levels deep")
        if event.anchor:
            self.anchors.pop(event.anchor, None)
        self.open.append(_Container(value, event.anchor))

    def _end(self, event: Event) -> None:
        done = self.open.pop()
        if done.merged and isinstance(done.value, dict):
            for key, value in chain.from_iterable(mapping.items() for mapping in done.merged):
                done.value.setdefault(key, value)
        if done.anchor:
            self.anchors[done.anchor] = done.value, done.size
        self._add(event, done.value, done.size)

    def _alias(self, event: AliasEvent) -> None:
        if event.anchor not in self.anchors:
            raise self._error(event, f"unknown anchor '{event.anchor}', or one that contains itself")
        value, size = self.anchors[event.anchor]
        self.aliased += size
        if self.aliased > MOST_ALIASED:
            raise self._error(event, "document contains excessive aliasing")
        self._add(event, value, size)

    def _add(self, event: Event, value: Json, size: int, merge: bool = False) -> None:
        """Put a complete value where it belongs: it is the root, an item, a key or the value of a key."""
        if isinstance(value, float) and not math.isfinite(value):
            raise self._error(event, f"unsupported value: {value}")
        if not self.open:
            self.root = value
            return
        parent = self.open[-1]
        parent.size += size
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            parent.key = _MERGE if merge else self._key(event, parent.value, value)
        elif parent.key is _MERGE:
            parent.merged += self._mappings(event, value)
            parent.key = None
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _key(self, event: Event, mapping: Mapping[str, Json], value: Json) -> str:
        if not isinstance(value, str | int | float):
            raise self._error(event, f"unsupported map key of type {_type_name(value)}")
        key = key_text(value)
        if key in mapping:
            raise self._error(event, f"key {key[:60]!r} already set in map")
        return key

    def _mappings(self, event: Event, value: Json) -> list[JsonObject]:
        """What ``<<`` merges; of the mappings of a list the earlier ones win."""
        values = value if isinstance(value, list) else [value]
        mappings: list[JsonObject] = [mapping for mapping in values if isinstance(mapping, dict)]
        if len(mappings) < len(values):
            raise self._error(event, "map merge requires map or sequence of maps as the value")
        return mappings

    def _error(self, event: Event, what: str) -> InputError:
        line = event.start_mark.line + 1  # type: ignore[union-attr]
        return InputError(what, where=f"{self.place.file}: document {self.place.document}, line {line}")


def key_text(value: Scalar) -> str:
    """The key of an object that a scalar stands for."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=16384)
def resolve(text: str) -> Scalar:
    """What a plain scalar means.

    >>> [resolve(text) for text in ("yes", "0o17", "017", "1_000", "1e3", "12:30", "2024-01-02", "1e400", "~")]
    [True, 15, 15, 1000, 1000, '12:30', '2024-01-02', '1e400', None]
    """
    if text and text[0] not in _RESOLVED_FIRST:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    plain = text if text.startswith(".") else text.replace("_", "")
    if match := _INT.fullmatch(plain):
        number = _integer(*match.groups(default=""))
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(plain) and math.isfinite(float(plain)):
        return _number(float(plain))
    return text


def _number(value: float) -> int | float:
    """An integer where it is one of 64 bits: as such Go writes it into JSON, without an exponent or a fraction."""
    return int(value) if value.is_integer() and abs(value) < _INTEGERS else value


def _integer(sign: str, hexadecimal: str, binary: str, octal: str, decimal: str) -> int:
    """The number; one of more digits than any of 64 bits has is as large as it need be."""
    base = 16 if hexadecimal else 2 if binary else 8 if octal else 10
    digits = (hexadecimal or binary or octal or decimal).lstrip("0") or "0"
    return int(sign + digits, base) if len(digits) <= 64 else 2**64


def _type_name(value: object) -> str:
    return "null" if value is None else "map" if isinstance(value, dict) else "list"


def _syntax_error(error: yaml.YAMLError, file: str, number: int) -> InputError:
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark else ""
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    return InputError(f"invalid YAML: {what}", where=f"{file}: document {max(number, 1)}{line}")


def _hinted(error: InputError, text: str) -> InputError:
    """What is wrong with a template is often that it is one."""
    hint = "is it a template? give what it renders to" if "{{" in text else error.hint
    return InputError(error.what, where=error.where, hint=hint)
