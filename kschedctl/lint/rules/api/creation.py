"""Rules about invalid and unknown fields of manifests, with the messages of the API server."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.json_values import field_at, object_at
from kschedctl.api.validation import around_pods, manifests
from kschedctl.api.validation.unknown_fields import KARPENTER_KINDS, find_unknown_fields
from kschedctl.cluster import drop_nulls
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.field_edits import FieldEdit, RenameField, SetField, is_pod_count
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import InvalidFieldError, convert_field
from kschedctl.lint.rules import taints
from kschedctl.lint.rules.affinity import fields
from kschedctl.lint.rules.disruption import budgets
from kschedctl.lint.rules.priority import classes
from kschedctl.lint.rules.resources import amounts
from kschedctl.lint.rules.spread import constraints

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
        for problem in _validate(subject, context) if subject not in undecodable else ():
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


def _validate(subject: Subject, context: LintContext) -> Iterator[Problem]:
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
