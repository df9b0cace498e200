"""Validation of names, labels, annotations and label selectors.

Upstream: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go, .../pkg/api/validate/content,
.../pkg/api/validation/{generic,objectmeta}.go and .../pkg/apis/meta/v1/validation/validation.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kschedctl.api.field_errors import (
    FieldError,
    Key,
    Path,
    TypedString,
    ValidationErrors,
    forbidden,
    invalid,
    required,
)
from kschedctl.api.labels import (
    DNS_LABEL,
    DNS_SUBDOMAIN,
    MAX_NAME_LENGTH,
    MAX_SUBDOMAIN_LENGTH,
    SUBDOMAIN_ERROR,
    find_label_key_errors,
    find_label_value_errors,
)
from kschedctl.api.objects import LabelSelector, ObjectMeta, SelectorRequirement

Rule = Callable[[str], list[str]]
"""A function that returns what is wrong with a string."""
_LABEL_ERROR = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{DNS_LABEL}')"
)
_DECIMAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def validate_dns_label(value: str) -> list[str]:
    """Return the reasons why a string is not a DNS label, such as the name of a container, volume or namespace.

    >>> validate_dns_label("web"), validate_dns_label("a.b")
    ([], ['must not contain dots'])
    """
    errors = _find_length_errors(value, MAX_NAME_LENGTH)
    if not re.fullmatch(DNS_LABEL, value):
        errors.append("must not contain dots" if re.fullmatch(DNS_SUBDOMAIN, value) else _LABEL_ERROR)
    return errors


def validate_dns_subdomain(value: str) -> list[str]:
    """Return the errors of a string as a DNS subdomain, such as the name of a pod, node or class."""
    errors = _find_length_errors(value, MAX_SUBDOMAIN_LENGTH)
    return errors if re.fullmatch(DNS_SUBDOMAIN, value) else [*errors, SUBDOMAIN_ERROR]


def validate_qualified_name(value: str) -> list[str]:
    """Return the errors of a string as a label key, resource name or scheduling gate. All have the same form."""
    return list(find_label_key_errors(value))


def validate_label_value(value: str) -> list[str]:
    """Return the errors of a string as a label value."""
    return list(find_label_value_errors(value))


def validate_port_name(value: str) -> list[str]:
    """Return the reasons why a string is not a valid port name.

    >>> validate_port_name("-web")
    ['must not begin or end with a hyphen']
    """
    errors = _find_length_errors(value, 15)
    if not re.fullmatch(r"[-a-z0-9]+", value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def validate_decimal_integer(value: str) -> list[str]:
    """Return the errors of a string as a decimal integer in canonical form."""
    if not value:
        return ["must be non-empty"]
    return [] if _DECIMAL.fullmatch(value) else ["must be a valid decimal integer in canonical form"]


def complete_prefix(name: str) -> str:
    """Return a generateName as a name to validate, in which a trailing dash is replaced by a letter."""
    return f"{name[:-2]}a" if len(name) > 1 and name.endswith("-") else name


def validate_syntax(path: Path, value: str, rule: Rule) -> ValidationErrors:
    """Yield an error for each part of the rule that the value breaks."""
    return (invalid(path, value, problem) for problem in rule(value))


def validate_syntax_of_each(path: Path, values: Iterable[str], rule: Rule) -> ValidationErrors:
    """Yield an error for each part of the rule that an item of the list breaks."""
    return (error for i, value in enumerate(values) for error in validate_syntax((*path, i), value, rule))


def validate_labels(label_set: Mapping[str, str], path: Path, actual_path: Path = ()) -> ValidationErrors:
    """Validate labels, or a selector that is a map.

    Errors print ``path``, as upstream does, but are located at the key under ``actual_path``, which defaults to
    ``path``. The two paths differ for a pod template, for which upstream prints a path that does not exist.
    """
    map_path = actual_path or path
    for key, value in sorted(label_set.items()):
        for fault in (
            *validate_syntax(path, key, validate_qualified_name),
            *validate_syntax(path, value, validate_label_value),
        ):
            yield fault.located_at((*map_path, Key(key)))


def _find_length_errors(value: str, limit: int) -> list[str]:
    """Return the error for a string of too many bytes."""
    return [] if len(value.encode()) <= limit else [f"must be no more than {limit} characters"]


_ANNOTATIONS_LIMIT = 256 << 10  # bytes


def validate_object_meta(meta: ObjectMeta, path: Path, rule: Rule) -> ValidationErrors:
    """Validate the metadata of a namespaced object whose name follows the rule.

    A missing namespace is no error, since the object then goes to the namespace of the request.
    """
    if meta.generate_name:
        problems = rule(complete_prefix(meta.generate_name))
        yield from (invalid((*path, "generateName"), meta.generate_name, problem) for problem in problems)
    if meta.name:
        yield from validate_syntax((*path, "name"), meta.name, rule)
    elif not meta.generate_name:
        yield required((*path, "name"), "name or generateName is required")
    if meta.namespace:
        yield from validate_syntax((*path, "namespace"), meta.namespace, validate_dns_label)
    yield from validate_labels(meta.labels, (*path, "labels"))
    yield from validate_annotation_keys(meta.annotations, (*path, "annotations"))


def validate_annotation_keys(annotations: Mapping[str, str], path: Path) -> ValidationErrors:
    """Validate the keys and the total size of annotations.

    The keys are like label keys but may have capitals before the slash.
    """
    for key in sorted(annotations):
        yield from (invalid(path, key, problem) for problem in validate_qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield FieldError(path, f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes")


UNKNOWN_OPERATOR = "not a valid selector operator"
NO_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
SOME_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def validate_label_selector(selector: LabelSelector | None, path: Path) -> ValidationErrors:
    """Validate a label selector with all its requirements. A missing selector (None) is valid."""
    if selector is None:
        return
    yield from validate_labels(selector.match_labels, (*path, "matchLabels"))
    for i, requirement in enumerate(selector.match_expressions):
        yield from _validate_selector_requirement(requirement, (*path, "matchExpressions", i))


def _validate_selector_requirement(requirement: SelectorRequirement, path: Path) -> ValidationErrors:
    """Validate the operator, key and values of a selector requirement."""
    values = requirement.values or ()
    match requirement.operator:
        case "In" | "NotIn":
            if not values:
                yield required((*path, "values"), NO_VALUES)
        case "Exists" | "DoesNotExist":
            if values:
                yield forbidden((*path, "values"), SOME_VALUES)
        case operator:
            yield invalid((*path, "operator"), TypedString(operator), UNKNOWN_OPERATOR)
    yield from validate_syntax((*path, "key"), requirement.key, validate_qualified_name)
    yield from validate_syntax_of_each((*path, "values"), values, validate_label_value)
