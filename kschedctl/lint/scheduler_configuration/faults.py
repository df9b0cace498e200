"""All that kube-scheduler refuses in a configuration, each with the field where it stands; it itself stops early."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy

from kschedctl.api.json_values import JsonObject, array_at, field_at
from kschedctl.errors import ConfigurationError
from kschedctl.lint.objects.subject import Path
from kschedctl.scheduler.configuration import other_versions
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration, load_configuration
from kschedctl.scheduler.configuration.document import parse_document, with_document_defaults
from kschedctl.scheduler.configuration.other_versions import OfOtherVersion
from kschedctl.scheduler.configuration.validation import configuration_errors
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import split_path
from kschedctl.scheduler.registry.scheduler_plugins import registered_plugins

Fault = tuple[Path, str]
MOST = 100
"""So many faults of one kind are enough for one reader."""
_UNKNOWN = re.compile(r'(?:decoding \.(\S+): [^"]*?)?unknown field "([^"]*)"')
_STRICT = "strict decoding error"


def load(document: JsonObject | None, gates: FeatureGates) -> SchedulerConfiguration:
    """The configuration, with registered plugins. Raises ConfigurationError, ThirdPartyError."""
    return load_configuration(document, gates, registered_plugins(other_builds=True), other_builds=True)


def of_other_versions(document: JsonObject | None, gates: FeatureGates) -> list[OfOtherVersion]:
    """What other versions have that this one does not know; a plugin that a package registers is not meant."""
    registered = registered_plugins(other_builds=True)
    return [other for other in other_versions.of_other_versions(document, gates.minor) if other.name not in registered]


def faults(document: JsonObject, gates: FeatureGates) -> list[Fault]:
    """Fields of wrong types and unknown ones, then wrong values of the others, else what keeps a profile from starting.

    Raises ThirdPartyError.
    """
    known_faults: list[Fault] = []
    while len(known_faults) < MOST:
        try:
            parsed = parse_document(document, gates.minor)
        except ConfigurationError as error:
            decoding = list(_of_decoding(error))
            known_faults += decoding
            less = _without_all(document, [path for path, _ in decoding])
            if less == document:
                return known_faults
            document = less
            continue
        errors = configuration_errors(with_document_defaults(parsed, gates), gates)
        known_faults += [(path_of(error), error) for error in errors]
        break
    return known_faults[:MOST] or list(_of_profiles(document, gates))


def without_hint(error: ConfigurationError) -> str:
    """What kube-scheduler says."""
    return f"{error.where}: {error.what}" if error.where else error.what


def path_of(message: str) -> Path:
    """The first field that an error of kube-scheduler names.

    >>> path_of('profiles[0].schedulerName: Required value'), path_of("parallelism: Invalid value: 0")
    (('profiles', 0, 'schedulerName'), ('parallelism',))
    """
    named = re.search(r"\b(profiles|extenders)\[\d+\][\w.\[\]]*", message) or re.search(r"\b[a-z]\w+(?=: )", message)
    return split_path(named[0]) if named else ()


def _of_decoding(error: ConfigurationError) -> Iterator[Fault]:
    """What is wrong with the form of a document: all fields that are unknown, or one that is of another type."""
    if _STRICT not in error.what:
        yield split_path(error.where) or path_of(str(error)), str(error)
        return
    for within, field in _UNKNOWN.findall(error.what):
        path = f"{within}.args.{field}" if within else field
        yield split_path(path), f'{_STRICT}: unknown field "{path}"'


def _of_profiles(document: JsonObject, gates: FeatureGates) -> Iterator[Fault]:
    """Profiles that do not start, each by itself, as the first of them ends kube-scheduler."""
    for i, profile in enumerate(array_at(document, "profiles")):
        try:
            load({**document, "profiles": [profile]}, gates)
        except ConfigurationError as error:
            yield ("profiles", i), without_hint(error)


def _without_all(document: JsonObject, paths: list[Path]) -> JsonObject:
    for path in sorted(paths, key=str, reverse=True):  # later items of a list first
        document = _without(document, path) or document
    return document


def _without(document: JsonObject, path: Path) -> JsonObject:
    """A copy of the document less the field at a path; an item of a list becomes empty, so that the others stay."""
    copied = deepcopy(document)
    parent = field_at(copied, *path[:-1])
    if path and isinstance(parent, dict):
        parent.pop(path[-1], None)
    elif isinstance(parent, list) and field_at(parent, *path[-1:]) is not None:
        parent[int(path[-1])] = {}
    return copied
