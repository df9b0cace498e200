"""All errors that kube-scheduler would report for a configuration. It stops at the first one itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy

from kschedctl.api.json_values import JsonObject, array_at, field_at
from kschedctl.errors import ConfigurationError
from kschedctl.lint.objects.subject import Path
from kschedctl.scheduler.configuration import validation
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration, load_configuration
from kschedctl.scheduler.configuration.document import parse_document, with_document_defaults
from kschedctl.scheduler.configuration.validation import VersionMismatch, validate_configuration
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import split_path
from kschedctl.scheduler.registry.third_party import find_registered_plugins

ConfigurationFault = tuple[Path, str]
"""The path of a field and what is wrong with it."""
MAX_ERRORS = 100
"""How many errors of one kind are collected."""
_UNKNOWN = re.compile(r'(?:decoding \.(\S+): [^"]*?)?unknown field "([^"]*)"')
_STRICT = "strict decoding error"


def load_with_registered_plugins(document: JsonObject | None, gates: FeatureGates) -> SchedulerConfiguration:
    """Return the configuration with registered plugins. Raises ConfigurationError, ThirdPartyError."""
    return load_configuration(document, gates, find_registered_plugins(other_builds=True), other_builds=True)


def list_unknown_to_version(document: JsonObject | None, gates: FeatureGates) -> list[VersionMismatch]:
    """Return what other versions have and this one does not, apart from plugins that a package registers."""
    registered = find_registered_plugins(other_builds=True)
    return [
        other for other in validation.iter_version_mismatches(document, gates.minor) if other.name not in registered
    ]


def find_errors(document: JsonObject, gates: FeatureGates) -> list[ConfigurationFault]:
    """Return errors of types and names, then those of values, or else those that keep a profile from starting.

    Raises ThirdPartyError.
    """
    errors: list[ConfigurationFault] = []
    while len(errors) < MAX_ERRORS:
        try:
            parsed = parse_document(document, gates.minor)
        except ConfigurationError as error:
            decoding_errors = list(_iter_decoding_errors(error))
            errors += decoding_errors
            reduced = _remove_fields(document, [path for path, _ in decoding_errors])
            if reduced == document:
                return errors
            document = reduced
            continue
        value_errors = validate_configuration(with_document_defaults(parsed, gates), gates)
        errors += [(parse_error_path(error), error) for error in value_errors]
        break
    return errors[:MAX_ERRORS] or list(_iter_profile_errors(document, gates))


def format_error(error: ConfigurationError) -> str:
    """Return the error in kube-scheduler's words, without our hint."""
    return f"{error.where}: {error.what}" if error.where else error.what


def parse_error_path(message: str) -> Path:
    """Return the first field that an error of kube-scheduler names, or ().

    >>> parse_error_path('profiles[0].schedulerName: Required value'), parse_error_path("parallelism: Invalid value: 0")
    (('profiles', 0, 'schedulerName'), ('parallelism',))
    """
    named = re.search(r"\b(profiles|extenders)\[\d+\][\w.\[\]]*", message) or re.search(r"\b[a-z]\w+(?=: )", message)
    return split_path(named[0]) if named else ()


def _iter_decoding_errors(error: ConfigurationError) -> Iterator[ConfigurationFault]:
    """Yield all unknown fields of a document, or the field that is of another type."""
    if _STRICT not in error.what:
        yield split_path(error.where) or parse_error_path(str(error)), str(error)
        return
    for within, field in _UNKNOWN.findall(error.what):
        path = f"{within}.args.{field}" if within else field
        yield split_path(path), f'{_STRICT}: unknown field "{path}"'


def _iter_profile_errors(document: JsonObject, gates: FeatureGates) -> Iterator[ConfigurationFault]:
    """Yield the error of each profile that does not start. kube-scheduler ends at the first."""
    for i, profile in enumerate(array_at(document, "profiles")):
        try:
            load_with_registered_plugins({**document, "profiles": [profile]}, gates)
        except ConfigurationError as error:
            yield ("profiles", i), format_error(error)


def _remove_fields(document: JsonObject, paths: list[Path]) -> JsonObject:
    """Return the document without the fields."""
    for path in sorted(paths, key=str, reverse=True):  # later items of a list first
        document = _remove_field(document, path) or document
    return document


def _remove_field(document: JsonObject, path: Path) -> JsonObject:
    """Return a copy of the document without a field. A list item is emptied instead of removed.

    So the other items keep their index.
    """
    copied = deepcopy(document)
    parent = field_at(copied, *path[:-1])
    if path and isinstance(parent, dict):
        parent.pop(path[-1], None)
    elif isinstance(parent, list) and field_at(parent, *path[-1:]) is not None:
        parent[int(path[-1])] = {}
    return copied
