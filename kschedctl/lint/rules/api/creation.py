"""Rules about fields and API versions that the API server rejects or ignores on creation, and how to correct them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from kschedctl.api.api_versions import ApiVersion, is_custom_api
from kschedctl.api.field_errors import FieldError, not_supported, required
from kschedctl.api.json_values import JsonObject, drop_nulls, field_at, object_at
from kschedctl.api.kinds import LIFECYCLES, list_expiring_versions
from kschedctl.api.validation import around_pods, manifests
from kschedctl.api.validation.unknown_fields import KARPENTER_KINDS, iter_unknown_fields
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.lint import documentation as doc
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.manifests import is_at_or_around, remove_fields
from kschedctl.lint.objects.subject import Path, Problem, Subject, format_path
from kschedctl.lint.objects.workload import InvalidFieldError, convert_field
from kschedctl.lint.rule import ERROR, WARNING, FieldEdit, RenameField, Rule, SetField, is_pod_count
from kschedctl.lint.rules import taints
from kschedctl.lint.rules.affinity import fields
from kschedctl.lint.rules.disruption import budgets
from kschedctl.lint.rules.priority import classes
from kschedctl.lint.rules.resources import amounts
from kschedctl.lint.rules.spread import constraints
from kschedctl.scheduler.configuration.version_fields import iter_unsupported_fields
from kschedctl.text.counts import capitalize

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
_SUPPORTED = re.compile(r'Unsupported value: "[A-Za-z]+": supported values: (?P<values>[A-Za-z", ]+)')
_WORD = re.compile(r'"([A-Za-z]+)"')
_RESOURCE_FIELDS = ("requests", "limits")
_NODE_POOL_POLICIES = {
    "karpenter.sh/v1": ("WhenEmpty", "WhenEmptyOrUnderutilized"),
    "karpenter.sh/v1beta1": ("WhenEmpty", "WhenUnderutilized"),
}
"""API version -> the values of a NodePool's consolidationPolicy."""
_POD_COUNTS = ("minAvailable", "maxUnavailable", "maxSurge")


def find_invalid_fields(context: LintContext) -> Iterator[Problem]:
    """Find the fields that the API server would reject, each with its first error.

    Fields with amounts may have several errors. Errors that a more specific rule reports are left out. Of an object
    that cannot be decoded, the fields that can be decoded are checked.
    """
    reported = {(problem.subject, problem.path) for rule in _MORE_SPECIFIC_RULES for problem in rule.check(context)}
    messages_by_field: dict[tuple[Subject, Path], set[str]] = {}
    undecodable_paths: dict[Subject, list[Path]] = {}
    for problem in context.invalid:
        undecodable_paths.setdefault(problem.subject, []).append(problem.path)
    for subject in context.subjects:
        validation_errors = _iter_validation_errors(subject, context, undecodable_paths.get(subject, ()))
        for problem in chain(validation_errors, _iter_disruption_errors(subject)):
            field = subject, problem.path
            messages = messages_by_field.setdefault(field, set())
            allows_several_errors = problem.path[-1] in _RESOURCE_FIELDS
            is_new = not messages or (allows_several_errors and problem.message not in messages)
            if field not in reported and is_new:
                messages.add(problem.message)
                yield problem


def _build_value_correction(problem: Problem) -> FieldEdit | None:
    """Build the edit that corrects a word's case or unquotes a pod count. Return None if neither applies.

    The case is corrected only if exactly one supported value differs from the word in nothing but case.
    """
    value = field_at(problem.subject.document, *problem.path)
    if not isinstance(value, str):
        return None
    if problem.path[-1] in _POD_COUNTS and is_pod_count(value):
        return SetField(problem.path, int(value))
    unsupported = _SUPPORTED.search(problem.message)
    if unsupported is None:
        return None
    matches = [word for word in _WORD.findall(unsupported["values"]) if word.lower() == value.lower()]
    return SetField(problem.path, matches[0]) if len(matches) == 1 else None


API_REFUSED = Rule(
    "api-refused",
    ERROR,
    find_invalid_fields,
    summary="A pod, pod template, PodDisruptionBudget, class or claim that the API server rejects",
    why="The API server does not create the object. The commands simulate, explain and capacity report the same error.",
    fix="Correct the field that the message names",
    source=f"{doc.VALIDATION}; pkg/apis/{{apps,batch,policy,scheduling,storage,autoscaling}}/validation (v1.36)",
    safe_fix=_build_value_correction,
)


def _iter_validation_errors(
    subject: Subject, context: LintContext, undecodable_paths: Sequence[Path]
) -> Iterator[Problem]:
    """Yield the validation errors of a user-authored manifest.

    The fields at `undecodable_paths` are ignored. If the rest still cannot be decoded, only the first faulty field is
    yielded. Errors that follow from a default or from another error are left out.
    """
    structs = {**manifests.KINDS, **around_pods.KINDS}
    if subject.kind not in structs or not is_user_authored(subject):
        return
    document = remove_fields(subject.document, undecodable_paths)
    if document is None:
        return
    try:
        manifest = convert_field((), drop_nulls(document), structs[subject.kind])
    except InvalidFieldError as invalid_field:
        if not undecodable_paths:
            yield subject.build_problem(invalid_field.path, str(invalid_field), invalid_field.fix)
        return
    if subject.kind in around_pods.KINDS:
        errors = around_pods.validate_object(subject.kind, manifest)
    else:
        errors = manifests.validate_manifest(subject.kind, manifest, context.validation_options)

    # Leave out the consequences of other errors
    ignored = _find_ignored_paths(subject, errors, undecodable_paths)
    for error in errors:
        is_consequence = any(
            is_at_or_around(error.field, path) or error.field[-1] == path[-1] for path in undecodable_paths if path
        )
        if error.field not in ignored and not is_consequence:
            yield subject.build_problem(error.field, str(error), advise_correction(subject, error))


def _find_ignored_paths(subject: Subject, errors: Iterable[FieldError], undecodable_paths: Iterable[Path]) -> set[Path]:
    """Return the paths at which errors are consequences of a default or of another error, possibly none.

    The selector and the template's labels are ignored if the API version sets a default selector, or if a part of
    either could not be decoded. Only the labels are ignored if the selector has an error.
    """
    if subject.api_version in _VERSIONS_WITH_DEFAULT_SELECTOR:
        return {_SELECTOR, _LABELS}
    if any(is_at_or_around(path, part) for path in undecodable_paths for part in (_SELECTOR, _LABELS)):
        return {_SELECTOR, _LABELS}
    if any(error.field == _SELECTOR for error in errors):
        return {_LABELS}  # a missing selector also does not match the labels: the same mistake
    return set()


def _iter_disruption_errors(subject: Subject) -> Iterator[Problem]:
    """Yield the errors in spec.disruption of a user-authored NodePool."""
    if subject.kind == "NodePool" and is_user_authored(subject):
        for error in _validate_disruption(subject):
            yield subject.build_problem(error.field, str(error), advise_correction(subject, error))


def _validate_disruption(subject: Subject) -> Iterator[FieldError]:
    """Yield the errors in spec.disruption of a NodePool. Unknown API versions are not checked.

    Upstream: the CRD of pkg/apis/v1/nodepool.go (v1.6).
    """
    policies = _NODE_POOL_POLICIES.get(subject.api_version)
    disruption = field_at(subject.document, "spec", "disruption")
    if policies is None or not isinstance(disruption, Mapping):
        return
    policy = disruption.get("consolidationPolicy")
    if isinstance(policy, str) and policy not in policies:
        yield not_supported(("spec", "disruption", "consolidationPolicy"), policy, policies)
    if subject.api_version == "karpenter.sh/v1" and disruption.get("consolidateAfter") is None:
        yield required(("spec", "disruption", "consolidateAfter"))


def is_user_authored(subject: Subject) -> bool:
    """Return whether this looks like a manifest that a user wrote for Kubernetes or Karpenter.

    Such a manifest has no uid and no owner. A workload without a spec does not count, because nobody applies it as it
    is: it is a patch or a reference.
    """
    is_workload = subject.kind in manifests.KINDS and subject.kind != "PodTemplate"
    if is_workload and "spec" not in subject.document:
        return False
    if is_custom_api(subject.api_version) and subject.kind not in KARPENTER_KINDS:
        return False
    metadata = object_at(subject.document, "metadata")
    return not (metadata.get("uid") or metadata.get("ownerReferences"))


def find_unrecognized_fields(context: LintContext) -> Iterator[Problem]:
    """Find fields of user-authored manifests that the API does not have."""
    for subject in filter(is_user_authored, context.subjects):
        for field in iter_unknown_fields(subject.document):
            fix = capitalize(field.advice)
            yield subject.build_problem(field.path, str(field), fix, field.suggested_name)


def _build_field_rename(problem: Problem) -> FieldEdit | None:
    """Build the edit that renames an unknown field to the suggested name.

    Returns None if the names differ in more than case or a plural s, or if the object already has the suggested field.
    """
    suggested_name, name = problem.replacement, str(problem.path[-1])
    if not suggested_name or suggested_name.lower().removesuffix("s") != name.lower().removesuffix("s"):
        return None
    parent = object_at(problem.subject.document, *problem.path[:-1])
    if suggested_name in parent:
        return None
    return RenameField(problem.path, suggested_name)


API_UNKNOWN_FIELD = Rule(
    "api-unknown-field",
    ERROR,
    find_unrecognized_fields,
    summary="A misspelled or misplaced field, which the kind does not have",
    why="kubectl apply rejects the object. Without strict validation, the API server silently drops the field.",
    fix="Correct the field's name or place, or remove the field",
    source="https://kubernetes.io/docs/reference/using-api/api-concepts/#setting-the-field-validation-level",
    safe_fix=_build_field_rename,
)


def find_too_new_fields_and_versions(context: LintContext) -> Iterator[Problem]:
    """Find API versions and fields that the linted Kubernetes version does not serve yet.

    Versions and fields behind a feature gate that is off count as not served.
    """
    for subject, version in _iter_objects_with_limited_version(context):
        absence = _describe_why_not_served(version, subject.kind, context)
        if absence:
            yield _build_version_problem(subject, f"{version.name} {absence}", context.gates.minor)
    for subject in context.subjects:
        for kind, part_path, part in _iter_object_and_template(subject):
            for path, field in iter_unsupported_fields(kind, part, context.gates):
                message = f"{format_path(path[1:])} {field.describe_requirement(context.gates)}"
                yield subject.build_problem((*part_path, *path), message)


API_NEEDS_VERSION = Rule(
    "api-needs-version",
    WARNING,
    find_too_new_fields_and_versions,
    summary="A field or API version that this version of Kubernetes does not have",
    why="kubectl rejects a field or kind that the API server does not know. The API server silently drops a field "
    "whose feature gate is off. The version is taken from the cluster, --kube-version or the settings.",
    fix="Remove the field, use another API version, or upgrade Kubernetes first",
    source=f"{doc.FEATURE_GATES}; {doc.API_REMOVALS}",
)


def _describe_why_not_served(version: ApiVersion, kind: str, context: LintContext) -> str:
    """Describe why the linted Kubernetes version does not serve an API version of this kind yet.

    Returns "" if the API version is served, deprecated or removed, or if it is unknown whether it is served.
    """
    minor = context.gates.minor
    if minor < version.since:
        default_clause = "" if version.is_served_by_default else ", where it is off by default"
        return f"needs Kubernetes 1.{version.since}{default_clause}"
    if version.is_served_by_default or version.describe_lifecycle(minor):
        return ""
    if context.gates.overrides and context.gates.overrides.get(version.gate):
        return ""
    default_versions = [served for served in list_expiring_versions(kind) if served.is_served_by_default]
    if any(served.exists_in(minor) for served in default_versions):
        return f"is off by default in 1.{minor}"
    if default_versions:
        first = default_versions[0]
        return f"is off by default in 1.{minor}; from 1.{first.since} on, {kind} is served as {first.name}"
    return ""


def _build_api_version_edit(problem: Problem) -> FieldEdit | None:
    """Build the edit that replaces apiVersion by its successor.

    Returns None if the schemas of the two versions differ, if the meaning of an empty selector would change, or if the
    problem suggests another replacement.
    """
    subject = problem.subject
    version = LIFECYCLES.get((subject.api_version, subject.kind))
    if version is None or (subject.api_version, subject.kind) not in _SAME_SCHEMA:
        return None
    selector = object_at(subject.document, "spec", "selector")
    if subject.kind == "PodDisruptionBudget" and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return None  # an empty selector selects nothing in policy/v1beta1 and everything in policy/v1
    if not problem.replacement or problem.replacement != version.replacement:
        return None
    return SetField(problem.path, problem.replacement)


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
    """Find objects in an API version that the linted version of Kubernetes no longer serves."""
    for subject, version in _iter_objects_with_limited_version(context):
        if version.is_removed_in(context.gates.minor):
            yield _build_lifecycle_problem(subject, version, context.gates.minor)


API_VERSION_REMOVED = Rule(
    "api-version-removed",
    ERROR,
    find_removed_versions,
    summary="An API version that is no longer served",
    why="The API server no longer serves this kind in this version, so the object cannot be created.",
    fix="Use the API version that replaced the removed one",
    source=doc.API_REMOVALS,
    safe_fix=_build_api_version_edit,
)


def find_deprecated_versions(context: LintContext) -> Iterator[Problem]:
    """Find objects whose API version is still served by the linted Kubernetes version but not by a later one."""
    minor = context.gates.minor
    for subject, version in _iter_objects_with_limited_version(context):
        if version.describe_lifecycle(minor) and not version.is_removed_in(minor):
            yield _build_lifecycle_problem(subject, version, minor)


API_VERSION_DEPRECATED = Rule(
    "api-version-deprecated",
    WARNING,
    find_deprecated_versions,
    summary="An API version that will be removed",
    why="A later release of Kubernetes no longer serves this API version.",
    fix="Use the API version that replaces the deprecated one",
    source=doc.API_REMOVALS,
    safe_fix=_build_api_version_edit,
)


def _iter_objects_with_limited_version(context: LintContext) -> Iterator[tuple[Subject, ApiVersion]]:
    """Yield each linted object with an API version that some releases do not serve, and the version's lifecycle."""
    for subject in context.subjects:
        version = LIFECYCLES.get((subject.api_version, subject.kind))
        if version is not None:
            yield subject, version


def _build_lifecycle_problem(subject: Subject, version: ApiVersion, minor: int) -> Problem:
    """Build the problem that an API version is deprecated or removed, with the release and the replacement."""
    successor = f": write {version.replacement}" if version.replacement else ""
    message = f"{version.name} {version.describe_lifecycle(minor)}{successor}"
    return _build_version_problem(subject, message, minor, version.replacement)


def _build_version_problem(subject: Subject, message: str, minor: int, successor: str = "") -> Problem:
    """Build a problem at apiVersion, with advice to write the successor or else the newest served version.

    ``minor`` is the linted Kubernetes version. If it serves no other API version, there is no advice. A version that is
    off by default is only advised, not offered as an automatic replacement.
    """
    lasting_versions = {
        version.name: version
        for version in list_expiring_versions(subject.kind)  # oldest first
        if version.exists_in(minor) and not version.is_deprecated_in(minor)
    }
    # A successor without a lifecycle is served by every Kubernetes version
    is_always_served = (successor, subject.kind) not in LIFECYCLES
    can_use_successor = bool(successor) and (is_always_served or successor in lasting_versions)
    newest_version = list(lasting_versions)[-1] if lasting_versions else ""
    name = successor if can_use_successor else newest_version
    if not name:
        return subject.build_problem(("apiVersion",), message)
    if name in lasting_versions and not lasting_versions[name].is_served_by_default:
        return subject.build_problem(("apiVersion",), message, f"Write apiVersion: {name}, which is off by default")
    return subject.build_problem(("apiVersion",), message, f"Write apiVersion: {name}", replacement=name)


def _iter_object_and_template(subject: Subject) -> Iterator[tuple[str, Path, JsonObject]]:
    """Yield the kind, path and fields of an object and, if it has one, of its pod template or claim template.

    A pod template has the kind Pod, a claim template the kind ResourceClaim. Custom resources yield nothing.
    """
    if is_custom_api(subject.api_version):
        return
    yield subject.kind, (), subject.document
    template_kind = "Pod"
    template_path: Path = POD_TEMPLATE_PATHS.get(subject.kind, ())
    if subject.kind == "ResourceClaimTemplate":
        template_kind = "ResourceClaim"
        template_path = ("spec",)
    template = field_at(subject.document, *template_path)
    if template_path and isinstance(template, Mapping):
        yield template_kind, template_path, template


_UNSUPPORTED_VALUE = re.compile(r'Unsupported value: "([^"]*)": supported values: (.*)')
_QUOTED_WORD = re.compile(r'"([^"]+)"')
_LIMIT = re.compile(r"must be less than or equal to (\S+) limit of (\S+)$")
_MIN_SIMILARITY = 0.6
"""The similarity, from 0 to 1, from which on a supported value may be the intended one."""


def advise_correction(subject: Subject, error: FieldError) -> str:
    """Return advice for the error of a manifest, or "" if nothing more specific than the error can be said.

    There is advice for four kinds of errors: an unsupported value, a selector that does not match the template, a limit
    that is missing or exceeded, and a toleration with a malformed key.
    """
    if unsupported := _UNSUPPORTED_VALUE.match(error.body):
        return _suggest_supported_value(unsupported[1], _QUOTED_WORD.findall(unsupported[2]))
    if error.body.endswith("`selector` does not match template `labels`"):
        return _suggest_template_labels(subject)
    if limit := _LIMIT.search(error.body):
        return f"Request at most {limit[2]} of {limit[1]}, or raise the limit"
    if error.body.endswith("Limit must be set for non overcommitable resources"):
        return "Set a limit that equals the request"
    if error.path[-1:] == ("key",) and "tolerations" in error.path:
        return _render_toleration_advice(field_at(subject.document, *error.field))
    return ""


def _suggest_supported_value(value: str, supported: list[str]) -> str:
    """Suggest the supported value that resembles a value most, or return "" if none is similar."""
    by_lower_case = {word.lower(): word for word in supported}
    similar = difflib.get_close_matches(value.lower(), by_lower_case, 1, _MIN_SIMILARITY)
    return f"Did you mean {by_lower_case[similar[0]]}?" if similar else ""


def _suggest_template_labels(subject: Subject) -> str:
    """Suggest the labels of the selector that the pod template lacks, or return "" if no labels are missing."""
    wanted_labels = object_at(subject.document, "spec", "selector", "matchLabels")
    labels = object_at(subject.document, "spec", "template", "metadata", "labels")
    missing_labels = [f"{key}={value}" for key, value in wanted_labels.items() if labels.get(key) != value]
    if not missing_labels:
        return ""
    noun = "label" if len(missing_labels) == 1 else "labels"
    return f"Give the pod template the {noun} {', '.join(missing_labels)}, or change the selector"


def _render_toleration_advice(key: object) -> str:
    """Return advice that splits a toleration's key of the form KEY=VALUE or KEY=VALUE:EFFECT into separate fields.

    Return "" for a key of another form.
    """
    name, equals, value_and_effect = str(key).partition("=")
    if not (name and equals):
        return ""
    value, _, effect = value_and_effect.partition(":")
    fields: Mapping[str, str] = {"key": name, "value": value, "effect": effect}
    return f"Write {', '.join(f'{field}: {text}' for field, text in fields.items() if text)}"
