"""The rule about LimitRanges that contradict themselves, each other or a quota, so that nothing can be created.

Upstream: plugin/pkg/admission/limitranger/admission.go; pkg/apis/core/validation, ValidateLimitRange (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kschedctl.admission.resource_quota import COMPUTE_RESOURCES
from kschedctl.api.objects import LimitRange, LimitRangeItem, ResourceQuota
from kschedctl.api.quantity import Quantity
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import parse_valid_quantities
from kschedctl.lint.rule import ERROR, Rule

CONTAINING_TYPES = {
    "Container": ("Container", "Pod"),
    "Pod": ("Pod",),
    "PersistentVolumeClaim": ("PersistentVolumeClaim",),
}
"""Type of an item -> types with maximums that also bound it: a pod's sum is not below its container's amount."""
DEFAULT_FIELDS = {"defaultRequest": "default request", "default": "default limit"}
"""Field with default amounts -> its name in messages."""
QUOTA_PREFIXES = {"defaultRequest": "requests.", "default": "limits."}
"""Field with default amounts -> the prefix of its resources in quotas."""


class _RequiredAmount(NamedTuple):
    """An amount that a LimitRange requires or sets by default."""

    subject: Subject
    item: LimitRangeItem
    field: str
    """The field of the item: min, defaultRequest or default."""
    name: str
    """The name of the resource."""
    amount: Quantity
    quota_resources: frozenset[str]
    """The resources of a quota to which the amount is charged."""


def find_contradictory_limit_ranges(context: LintContext) -> Iterator[Problem]:
    """Find LimitRanges with a minimum or default above a maximum, or above a quota of the namespace.

    If an amount is above both, only the maximum is reported.
    """
    for subject, limit_range in context.list_linted_objects(LimitRange):
        for i, item in enumerate(limit_range.spec.limits):
            for required in _iter_minimum_and_default_amounts(subject, item):
                bound = _describe_lower_maximum(context, required) or _describe_lower_quota(context, required)
                if not bound:
                    continue
                noun = DEFAULT_FIELDS.get(required.field, "minimum")
                message = f"{noun} {required.name} per {item.type} is {required.amount}, {bound}"
                if required.field in DEFAULT_FIELDS:
                    message += ": pods that get the default may be rejected"
                yield subject.build_problem(("spec", "limits", i, required.field, required.name), message)


RQ_LIMIT_RANGE_CONTRADICTS = Rule(
    "rq-limit-range-contradicts",
    ERROR,
    find_contradictory_limit_ranges,
    summary="A LimitRange with a minimum or default above a maximum or quota in its namespace",
    why="Nothing satisfies both limits: the API server rejects every pod or claim that uses the resource or gets the "
    "default.",
    fix="Lower the minimum or default, or raise the maximum or the quota",
    source="plugin/pkg/admission/limitranger/admission.go (v1.36)",
)


def _iter_minimum_and_default_amounts(subject: Subject, item: LimitRangeItem) -> Iterator[_RequiredAmount]:
    """Yield each minimum of a LimitRange item, with the quota resources to which the amount is charged.

    An item for containers also yields its default requests and default limits. A quota on a compute resource, such as
    `cpu`, counts requests as a quota on `requests.cpu` does.
    """
    for name, minimum in parse_valid_quantities(item.min).items():
        quota_resources = {f"requests.{name}"}
        if name in COMPUTE_RESOURCES and item.type != "PersistentVolumeClaim":
            quota_resources.add(name)
        yield _RequiredAmount(subject, item, "min", name, minimum, frozenset(quota_resources))
    if item.type != "Container":
        return
    for field, amounts in (("defaultRequest", item.default_request), ("default", item.default)):
        for name, amount in parse_valid_quantities(amounts).items():
            quota_resources = {f"{QUOTA_PREFIXES[field]}{name}"}
            if name in COMPUTE_RESOURCES and field == "defaultRequest":
                quota_resources.add(name)
            yield _RequiredAmount(subject, item, field, name, amount, frozenset(quota_resources))


def _describe_lower_maximum(context: LintContext, required: _RequiredAmount) -> str:
    """Describe a maximum in the namespace's LimitRanges that is below the amount.

    A default amount is not compared with the maximum of its own item, as the API server rejects such LimitRanges.
    Returns "" if no maximum is below the amount.
    """
    subject, item = required.subject, required.item
    is_default = required.field in DEFAULT_FIELDS
    for other, limit_range in context.list_linted_objects(LimitRange):
        if other is not subject and not context.can_share_namespace(other, subject):
            continue
        for limit in limit_range.spec.limits:
            is_own_maximum = is_default and limit is item
            if is_own_maximum or limit.type not in CONTAINING_TYPES.get(item.type, ()):
                continue
            maximum = parse_valid_quantities(limit.max).get(required.name)
            if maximum is not None and maximum < required.amount:
                per_type = f" per {limit.type}" if limit.type != item.type else ""
                of_other = "" if other is subject else f" in LimitRange {other.name}"
                return f"above the maximum{per_type} of {maximum}{of_other}"
    return ""


def _describe_lower_quota(context: LintContext, required: _RequiredAmount) -> str:
    """Describe a ResourceQuota of the namespace whose total is below the amount.

    Quotas with scopes are ignored. Returns "" if no total is below the amount.
    """
    for other, quota in context.list_linted_objects(ResourceQuota):
        has_scopes = quota.spec.scopes or quota.spec.scope_selector.match_expressions
        if has_scopes or not context.can_share_namespace(other, required.subject):
            continue
        for resource, hard in parse_valid_quantities(quota.spec.hard).items():
            if resource in required.quota_resources and hard < required.amount:
                return f"above the total of {hard} for {resource} in ResourceQuota {other.name}"
    return ""
