"""Rules about fields and API versions that the linted version of Kubernetes does not have yet or has removed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api.api_versions import ApiVersion, is_custom_api
from kschedctl.api.json_values import JsonObject, field_at
from kschedctl.api.kinds import LIFECYCLES, list_expiring_versions
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.field_edits import FieldEdit, SetField
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule
from kschedctl.lint.objects.subject import Path, Problem, Subject, format_path
from kschedctl.scheduler.configuration.version_fields import iter_unread_fields


def find_too_new_fields_and_versions(context: LintContext) -> Iterator[Problem]:
    """Find API versions and fields that the linted version does not serve yet, or only behind a feature gate."""
    for subject, version in _iter_expiring_versions(context):
        if absence := _describe_absence(version, subject.kind, context):
            yield _build_version_problem(subject, f"{version.name} {absence}", context.gates.minor)
    for subject in context.subjects:
        for kind, at, fields in _iter_typed_parts(subject):
            for path, field in iter_unread_fields(kind, fields, context.gates):
                yield subject.build_problem(
                    (*at, *path), f"{format_path(path[1:])} {field.describe_requirement(context.gates)}"
                )


API_NEEDS_VERSION = Rule(
    "api-needs-version",
    WARNING,
    find_too_new_fields_and_versions,
    summary="A field or API version that this version of Kubernetes does not have",
    why="kubectl refuses a field or kind that the API server does not know; a field whose feature gate is off is "
    "silently dropped. Which version: --kube-version, that of the cluster, or of the settings.",
    fix="Remove it, or upgrade first",
    source=f"{doc.FEATURE_GATES}; {doc.API_REMOVALS}",
)


def _describe_absence(version: ApiVersion, kind: str, context: LintContext) -> str:
    """Return why the linted version does not serve an API version yet, or "" if it does or if that is unknown."""
    minor = context.gates.minor
    if minor < version.since:
        return f"needs 1.{version.since}" + ("" if version.is_served_by_default else ", where it is off by default")
    if version.is_served_by_default or version.describe_lifecycle(minor):
        return ""
    if context.gates.overrides and context.gates.overrides.get(version.gate):
        return ""
    default = [served for served in list_expiring_versions(kind) if served.is_served_by_default]
    if any(served.exists_in(minor) for served in default):
        return f"is off by default in 1.{minor}"
    if default:
        return f"is off by default in 1.{minor}: it needs 1.{default[0].since}, as {default[0].name}"
    return ""


def _raise_version(problem: Problem) -> FieldEdit | None:
    """Return the edit that writes the version's successor, or None if both differ in more than their name."""
    subject = problem.subject
    version = LIFECYCLES.get((subject.api_version, subject.kind))
    if version is None or (subject.api_version, subject.kind) not in _SAME_SCHEMA:
        return None
    selector = (field_at(subject.document, "spec", "selector", part) for part in ("matchLabels", "matchExpressions"))
    if subject.kind == "PodDisruptionBudget" and not any(selector):
        return None  # an empty selector selects nothing in policy/v1beta1 and everything in policy/v1
    is_successor = bool(problem.replacement) and problem.replacement == version.replacement
    return SetField(problem.path, problem.replacement) if is_successor else None


_SAME_SCHEMA = {
    ("batch/v1beta1", "CronJob"),
    ("policy/v1beta1", "PodDisruptionBudget"),
    ("node.k8s.io/v1beta1", "RuntimeClass"),
    ("scheduling.k8s.io/v1beta1", "PriorityClass"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler"),
    ("storage.k8s.io/v1beta1", "StorageClass"),
    ("storage.k8s.io/v1beta1", "CSIStorageCapacity"),
}
"""Versions and kinds whose successor has the same fields with the same meaning and defaults (api/*/types.go)."""


def find_removed_versions(context: LintContext) -> Iterator[Problem]:
    """Find objects in an API version that the linted version no longer serves."""
    for subject, version in _iter_expiring_versions(context):
        if version.is_removed_in(context.gates.minor):
            yield _build_lifecycle_problem(subject, version, context.gates.minor)


API_VERSION_REMOVED = Rule(
    "api-version-removed",
    ERROR,
    find_removed_versions,
    summary="An API version that is no longer served",
    why="The API server does not know the kind: the object cannot be created.",
    fix="Use the API version that replaced it",
    source=doc.API_REMOVALS,
    safe_fix=_raise_version,
)


def find_deprecated_versions(context: LintContext) -> Iterator[Problem]:
    """Find objects in an API version that the linted version serves and a later one will not."""
    minor = context.gates.minor
    for subject, version in _iter_expiring_versions(context):
        if version.describe_lifecycle(minor) and not version.is_removed_in(minor):
            yield _build_lifecycle_problem(subject, version, minor)


API_VERSION_DEPRECATED = Rule(
    "api-version-deprecated",
    WARNING,
    find_deprecated_versions,
    summary="An API version that will be removed",
    why="A later release of Kubernetes no longer serves it.",
    fix="Use the API version that replaces it",
    source=doc.API_REMOVALS,
    safe_fix=_raise_version,
)


def _iter_expiring_versions(context: LintContext) -> Iterator[tuple[Subject, ApiVersion]]:
    """Yield the linted objects whose API version some release of Kubernetes does not serve, with that API version."""
    for subject in context.subjects:
        version = LIFECYCLES.get((subject.api_version, subject.kind))
        if version is not None:
            yield subject, version


def _build_lifecycle_problem(subject: Subject, version: ApiVersion, minor: int) -> Problem:
    """Build the problem that says since when an API version is deprecated or gone, and what replaces it."""
    successor = f": write {version.replacement}" if version.replacement else ""
    message = f"{version.name} {version.describe_lifecycle(minor)}{successor}"
    return _build_version_problem(subject, message, minor, version.replacement)


def _build_version_problem(subject: Subject, message: str, minor: int, successor: str = "") -> Problem:
    """Build a problem at apiVersion, with the served version to write instead, if there is one."""
    served = {
        version.name: version
        for version in list_expiring_versions(subject.kind)
        if version.exists_in(minor) and not version.describe_lifecycle(minor)
    }
    if (successor, subject.kind) in LIFECYCLES and successor not in served:
        successor = ""
    name = successor or next(reversed(served), "")
    if not name:
        return subject.build_problem(("apiVersion",), message)
    if name in served and not served[name].is_served_by_default:
        return subject.build_problem(("apiVersion",), message, f"Write apiVersion: {name}, which is off by default")
    return subject.build_problem(("apiVersion",), message, f"Write apiVersion: {name}", name)


def _iter_typed_parts(subject: Subject) -> Iterator[tuple[str, Path, JsonObject]]:
    """Yield kind, path and fields of an object, and of the pod or claim that the object is a template of.

    Custom resources yield nothing.
    """
    if is_custom_api(subject.api_version):
        return
    yield subject.kind, (), subject.document
    kind, at = ("Pod", POD_TEMPLATE_PATHS.get(subject.kind, ()))
    if subject.kind == "ResourceClaimTemplate":
        kind, at = "ResourceClaim", ("spec",)
    template = field_at(subject.document, *at)
    if at and isinstance(template, Mapping):
        yield kind, at, template
