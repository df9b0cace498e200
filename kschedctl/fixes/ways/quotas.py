"""Fixes for ElasticQuotas: raise max or min."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from kschedctl.api.objects import ElasticQuota
from kschedctl.api.quantity import INT64_MAX
from kschedctl.api.resource_names import format_amount
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, PluginRemedies, TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.scheduler_plugins.capacity_scheduling import CapacityScheduling, find_quota_use
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, add_requests
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import KIND, Quota, find_applicable_limits

RAISE_MAX, RAISE_MIN = 35, 50
Field = Literal["max", "min"]


def raise_quota(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield the fix that raises the max of the pod's quota, or else its min by what all quotas lack."""
    use = find_quota_use(tried.cycle.view)
    quota = use.quotas.get(tried.trial.pod.metadata.namespace)
    claim = tried.cycle.pre_filter.find_state(CapacityScheduling)
    if quota is None or claim is None:
        return
    used, most = add_requests(use.sum_namespace(quota.namespace), claim.same_quota), quota.max_amounts or {}
    limits = find_applicable_limits(claim.same_quota, most, INT64_MAX) if quota.max_amounts is not None else {}
    over = {name: used[name] for name, limit in limits.items() if used.get(name, 0) > limit}
    if over:
        yield _raise_field(quota, "max", over, most)
        return
    used = add_requests(use.sum_all_namespaces(), claim.all_quotas)
    least = add_requests(*(quota.min_amounts for quota in use.quotas.values()))
    limits = find_applicable_limits(used, least, 0)
    lacking = {name: used[name] - limit for name, limit in limits.items() if used.get(name, 0) > limit}
    if lacking:
        yield _raise_field(
            quota, "min", {name: quota.min_amounts.get(name, 0) + n for name, n in lacking.items()}, quota.min_amounts
        )


def _raise_field(quota: Quota, field: Field, to: Requests, before: Requests) -> Fix:
    """Build the fix that raises a field of the ElasticQuota."""
    key = ObjectKey(KIND, quota.namespace, quota.name)
    amounts = {name: _exact(name, amount) for name, amount in to.items()}

    def change(known: ElasticQuota) -> ElasticQuota:
        raised = {**(getattr(known.spec, field) or {}), **amounts}
        return replace(known, spec=replace(known.spec, **{field: raised}))

    raises = ", ".join(f"{name} {amounts[name]} instead of {_exact(name, before.get(name, 0))}" for name in amounts)
    return Fix(
        FixKind.RAISE_QUOTA_MAX if field == "max" else FixKind.RAISE_QUOTA_MIN,
        (key, *sorted(amounts.items())),
        f"raise the {field} of ElasticQuota {quota.namespace}/{quota.name}: {raises}",
        "operator",
        (ObjectEdit(key, change),),
        RAISE_MAX if field == "max" else RAISE_MIN,
        "" if field == "max" else "all ElasticQuotas together guarantee more",
        (kubectl.render_patch(key, {"spec": {field: amounts}}),),
    )


def _exact(name: str, amount: int) -> str:
    """An amount as people write it, where that is not rounded."""
    text = format_amount(name, amount)
    return str(amount) if "." in text else text


REMEDIES = {CapacityScheduling: PluginRemedies((raise_quota,))}
