"""The rule about LimitRanges that contradict themselves, each other or a quota, so that nothing can be created.

Upstream: plugin/pkg/admission/limitranger/admission.go; pkg/apis/core/validation, ValidateLimitRange (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.admission.resource_quota import COMPUTE_RESOURCES
from kschedctl.api.objects import LimitRange, LimitRangeItem, ResourceQuota
from kschedctl.api.quantity import Quantity
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.amounts import readable
from kschedctl.lint.objects.subject import Problem, Subject

CONTAINING_TYPES = {
    "Container": ("Container", "Pod"),
    "Pod": ("Pod",),
    "PersistentVolumeClaim": ("PersistentVolumeClaim",),
}
"""The types whose maximum also bounds an item of a type: a pod's sum is not below its container's amount."""
DEFAULT_FIELDS = {"defaultRequest": ("default request", "requests."), "default": ("default limit", "limits.")}
"""What messages call the default amounts, and the prefix of their resources in quotas."""


class _RequiredAmount(NamedTuple):
    """An amount that a LimitRange demands or sets by default."""

    subject: Subject
    item: LimitRangeItem
    name: str
    amount: Quantity
    quota_resources: frozenset[str]
    """The resources of a quota that the amount counts for."""


def find_contradictory_limit_ranges(context: LintContext) -> Iterator[Problem]:
    """Find LimitRanges whose minimum or default is above a maximum or a quota of the namespace."""
    for subject, limit_range in context.list_linted(LimitRange):
        for at, item in enumerate(limit_range.spec.limits):
            for field, required in _iter_required_amounts(subject, item):
                why = _describe_lower_maximum(context, required, defaults=field != "min") or _describe_lower_quota(
                    context, required
                )
                if why:
                    what, _ = DEFAULT_FIELDS.get(field, ("minimum", ""))
                    who = ": pods that say none may be refused" if field != "min" else ""
                    message = f"{what} {required.name} per {item.type} is {required.amount}, {why}{who}"
                    yield subject.problem(("spec", "limits", at, field, required.name), message)


RQ_LIMIT_RANGE_CONTRADICTS = Rule(
    "rq-limit-range-contradicts",
    ERROR,
    find_contradictory_limit_ranges,
    summary="A LimitRange whose minimum or default is above a maximum or quota in its namespace",
    why="Nothing satisfies both: admission refuses every pod or claim that uses the resource, or gets the default.",
    fix="Lower the minimum or default, or raise the maximum or the quota",
    source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
)


def _iter_required_amounts(subject: Subject, item: LimitRangeItem) -> Iterator[tuple[str, _RequiredAmount]]:
    """Yield the field and amount of each minimum, and of each default of containers."""
    for name, least in readable(item.min).items():
        plain = {name} & set(COMPUTE_RESOURCES) if item.type != "PersistentVolumeClaim" else set()
        yield "min", _RequiredAmount(subject, item, name, least, frozenset({f"requests.{name}", *plain}))
    for field, amounts in (("defaultRequest", item.default_request), ("default", item.default)):
        for name, amount in readable(amounts).items() if item.type == "Container" else ():
            plain = {name} & set(COMPUTE_RESOURCES) if field == "defaultRequest" else set()
            yield (
                field,
                _RequiredAmount(subject, item, name, amount, frozenset({f"{DEFAULT_FIELDS[field][1]}{name}", *plain})),
            )


def _describe_lower_maximum(context: LintContext, required: _RequiredAmount, *, defaults: bool) -> str:
    """Return which LimitRange of the namespace has a maximum below the amount, or "".

    Pass ``defaults`` for default amounts, which the API server itself compares with the maximum of their own item.
    """
    subject, item = required.subject, required.item
    for other, limit_range in context.list_linted(LimitRange):
        if other is not subject and not context.are_in_same_namespace(other, subject):
            continue
        for limit in limit_range.spec.limits:
            most = readable(limit.max).get(required.name) if limit.type in CONTAINING_TYPES.get(item.type, ()) else None
            if most is not None and most < required.amount and not (defaults and limit is item):
                whose = "its own maximum" if other is subject else f"the maximum of LimitRange {other.name}"
                per = f" per {limit.type}" if limit.type != item.type else ""
                return f"above {whose}{per}, {most}"
    return ""


def _describe_lower_quota(context: LintContext, required: _RequiredAmount) -> str:
    """Return which quota of the namespace has less than the amount in total, or ""."""
    for other, quota in context.list_linted(ResourceQuota):
        scoped = quota.spec.scopes or quota.spec.scope_selector.match_expressions
        if scoped or not context.are_in_same_namespace(other, required.subject):
            continue
        for resource, hard in readable(quota.spec.hard).items():
            if resource in required.quota_resources and hard < required.amount:
                return f"above what ResourceQuota {other.name} allows in total, {resource} {hard}"
    return ""
