"""Whatever else the API server refuses in pods, in what makes them and in what decides where they go, in its words."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.field_errors import FieldError
from kschedctl.api.json_values import object_at
from kschedctl.api.objects import Struct
from kschedctl.api.validation import around_pods, manifests
from kschedctl.api.validation.unknown_fields import KARPENTER_KINDS, find_unknown_fields
from kschedctl.cluster import without_nulls
from kschedctl.lint.fixes.safe_fixes import correct_word, rename_field
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, Rule, each_workload
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import InvalidFieldError, typed_at
from kschedctl.lint.rules.affinity.fields import weight_range
from kschedctl.lint.rules.disruption.budgets import no_policy
from kschedctl.lint.rules.priority.classes import system_prefix, value_over_1e9
from kschedctl.lint.rules.resources.amounts import unknown_resource
from kschedctl.lint.rules.spread.constraints import label_keys_invalid, min_domains_soft, selector_invalid
from kschedctl.lint.rules.taints import seconds_on_no_schedule

EXPLAINED_ELSEWHERE = (
    each_workload(weight_range),
    no_policy,
    system_prefix,
    value_over_1e9,
    each_workload(unknown_resource),
    label_keys_invalid,
    min_domains_soft,
    selector_invalid,
    each_workload(seconds_on_no_schedule),
)
"""The checks of rules that explain a part of what the API server refuses."""
_WITH_DEFAULT_SELECTOR = ("extensions/v1beta1", "apps/v1beta1")
"""Versions, gone by now, that took the labels of the template for a selector."""
_SELECTOR, _LABELS = ("spec", "selector"), ("spec", "template", "metadata", "labels")


def refused(context: LintContext) -> Iterator[Problem]:
    """The first fault of each field that no other rule explains."""
    explained = {(p.subject, p.path) for check in EXPLAINED_ELSEWHERE for p in check(context)}
    invalid = {problem.subject for problem in context.invalid}
    for subject in context.subjects:
        for problem in _problems(subject, context) if subject not in invalid else ():
            if (subject, problem.path) not in explained:
                explained.add((subject, problem.path))
                yield problem


def _problems(subject: Subject, context: LintContext) -> Iterator[Problem]:
    """The faults of a manifest that somebody wrote; where a field is of the wrong type, that one alone."""
    structs = {**manifests.KINDS, **around_pods.KINDS}
    if subject.kind not in structs or not is_written(subject):
        return
    try:
        manifest = typed_at((), without_nulls(subject.document), structs[subject.kind])
    except InvalidFieldError as wrong:
        yield subject.problem(wrong.path, str(wrong))
        return
    errors = _errors(subject.kind, manifest, context)
    faulty = {error.field for error in errors}
    aside: set[Path] = {_LABELS} if _SELECTOR in faulty else set()  # what is missing matches nothing: one fault
    if subject.api_version in _WITH_DEFAULT_SELECTOR:
        aside = {_SELECTOR, _LABELS}
    yield from (subject.problem(error.field, str(error)) for error in errors if error.field not in aside)


def _errors(kind: str, manifest: Struct, context: LintContext) -> list[FieldError]:
    if kind in around_pods.KINDS:
        return around_pods.validate_object(kind, manifest)
    return manifests.validate_manifest(kind, manifest, context.validation_options)


def is_written(subject: Subject) -> bool:
    """Whether somebody wrote an object of Kubernetes or Karpenter: no controller made it, no API server printed it.

    What should make pods and has no spec at all is what somebody waits for, or removes, and never applies.
    """
    makes_pods = subject.kind in manifests.KINDS and subject.kind != "PodTemplate"
    if makes_pods and "spec" not in subject.document:
        return False
    metadata = object_at(subject.document, "metadata")
    foreign = is_custom_api(subject.api_version) and subject.kind not in KARPENTER_KINDS
    return not (metadata.get("uid") or metadata.get("ownerReferences") or foreign)


def unknown(context: LintContext) -> Iterator[Problem]:
    for subject in context.subjects:
        for field in find_unknown_fields(subject.document) if is_written(subject) else ():
            advice = field.advice
            yield subject.problem(field.path, f"{field}", advice[:1].upper() + advice[1:])


RULES = (
    Rule(
        "api-refused",
        ERROR,
        refused,
        summary="A pod, pod template, budget, class or claim that the API server refuses",
        why="It is not created at all. simulate, explain and capacity refuse it in the same words.",
        fix="Correct the field",
        source=f"{doc.VALIDATION}; pkg/apis/{{apps,batch,policy,scheduling,storage,autoscaling}}/validation (v1.36)",
        safe_fix=correct_word,
    ),
    Rule(
        "api-unknown-field",
        ERROR,
        unknown,
        summary="An unknown field: misspelt, or in the wrong place",
        why="kubectl apply refuses it; where strict validation is off, it is silently dropped.",
        fix="Correct the name, or remove the field",
        source="https://kubernetes.io/docs/reference/using-api/api-concepts/#setting-the-field-validation-level",
        safe_fix=rename_field,
    ),
)
