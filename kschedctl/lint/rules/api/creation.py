"""Rules about fields and API versions that the API server rejects or ignores when an object is created."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kschedctl.api.api_versions import ApiVersion, is_custom_api
from kschedctl.api.json_values import JsonObject, drop_nulls, field_at, object_at
from kschedctl.api.kinds import LIFECYCLES, list_expiring_versions
from kschedctl.api.validation import around_pods, manifests
from kschedctl.api.validation.unknown_fields import KARPENTER_KINDS, find_unknown_fields
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem, Subject, format_path
from kschedctl.lint.objects.workload import InvalidFieldError, convert_field
from kschedctl.lint.rule import ERROR, WARNING, FieldEdit, RenameField, Rule, SetField, is_pod_count
from kschedctl.lint.rules import taints
from kschedctl.lint.rules.affinity import fields
from kschedctl.lint.rules.disruption import budgets
from kschedctl.lint.rules.priority import classes
from kschedctl.lint.rules.resources import amounts
from kschedctl.lint.rules.spread import constraints
from kschedctl.scheduler.configuration.version_fields import iter_unread_fields

_MORE_SPECIFIC_RULES = (
    fields.AF_WEIGHT_RANGE,
    budgets.PDB_NO_POLICY,
    classes.PC_SYSTEM_PREFIX,
    classes.PC_VALUE_OVER_1E9,
    amounts.RQ_UNKNOWN_RESOURCE,
    constraints.TS_MLK_WITHOUT_SELECTOR,
    constraints.TS_MIN_DOMAINS_SOFT,
    constraints.TS_SELECTOR_INVALID,
    taints.TT_SECONDS_ON_NOSCHEDULE,
)
"""Rules that explain one kind of invalid field better than ``api-refused`` does."""
_VERSIONS_WITH_DEFAULT_SELECTOR = ("extensions/v1beta1", "apps/v1beta1")
"""Removed versions in which spec.selector defaults to the labels of the template."""
_SELECTOR, _LABELS = ("spec", "selector"), ("spec", "template", "metadata", "labels")
_SUPPORTED = re.compile(r'Unsupported value: "([A-Za-z]+)": supported values: ([A-Za-z", ]+)')
_WORD = re.compile(r'"([A-Za-z]+)"')
_POD_COUNTS = ("minAvailable", "maxUnavailable", "maxSurge")


def find_invalid_fields(context: LintContext) -> Iterator[Problem]:
    """Find the first error of each field that the API server would reject and that no more specific rule explains."""
    explained = {(p.subject, p.path) for rule in _MORE_SPECIFIC_RULES for p in rule.check(context)}
    undecodable = {problem.subject for problem in context.invalid}
    for subject in context.subjects:
        for problem in _iter_validation_errors(subject, context) if subject not in undecodable else ():
            if (subject, problem.path) not in explained:
                explained.add((subject, problem.path))
                yield problem


def _correct_word(problem: Problem) -> FieldEdit | None:
    """Return the edit that corrects the case of a word or removes the quotes of a pod count, or None."""
    value = field_at(problem.subject.document, *problem.path)
    if not isinstance(value, str):
        return None
    if problem.path[-1] in _POD_COUNTS and is_pod_count(value):
        return SetField(problem.path, int(value))
    unsupported = _SUPPORTED.search(problem.message)
    if unsupported is None:
        return None
    same_word = [word for word in _WORD.findall(unsupported[2]) if word.lower() == value.lower()]
    return SetField(problem.path, same_word[0]) if len(same_word) == 1 else None


API_REFUSED = Rule(
    "api-refused",
    ERROR,
    find_invalid_fields,
    summary="A pod, pod template, budget, class or claim that the API server refuses",
    why="It is not created at all. simulate, explain and capacity refuse it in the same words.",
    fix="Correct the field",
    source=f"{doc.VALIDATION}; pkg/apis/{{apps,batch,policy,scheduling,storage,autoscaling}}/validation (v1.36)",
    safe_fix=_correct_word,
)


def _iter_validation_errors(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """Yield the validation errors of a user-authored manifest, or only the first field that cannot be decoded."""
    structs = {**manifests.KINDS, **around_pods.KINDS}
    if subject.kind not in structs or not is_user_authored(subject):
        return
    try:
        manifest = convert_field((), drop_nulls(subject.document), structs[subject.kind])
    except InvalidFieldError as error:
        yield subject.build_problem(error.path, str(error))
        return
    if subject.kind in around_pods.KINDS:
        errors = around_pods.validate_object(subject.kind, manifest)
    else:
        errors = manifests.validate_manifest(subject.kind, manifest, context.validation_options)

    ignored: set[Path] = set()
    if subject.api_version in _VERSIONS_WITH_DEFAULT_SELECTOR:
        ignored = {_SELECTOR, _LABELS}
    elif any(error.field == _SELECTOR for error in errors):
        ignored = {_LABELS}  # a missing selector also does not match the labels: the same mistake
    yield from (subject.build_problem(error.field, str(error)) for error in errors if error.field not in ignored)


def is_user_authored(subject: Subject) -> bool:
    """Return whether this looks like a hand-written manifest of Kubernetes or Karpenter: no uid and no owner.

    A workload without a spec does not count: it is a patch or a reference, which nobody applies as it is.
    """
    makes_pods = subject.kind in manifests.KINDS and subject.kind != "PodTemplate"
    if makes_pods and "spec" not in subject.document:
        return False
    if is_custom_api(subject.api_version) and subject.kind not in KARPENTER_KINDS:
        return False
    metadata = object_at(subject.document, "metadata")
    return not (metadata.get("uid") or metadata.get("ownerReferences"))


def find_unrecognized_fields(context: LintContext) -> Iterator[Problem]:
    """Find fields that the API does not have in user-authored manifests."""
    for subject in context.subjects:
        for field in find_unknown_fields(subject.document) if is_user_authored(subject) else ():
            advice = field.advice
            yield subject.build_problem(field.path, str(field), advice[:1].upper() + advice[1:], field.suggested_name)


def _rename_field(problem: Problem) -> FieldEdit | None:
    """Return the edit that renames a field whose name differs only in case or in a plural s, or None."""
    suggested, name = problem.replacement, str(problem.path[-1])
    if not suggested or suggested.lower().removesuffix("s") != name.lower().removesuffix("s"):
        return None
    parent = object_at(problem.subject.document, *problem.path[:-1])
    return RenameField(problem.path, suggested) if suggested not in parent else None


API_UNKNOWN_FIELD = Rule(
    "api-unknown-field",
    ERROR,
    find_unrecognized_fields,
    summary="An unknown field: misspelt, or in the wrong place",
    why="kubectl apply refuses it; where strict validation is off, it is silently dropped.",
    fix="Correct the name, or remove the field",
    source="https://kubernetes.io/docs/reference/using-api/api-concepts/#setting-the-field-validation-level",
    safe_fix=_rename_field,
)


def find_too_new_fields_and_versions(context: LintContext) -> Iterator[Problem]:
    """Find API versions and fields that the linted version does not serve yet, or only behind a feature gate."""
    for subject, version in _iter_expiring_versions(context):
        if absence := _describe_absence(version, subject.kind, context):
            yield _build_version_problem(subject, f"{version.name} {absence}", context.gates.minor)
    for subject in context.subjects:
        for kind, at, part in _iter_typed_parts(subject):
            for path, field in iter_unread_fields(kind, part, context.gates):
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
    """Describe why the linted version does not serve an API version yet.

    Return "" if it serves the version or if that is unknown.
    """
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
    """Build the problem that an API version is deprecated or gone, with the release and the replacement."""
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
    """Yield kind, path and fields of an object, and of the pod or claim that the object is a template for.

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
