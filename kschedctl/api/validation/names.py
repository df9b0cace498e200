"""The syntax of names, label keys and label values.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go, .../pkg/api/validate/content and
.../pkg/api/validation/generic.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kschedctl.api.field_errors import Key, Path, ValidationErrors, invalid
from kschedctl.api.labels import DNS_LABEL, DNS_SUBDOMAIN, SUBDOMAIN_ERROR, label_key_errors, label_value_errors

Rule = Callable[[str], list[str]]
_LABEL_ERROR = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{DNS_LABEL}')"
)
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def dns_label(value: str) -> list[str]:
    """Why this is no DNS label, as names of containers, volumes and namespaces are.

    >>> dns_label("web"), dns_label("a.b")
    ([], ['must not contain dots'])
    """
    errors = _too_long(value, 63)
    if not re.fullmatch(DNS_LABEL, value):
        errors.append("must not contain dots" if re.fullmatch(DNS_SUBDOMAIN, value) else _LABEL_ERROR)
    return errors


def dns_subdomain(value: str) -> list[str]:
    """Why this is no DNS subdomain, as names of pods, nodes and classes are."""
    errors = _too_long(value, 253)
    return errors if re.fullmatch(DNS_SUBDOMAIN, value) else [*errors, SUBDOMAIN_ERROR]


def qualified_name(value: str) -> list[str]:
    """Why this is no label key, which is also the form of resource names and scheduling gates."""
    return list(label_key_errors(value))


def label_value(value: str) -> list[str]:
    """Why this is no label value."""
    return list(label_value_errors(value))


def port_name(value: str) -> list[str]:
    """Why this is no name of a port.

    >>> port_name("-web")
    ['must not begin or end with a hyphen']
    """
    errors = _too_long(value, 15)
    if not re.fullmatch(r"[-a-z0-9]+", value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def decimal_integer(value: str) -> list[str]:
    """Why this is no decimal integer in canonical form."""
    if not value:
        return ["must be non-empty"]
    return [] if _DECIMAL.fullmatch(value) else ["must be a valid decimal integer in canonical form"]


def as_prefix(name: str) -> str:
    """A generateName as a name to check: a dash at its end is no fault."""
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name


def check(path: Path, value: str, rule: Rule) -> ValidationErrors:
    """One error for each part of the rule that the value breaks."""
    return (invalid(path, value, problem) for problem in rule(value))


def check_all(path: Path, values: Iterable[str], rule: Rule) -> ValidationErrors:
    """One error for each part of the rule that an item of the list breaks, at its index."""
    return (error for i, value in enumerate(values) for error in check((*path, i), value, rule))


def labels(label_set: Mapping[str, str], path: Path, at: Path = ()) -> ValidationErrors:
    """Labels, or a selector that is a map; upstream names the map, not its key, and of a template another than it is.

    ``at``: where the map stands, if not at the path.
    """
    for key, value in sorted(label_set.items()):
        for fault in (*check(path, key, qualified_name), *check(path, value, label_value)):
            yield fault._replace(at=(*(at or path), Key(key)))


def _too_long(value: str, limit: int) -> list[str]:
    return [] if len(value.encode()) <= limit else [f"must be no more than {limit} characters"]
