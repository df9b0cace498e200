"""Field errors in the words of staging/src/k8s.io/apimachinery/pkg/util/validation/field/errors.go (v1.36)."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec

from kschedctl.api.resource_names import is_qualified_name


def invalid(path: str, value: object, problem: str) -> str:
    """A value that breaks a rule."""
    return f"{path}: Invalid value: {_printed(value)}: {problem}"


def duplicate(path: str, value: object) -> str:
    """A value that may stand only once."""
    return f"{path}: Duplicate value: {_printed(value)}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    """A value that is none of the known ones."""
    return f"{path}: Unsupported value: {_printed(value)}: supported values: {', '.join(map(_printed, supported))}"


def required(path: str, problem: str = "") -> str:
    """A field that is missing or empty."""
    return f"{path}: Required value" + (f": {problem}" if problem else "")


def forbidden(path: str, problem: str) -> str:
    """A field that may not be set."""
    return f"{path}: Forbidden: {problem}"


def qualified_name_errors(path: str, name: str) -> list[str]:
    """Why the name cannot be a label key or resource name."""
    rule = "must be a qualified name: [DNS subdomain/]name, of letters, digits, '-', '_' and '.'"
    return [] if is_qualified_name(name) else [invalid(path, name, rule)]


def _printed(value: object) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False, separators=(",", ":"))
