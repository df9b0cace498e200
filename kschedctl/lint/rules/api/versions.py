"""Fields, kinds and versions of the API that the linted version of Kubernetes does not have yet, or no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kschedctl.api.api_versions import ApiVersion, is_custom_api
from kschedctl.api.json_values import JsonObject, field_at
from kschedctl.api.kinds import LIFECYCLES, list_expiring_versions
from kschedctl.lint.fixes.safe_fixes import raise_version
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, WARNING, Rule
from kschedctl.lint.objects.subject import Path, Problem, Subject, path_text
from kschedctl.lint.objects.workload import TEMPLATES
from kschedctl.scheduler.configuration.version_fields import unread


def too_new(context: LintContext) -> Iterator[Problem]:
    for subject, version in _versions(context):
        if absence := _absence(version, subject.kind, context):
            fix = _served(subject.kind, context.gates.minor)
            yield subject.problem(("apiVersion",), f"{version.name} {absence}", fix)
    for subject in context.subjects:
        for kind, at, value in _parts(subject):
            for path, field in unread(kind, value, context.gates):
                yield subject.problem((*at, *path), f"{path_text(path[1:])} {field.needs(context.gates)}")


def removed(context: LintContext) -> Iterator[Problem]:
    minor = context.gates.minor
    for subject, version in _versions(context):
        if version.is_removed_in(minor):
            yield subject.problem(
                ("apiVersion",), _fate(version, minor), _served(subject.kind, minor, version.replacement)
            )


def deprecated(context: LintContext) -> Iterator[Problem]:
    minor = context.gates.minor
    for subject, version in _versions(context):
        if version.describe_lifecycle(minor) and not version.is_removed_in(minor):
            yield subject.problem(
                ("apiVersion",), _fate(version, minor), _served(subject.kind, minor, version.replacement)
            )


def _fate(version: ApiVersion, minor: int) -> str:
    instead = f": write {version.replacement}" if version.replacement else ""
    return f"{version.name} {version.describe_lifecycle(minor)}{instead}"


def _versions(context: LintContext) -> Iterator[tuple[Subject, ApiVersion]]:
    """The objects in a version of the API that was not, or will not be, always there."""
    for subject in context.subjects:
        version = LIFECYCLES.get((subject.api_version, subject.kind))
        if version is not None:
            yield subject, version


def _absence(version: ApiVersion, kind: str, context: LintContext) -> str:
    """Why an API server of the linted version does not serve it yet; "" where it does, and where nobody can tell."""
    minor = context.gates.minor
    if minor < version.since:
        return f"needs 1.{version.since}" + ("" if version.is_served_by_default else ", where it is off by default")
    if (
        version.is_served_by_default
        or version.describe_lifecycle(minor)
        or (context.gates.overrides or {}).get(version.gate)
    ):
        return ""
    default = [served for served in list_expiring_versions(kind) if served.is_served_by_default]
    if any(served.exists_in(minor) for served in default):
        return f"is off by default in 1.{minor}"
    later = (f"is off by default in 1.{minor}: it needs 1.{served.since}, as {served.name}" for served in default)
    return next(later, "")


def _served(kind: str, minor: int, instead: str = "") -> str:
    """What to write in this version; "" where it has no such kind."""
    there = {
        known.name: known
        for known in list_expiring_versions(kind)
        if known.exists_in(minor) and not known.describe_lifecycle(minor)
    }
    if (instead, kind) in LIFECYCLES and instead not in there:
        instead = ""
    name = instead or next(reversed(there), "")
    off = name in there and not there[name].is_served_by_default
    return f"Write apiVersion: {name}" + (", which is off by default" if off else "") if name else ""


def _parts(subject: Subject) -> Iterator[tuple[str, Path, JsonObject]]:
    """(kind, where it stands, its fields) of an object, and of the pod or claim of which it is the template."""
    if is_custom_api(subject.api_version):
        return
    yield subject.kind, (), subject.document
    kind, at = ("Pod", TEMPLATES.get(subject.kind, ()))
    if subject.kind == "ResourceClaimTemplate":
        kind, at = "ResourceClaim", ("spec",)
    template = field_at(subject.document, *at)
    if at and isinstance(template, Mapping):
        yield kind, at, template


RULES = (
    Rule(
        "api-needs-version",
        WARNING,
        too_new,
        summary="A field or API version that this version of Kubernetes does not have",
        why="kubectl refuses a field or kind that the API server does not know; a field whose feature gate is off is "
        "silently dropped. Which version: --kube-version, that of the cluster, or of the settings.",
        fix="Remove it, or upgrade first",
        source=f"{doc.FEATURE_GATES}; {doc.API_REMOVALS}",
    ),
    Rule(
        "api-version-removed",
        ERROR,
        removed,
        summary="An API version that is no longer served",
        why="The API server does not know the kind: the object cannot be created.",
        fix="Use the API version that replaced it",
        source=doc.API_REMOVALS,
        safe_fix=raise_version,
    ),
    Rule(
        "api-version-deprecated",
        WARNING,
        deprecated,
        summary="An API version that will be removed",
        why="A later release of Kubernetes no longer serves it.",
        fix="Use the API version that replaces it",
        source=doc.API_REMOVALS,
        safe_fix=raise_version,
    ),
)
