"""Decoding of YAML or JSON into typed structs, as strictly as kube-scheduler reads its configuration.

Unknown fields, wrong case and wrong types are errors that name the field. Null is the same as absent. Upstream:
staging/src/k8s.io/apimachinery/pkg/runtime/serializer/json/json.go (v1.36).
"""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

import msgspec

from kschedctl.api.decoding import convert_builtins, iter_unknown_fields
from kschedctl.api.json_values import drop_nulls
from kschedctl.errors import ConfigurationError

T = TypeVar("T")
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[-+]?(0|((\d++(\.\d*+)?|\.\d++)(ns|us|µs|μs|ms|s|m|h))+)")
_DURATION_PART = re.compile(r"([\d.]+)([a-zµμ]+)")


class GoDuration(float):
    """A duration in seconds, decoded from Go's format: `10s`, `1m30s`, `500ms`."""

    @classmethod
    def parse(cls, text: object) -> GoDuration:
        """Parse a duration. Raises ValueError if Go's time.ParseDuration fails.

        >>> GoDuration.parse("1m30s") + GoDuration.parse("500ms")
        90.5
        """
        if not isinstance(text, str) or not _DURATION.fullmatch(text):
            raise ValueError(f"invalid duration {text!r}")
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _DURATION_PART.findall(text))
        return cls(-seconds if text.startswith("-") else seconds)


def decode_strictly(document: object, target_type: type[T], path: str = "") -> T:
    """Decode a document found at `path`, ignoring unknown fields and null values.

    Raises ConfigurationError for a value of the wrong type.
    """
    try:
        return convert_builtins(drop_nulls(document), target_type, _decode_custom)
    except msgspec.ValidationError as error:
        # msgspec's message is such as "Expected `int | null`, got `str` - at `$.profiles[0].weight`".
        problem, _, location = str(error).replace("`", "").replace(" | null", "").partition(" - at $")
        raise ConfigurationError(problem[:1].lower() + problem[1:], where=f"{path}{location}".lstrip(".")) from None


def find_unknown_fields(document: object, target_type: type, minor: int) -> list[str]:
    """Return an error such as `unknown field "profiles[0].pluginz"` for each field that the type lacks.

    The type has the fields of this minor version.
    """
    return [f'unknown field "{path}"' for path, since in iter_unknown_fields(document, target_type, minor)]


def list_fields(struct_type: type[msgspec.Struct], minor: int) -> list[str]:
    """Return the names of the fields that a document of a type may have in a minor version."""
    names = [field.encode_name for field in msgspec.structs.fields(struct_type)]
    return [name for name in names if not any(iter_unknown_fields({name: None}, struct_type, minor))]


def split_path(path: str) -> tuple[str | int, ...]:
    """Split a path into field names and indices. Other characters are skipped.

    >>> split_path("profiles[0].plugins")
    ('profiles', 0, 'plugins')
    """
    matches = re.findall(r"([A-Za-z]\w*)|\[(\d{1,9})\]", path)
    return tuple(int(index) if index else name for name, index in matches)


def _decode_custom(target_type: type, value: object) -> GoDuration:
    """Decode a value of a type that msgspec does not know. The only such type is GoDuration.

    Raises ValueError for an invalid duration.
    """
    if target_type is GoDuration:
        return GoDuration.parse(value)
    raise NotImplementedError(target_type)
