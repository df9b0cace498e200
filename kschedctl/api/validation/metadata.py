"""Validation of names, labels and annotations of an object.

Upstream: staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.field_errors import FieldError, Path, ValidationErrors, invalid, required
from kschedctl.api.objects import ObjectMeta
from kschedctl.api.validation import names

_ANNOTATIONS_LIMIT = 256 << 10  # bytes


def validate_object_meta(meta: ObjectMeta, path: Path, rule: names.Rule) -> ValidationErrors:
    """Validate the metadata of a namespaced object whose name follows the rule.

    A missing namespace is no error, since the object then goes to the namespace of the request.
    """
    if meta.generate_name:
        problems = rule(names.complete_prefix(meta.generate_name))
        yield from (invalid((*path, "generateName"), meta.generate_name, problem) for problem in problems)
    if meta.name:
        yield from names.validate_syntax((*path, "name"), meta.name, rule)
    elif not meta.generate_name:
        yield required((*path, "name"), "name or generateName is required")
    if meta.namespace:
        yield from names.validate_syntax((*path, "namespace"), meta.namespace, names.validate_dns_label)
    yield from names.validate_labels(meta.labels, (*path, "labels"))
    yield from validate_annotation_keys(meta.annotations, (*path, "annotations"))


def validate_annotation_keys(annotations: Mapping[str, str], path: Path) -> ValidationErrors:
    """Validate annotation keys, which are like label keys but may have capitals before the slash."""
    for key in sorted(annotations):
        yield from (invalid(path, key, problem) for problem in names.validate_qualified_name(key.lower()))
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        yield FieldError(path, f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes")
