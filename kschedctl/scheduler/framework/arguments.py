"""Base class of plugin arguments, and the messages of errors in their fields.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go,
pkg/scheduler/apis/config/validation/validation_pluginargs.go and
staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, Literal, Self

import msgspec

from kschedctl.api.objects import Struct
from kschedctl.api.resource_names import is_qualified_name
from kschedctl.scheduler.framework.feature_gates import FeatureGates

Naming = Literal["key", "resource", "domain"] | type[Struct]
"""The kind of name that the text of a field is, or the struct that the field holds."""


class PluginArgs(Struct, frozen=True):
    """The arguments of a plugin. The plugin's class names this type in `args_type`."""

    naming: ClassVar[Mapping[str, Naming]] = {}
    """Field at any depth -> what it names. Anonymized snapshots have pseudonyms there."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments with the defaults that depend on feature gates or on other fields."""
        return self

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the errors that the scheduler reports for defaulted arguments. Paths are relative to the arguments."""
        return iter(())


def invalid(path: str, value: object, problem: str) -> str:
    """Return upstream's message for a value that breaks a rule."""
    return f"{path}: Invalid value: {_to_json(value)}: {problem}"


def duplicate(path: str, value: object) -> str:
    """Return upstream's message for a value that may occur only once."""
    return f"{path}: Duplicate value: {_to_json(value)}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    """Return upstream's message for a value that is not in the list of supported values."""
    return f"{path}: Unsupported value: {_to_json(value)}: supported values: {', '.join(map(_to_json, supported))}"


def required(path: str, problem: str = "") -> str:
    """Return upstream's message for a missing or empty field, followed by the problem if one is given."""
    if not problem:
        return f"{path}: Required value"
    return f"{path}: Required value: {problem}"


def forbidden(path: str, problem: str) -> str:
    """Return upstream's message for a field that must not be set."""
    return f"{path}: Forbidden: {problem}"


def validate_qualified_name(path: str, name: str) -> list[str]:
    """Return a list with the error if a name cannot be a label key or a resource name, otherwise an empty list."""
    if is_qualified_name(name):
        return []
    return [invalid(path, name, "must be a qualified name: [DNS subdomain/]name, of letters, digits, '-', '_' and '.'")]


def _to_json(value: object) -> str:
    """Return a value as compact JSON."""
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
