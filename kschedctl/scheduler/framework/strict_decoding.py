"""Parsed YAML or JSON to typed structs as strictly as kube-scheduler reads its configuration.

Unknown fields, wrong case and wrong types are errors that name the field; a null is as good as absent.
Upstream: staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go (v1.36).
"""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

import msgspec

from kschedctl.api.decoding import convert_builtins, iter_unknown_fields
from kschedctl.cluster import without_nulls
from kschedctl.errors import ConfigurationError

T = TypeVar("T")
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[-+]?(0|((\d++(\.\d*+)?|\.\d++)(ns|us|µs|μs|ms|s|m|h))+)")
_DURATION_PART = re.compile(r"([\d.]+)([a-zµμ]+)")


class GoDuration(float):
    """Seconds, printed by Go: ``10s``, ``1m30s``, ``500ms``."""

    @classmethod
    def parse(cls, text: object) -> GoDuration:
        """Raises ValueError where Go's time.ParseDuration fails.

        >>> GoDuration.parse("1m30s") + GoDuration.parse("500ms")
        90.5
        """
        if not isinstance(text, str) or not _DURATION.fullmatch(text):
            raise ValueError(f"invalid duration {text!r}")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
        return cls(-seconds if text.startswith("-") else seconds)


def decode(document: object, into: type[T], path: str = "") -> T:
    """The document, found at ``path``, as ``into``. Raises ConfigurationError for a wrong type; unknown fields pass."""
    try:
        return convert_builtins(without_nulls(document), into, _decode_custom)
    except msgspec.ValidationError as error:
        what, _, where = str(error).replace("`", "").replace(" | null", "").partition(" - at $")
        raise ConfigurationError(what[:1].lower() + what[1:], where=f"{path}{where}".lstrip(".")) from None


def unknown_fields(document: object, into: type, minor: int) -> list[str]:
    """The paths of the fields that ``into`` has not in a version, as ``unknown field "profiles[0].pluginz"``."""
    return [f'unknown field "{path}"' for path, since in iter_unknown_fields(document, into, minor)]


def fields_of(into: type[msgspec.Struct], minor: int) -> list[str]:
    """The fields that a document may have in a version."""
    named = {field.encode_name: None for field in msgspec.structs.fields(into)}
    return [name for name in named if not any(iter_unknown_fields({name: None}, into, minor))]


def steps(path: str) -> tuple[str | int, ...]:
    """The fields and indices of a path.

    >>> steps("profiles[0].plugins")
    ('profiles', 0, 'plugins')
    """
    matches = re.findall(r"([A-Za-z]\w*)|\[(\d{1,9})\]", path)
    return tuple(int(index) if index else name for name, index in matches)


def _decode_custom(into: type, value: object) -> GoDuration:
    if into is GoDuration:
        return GoDuration.parse(value)
    raise NotImplementedError(into)
