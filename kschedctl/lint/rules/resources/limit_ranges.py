"""LimitRanges that leave nothing that could be created: at odds with themselves, with others or with a quota.

Upstream: plugin/pkg/admission/limitranger/admission.go; pkg/apis/core/validation, ValidateLimitRange (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.admission.resource_quota import COMPUTE
from kschedctl.api.objects import LimitRange, LimitRangeItem, ResourceQuota
from kschedctl.api.quantity import Quantity
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.amounts import readable
from kschedctl.lint.objects.subject import Problem, Subject


def contradictions(context: LintContext) -> Iterator[Problem]:
    for subject, limit_range in context.linted(LimitRange):
        for at, item in enumerate(limit_range.spec.limits):
            for name, least in readable(item.min).items():
                why = _against_maximum(context, subject, item, name, least) or _against_quota(
                    context, subject, item, name, least
                )
                if why:
                    message = f"minimum {name} per {item.type} is {least}, {why}"
                    yield subject.problem(("spec", "limits", at, "min", name), message)


def _against_maximum(context: LintContext, subject: Subject, item: LimitRangeItem, name: str, least: Quantity) -> str:
    """The maximum of a LimitRange of the namespace that is below a minimum; empty where none is."""
    for other, limit_range in context.linted(LimitRange):
        if other is not subject and not context.in_one_namespace(other, subject):
            continue
        for limit in limit_range.spec.limits:
            most = readable(limit.max).get(name) if limit.type == item.type else None
            if most is not None and most < least:
                whose = "its own maximum" if other is subject else f"the maximum of LimitRange {other.name}"
                return f"above {whose}, {most}"
    return ""


def _against_quota(context: LintContext, subject: Subject, item: LimitRangeItem, name: str, least: Quantity) -> str:
    """The quota of the namespace that holds less than a minimum; empty where none does."""
    counted = {f"requests.{name}"}
    if item.type != "PersistentVolumeClaim":
        counted |= {name} & set(COMPUTE)
    for other, quota in context.linted(ResourceQuota):
        scoped = quota.spec.scopes or quota.spec.scope_selector.match_expressions
        if scoped or not context.in_one_namespace(other, subject):
            continue
        for resource, hard in readable(quota.spec.hard).items():
            if resource in counted and hard < least:
                return f"above what ResourceQuota {other.name} allows in total, {resource} {hard}"
    return ""


RULES = (
    Rule(
        "rq-limit-range-contradicts",
        ERROR,
        contradictions,
        summary="A LimitRange whose minimum is above a maximum or quota in its namespace",
        why="Nothing satisfies both: admission refuses every pod or claim that uses the resource.",
        fix="Lower the minimum, or raise the maximum or the quota",
        source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
    ),
)
