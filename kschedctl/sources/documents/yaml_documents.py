"""YAML as Kubernetes reads it. Scalars have the values that they have for the API server, and aliases are limited.

Upstream: sigs.k8s.io/yaml (goyaml.v2/resolve.go and yaml.go). Unlike upstream, a duplicate key is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

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
from kschedctl.sources.documents.json_documents import MAX_DEPTH
from kschedctl.sources.documents.place import ParsedDocument, Place

Scalar = str | float | None
MAX_ALIASED_VALUES = 100_000
"""The maximum number of values that the aliases of one document may stand for."""

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
_FIRST_OF_RESOLVED = frozenset("0123456789+-.yYnNtTfFoO~")
_INT = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|([1-9][0-9]*|0))")
_MAX_INTEGER = 2.0**63
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_TAG = "tag:yaml.org,2002:"
_TYPES: dict[str, type | tuple[type, ...]] = {
    f"{_TAG}bool": bool,
    f"{_TAG}int": int,
    f"{_TAG}float": (float, int),
    f"{_TAG}null": type(None),
}
_MERGE_TAG = f"{_TAG}merge"
_TEXT_TAGS = (f"{_TAG}str", f"{_TAG}timestamp", _MERGE_TAG)
_CONTAINER_TAGS = (None, "!", f"{_TAG}map", f"{_TAG}seq")


def parse_yaml(text: str, file: str) -> Iterator[ParsedDocument]:
    """Yield the non-empty documents of a text.

    Raises InputError if the text is malformed. If the text contains template placeholders, the hint mentions them.
    """
    number = 0
    stream: Iterator[Event] = yaml.parse(text, Loader=LOADER)
    try:
        for event in stream:
            if type(event) is DocumentStartEvent:
                number += 1
                line = event.start_mark.line + 1  # type: ignore[union-attr]
                value = _DocumentBuilder(Place(file, number, line)).build(stream)
                if value is not None:
                    yield ParsedDocument(value, number, line)
    except yaml.YAMLError as error:
        raise _add_template_hint(_build_syntax_error(error, file, number), text) from None
    except InputError as error:
        raise _add_template_hint(error, text) from None


class _MergeKey(str):
    """The unquoted key ``<<``, which merges a mapping. A quoted key with the same text does not."""


_MERGE = _MergeKey("<<")


class _Container:
    """A mapping or list that is being filled."""

    def __init__(self, value: dict[str, Json] | list[Json], anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        """The key of a mapping whose value is read next."""
        self.merged: list[JsonObject] = []
        """The mappings that ``<<`` merges, in order of precedence."""
        self.size = 1
        """The number of values in it, including itself and the values that aliases stand for."""


class _DocumentBuilder:
    """A builder of the value of one document."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.open: list[_Container] = []
        """The mappings and lists that are being filled, the outermost first."""
        self.anchors: dict[str, tuple[Json, int]] = {}
        """The value of each anchor, and the number of values in it."""
        self.aliased = 0
        """The number of values that aliases stood for so far."""
        self.root: Json = None

    def build(self, stream: Iterator[Event]) -> Json:
        """Build the value of a document from its events, up to its end event. The start event has been read already.

        Raises InputError if the document is malformed.
        """
        for event in stream:
            if type(event) is ScalarEvent:
                self._add_scalar(event)
            elif type(event) is MappingStartEvent or type(event) is SequenceStartEvent:
                self._open_container(event, {} if type(event) is MappingStartEvent else [])
            elif type(event) is AliasEvent:
                self._add_alias(event)
            elif type(event) is DocumentEndEvent:
                break
            else:
                self._close_container(event)
        return self.root

    def _add_scalar(self, event: ScalarEvent) -> None:
        """Add a scalar's value, which depends on its quoting style and tag, and remember it under the scalar's anchor.

        Raises InputError if the tag does not fit the value.
        """
        # For a scalar without a tag, the parser sets one flag: the first if it is plain, the second if it is quoted
        is_plain, is_quoted = event.implicit
        node_count = 1
        value: Json
        if is_plain:
            value = resolve_scalar(event.value)
        elif event.tag is None or is_quoted or event.tag in _TEXT_TAGS:
            value = event.value
        else:
            value = self._resolve_tagged_scalar(event)
        if event.anchor:
            self.anchors[event.anchor] = value, node_count
        is_merge_key = event.value == "<<" and (is_plain or event.tag == _MERGE_TAG)
        self._add_value(event, value, node_count, is_merge_key)

    def _resolve_tagged_scalar(self, event: ScalarEvent) -> Json:
        """Return the value of a scalar with a tag. Raises InputError if the value does not fit the tag."""
        value = resolve_scalar(event.value)
        if event.tag not in _TYPES:
            raise self._build_error(event, f"Kubernetes does not support the YAML tag {event.tag}")
        if not isinstance(value, _TYPES[event.tag]):
            raise self._build_error(event, f"cannot decode {event.value[:40]!r} as a !!{event.tag.removeprefix(_TAG)}")
        return value

    def _open_container(self, event: CollectionStartEvent, value: dict[str, Json] | list[Json]) -> None:
        """Begin a mapping or list.

        Raises InputError if the container is nested too deeply or has an unsupported tag.
        """
        if event.tag not in _CONTAINER_TAGS:
            raise self._build_error(event, f"Kubernetes does not support the YAML tag {event.tag}")
        if len(self.open) >= MAX_DEPTH:
            raise self._build_error(event, f"nested more than {MAX_DEPTH} levels deep")
        if event.anchor:
            self.anchors.pop(event.anchor, None)  # the anchor is unknown inside of its own value
        self.open.append(_Container(value, event.anchor))

    def _close_container(self, event: Event) -> None:
        """Finish the innermost mapping or list, and add it to the enclosing container.

        The values of merged mappings are added for keys that are not set. If the container has an anchor, it is
        recorded.
        """
        container = self.open.pop()
        if container.merged and isinstance(container.value, dict):
            for mapping in container.merged:
                for key, value in mapping.items():
                    container.value.setdefault(key, value)
        if container.anchor:
            self.anchors[container.anchor] = container.value, container.size
        self._add_value(event, container.value, container.size)

    def _add_alias(self, event: AliasEvent) -> None:
        """Add the value of an alias.

        Raises InputError if the alias is unknown, or if aliases stand for too many values.
        """
        if event.anchor not in self.anchors:
            raise self._build_error(event, f"unknown anchor '{event.anchor}', or one that contains itself")
        value, size = self.anchors[event.anchor]
        self.aliased += size
        if self.aliased > MAX_ALIASED_VALUES:
            raise self._build_error(event, "document contains excessive aliasing")
        self._add_value(event, value, size)

    def _add_value(self, event: Event, value: Json, size: int, is_merge_key: bool = False) -> None:
        """Add a complete value: as the root, or to the innermost container as an item, a key, or the value of a key.

        ``size`` is the number of values in this value. ``is_merge_key`` says whether the value is the key ``<<``, whose
        own value is merged into the mapping. Raises InputError for infinite numbers and invalid keys.
        """
        if isinstance(value, float) and not math.isfinite(value):
            raise self._build_error(event, f"unsupported value: {value}")
        if not self.open:
            self.root = value
            return
        parent = self.open[-1]
        parent.size += size
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:  # the value is the key of the next field
            parent.key = _MERGE if is_merge_key else self._build_key(event, parent.value, value)
        elif parent.key is _MERGE:
            parent.merged += self._get_merged_mappings(event, value)
            parent.key = None
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _build_key(self, event: Event, mapping: Mapping[str, Json], value: Json) -> str:
        """Return the text of a key. Raises InputError if the key is a duplicate or not a scalar."""
        if not isinstance(value, str | int | float):
            raise self._build_error(event, f"unsupported map key of type {_type_name(value)}")
        key = format_key(value)
        if key in mapping:
            raise self._build_error(event, f"key {key[:60]!r} already set in map")
        return key

    def _get_merged_mappings(self, event: Event, value: Json) -> list[JsonObject]:
        """Return the mappings that ``<<`` merges, in order of precedence. Raises InputError for other values."""
        values = value if isinstance(value, list) else [value]
        mappings: list[JsonObject] = [mapping for mapping in values if isinstance(mapping, dict)]
        if len(mappings) < len(values):
            raise self._build_error(event, "map merge requires map or sequence of maps as the value")
        return mappings

    def _build_error(self, event: Event, message: str) -> InputError:
        """Build an InputError with the line of the event."""
        line = event.start_mark.line + 1  # type: ignore[union-attr]
        where = f"{self.place.file}: document {self.place.document}, line {line}"
        return InputError(message, where=where, line=line)


def format_key(value: Scalar) -> str:
    """Return the text of a scalar as a key of a JSON object, such as ``true`` or ``1``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@lru_cache(maxsize=16384)
def resolve_scalar(text: str) -> Scalar:
    """Return the value of a plain scalar, as Kubernetes resolves it.

    >>> [resolve_scalar(text) for text in ("yes", "0o17", "017", "1_000", "1e3", "12:30", "2024-01-02", "1e400", "~")]
    [True, 15, 15, 1000, 1000, '12:30', '2024-01-02', '1e400', None]
    """
    # Most scalars begin with a character with which neither numbers nor constants begin
    if text and text[0] not in _FIRST_OF_RESOLVED:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    plain = text if text.startswith(".") else text.replace("_", "")
    if match := _INT.fullmatch(plain):
        sign, hexadecimal, binary, octal, decimal = match.groups(default="")
        number = _parse_integer(sign, hexadecimal=hexadecimal, binary=binary, octal=octal, decimal=decimal)
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(plain) and math.isfinite(float(plain)):
        return _to_json_number(float(plain))
    return text


def _to_json_number(value: float) -> int | float:
    """Return an integer for a whole number of 64 bits, as Go writes it into JSON, or else the value itself."""
    return int(value) if value.is_integer() and abs(value) < _MAX_INTEGER else value


def _parse_integer(sign: str, *, hexadecimal: str, binary: str, octal: str, decimal: str) -> int:
    """Return the integer with this sign and these digits. Exactly one of the four digit strings is not empty.

    Return 2**64 if there are more than 64 digits, because the number cannot be a 64-bit integer in any base.
    """
    if hexadecimal:
        base = 16
    elif binary:
        base = 2
    elif octal:
        base = 8
    else:
        base = 10
    digits = (hexadecimal or binary or octal or decimal).lstrip("0") or "0"
    # A 64-bit integer has at most 64 digits, namely in base 2. Python limits the digits of longer decimal numbers.
    return int(sign + digits, base) if len(digits) <= 64 else 2**64


def _type_name(value: object) -> str:
    """Return the name of the type of a value that cannot be a key: null, map or list."""
    if value is None:
        return "null"
    return "map" if isinstance(value, dict) else "list"


def _build_syntax_error(error: yaml.YAMLError, file: str, number: int) -> InputError:
    """Build the InputError for an error of the YAML parser in the document with this number.

    The number is 0 if the error is before the first document.
    """
    mark = getattr(error, "problem_mark", None)
    line = mark.line + 1 if mark else None
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    where = f"{file}: document {max(number, 1)}" + (f", line {line}" if line else "")
    return InputError(f"invalid YAML: {problem}", where=where, line=line)


def _add_template_hint(error: InputError, text: str) -> InputError:
    """Return the error, with the hint to render the template if the text has placeholders."""
    if "{{" not in text:
        return error
    return InputError(error.what, where=error.where, hint="if it is a template, render it first", line=error.line)
