"""LimitRanges that leave nothing that could be created: at odds with themselves, with others or with a quota.

Upstream: plugin/pkg/admission/limitranger/admission.go; pkg/apis/core/validation, ValidateLimitRange (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.admission.resource_quota import COMPUTE
from kschedctl.api.objects import LimitRange, LimitRangeItem, ResourceQuota
from kschedctl.api.quantity import Quantity
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, Rule
from kschedctl.lint.objects.amounts import readable
from kschedctl.lint.objects.subject import Problem, Subject

WITHIN = {"Container": ("Container", "Pod"), "Pod": ("Pod",), "PersistentVolumeClaim": ("PersistentVolumeClaim",)}
"""The type of an item -> those whose maximum it cannot be above: the sum of a pod is no less than a container."""
DEFAULTS = {"defaultRequest": ("default request", "requests."), "default": ("default limit", "limits.")}


class _Amount(NamedTuple):
    """An amount of an item of a LimitRange; ``counted``: what quotas that count it call it."""

    subject: Subject
    item: LimitRangeItem
    name: str
    amount: Quantity
    counted: frozenset[str]


def contradictions(context: LintContext) -> Iterator[Problem]:
    for subject, limit_range in context.linted(LimitRange):
        for at, item in enumerate(limit_range.spec.limits):
            for field, found in _amounts(subject, item):
                why = _against_maximum(context, found, defaults=field != "min") or _against_quota(context, found)
                if why:
                    what, _ = DEFAULTS.get(field, ("minimum", ""))
                    who = ": pods that say none may be refused" if field != "min" else ""
                    message = f"{what} {found.name} per {item.type} is {found.amount}, {why}{who}"
                    yield subject.problem(("spec", "limits", at, field, found.name), message)


RQ_LIMIT_RANGE_CONTRADICTS = Rule(
    "rq-limit-range-contradicts",
    ERROR,
    contradictions,
    summary="A LimitRange whose minimum or default is above a maximum or quota in its namespace",
    why="Nothing satisfies both: admission refuses every pod or claim that uses the resource, or gets the default.",
    fix="Lower the minimum or default, or raise the maximum or the quota",
    source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
)


def _amounts(subject: Subject, item: LimitRangeItem) -> Iterator[tuple[str, _Amount]]:
    """The amounts that pods cannot get around, by their fields: minima, and defaults of containers."""
    for name, least in readable(item.min).items():
        plain = {name} & set(COMPUTE) if item.type != "PersistentVolumeClaim" else set()
        yield "min", _Amount(subject, item, name, least, frozenset({f"requests.{name}", *plain}))
    for field, amounts in (("defaultRequest", item.default_request), ("default", item.default)):
        for name, amount in readable(amounts).items() if item.type == "Container" else ():
            plain = {name} & set(COMPUTE) if field == "defaultRequest" else set()
            yield field, _Amount(subject, item, name, amount, frozenset({f"{DEFAULTS[field][1]}{name}", *plain}))


def _against_maximum(context: LintContext, found: _Amount, *, defaults: bool) -> str:
    """The maximum of a LimitRange of the namespace that is below an amount; empty where none is.

    ``defaults``: those above a maximum of their own item are refused when the LimitRange is created.
    """
    subject, item = found.subject, found.item
    for other, limit_range in context.linted(LimitRange):
        if other is not subject and not context.in_one_namespace(other, subject):
            continue
        for limit in limit_range.spec.limits:
            most = readable(limit.max).get(found.name) if limit.type in WITHIN.get(item.type, ()) else None
            if most is not None and most < found.amount and not (defaults and limit is item):
                whose = "its own maximum" if other is subject else f"the maximum of LimitRange {other.name}"
                per = f" per {limit.type}" if limit.type != item.type else ""
                return f"above {whose}{per}, {most}"
    return ""


def _against_quota(context: LintContext, found: _Amount) -> str:
    """The quota of the namespace that holds less than an amount; empty where none does."""
    for other, quota in context.linted(ResourceQuota):
        scoped = quota.spec.scopes or quota.spec.scope_selector.match_expressions
        if scoped or not context.in_one_namespace(other, found.subject):
            continue
        for resource, hard in readable(quota.spec.hard).items():
            if resource in found.counted and hard < found.amount:
                return f"above what ResourceQuota {other.name} allows in total, {resource} {hard}"
    return ""
