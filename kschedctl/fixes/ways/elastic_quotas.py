"""Fixes for pods that exceed an ElasticQuota of scheduler-plugins: a larger quota."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kschedctl.api.copying import replace
from kschedctl.api.objects import ElasticQuota
from kschedctl.api.quantity import INT64_MAX
from kschedctl.api.resource_names import format_amount
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.trial_node import NodeRejection, PluginRemedies, TrialNode
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.scheduler_plugins.capacity_scheduling import CapacityScheduling, find_quota_use
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, add_requests
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import KIND, Quota, find_applicable_limits

RAISE_MAX, RAISE_MIN = 35, 50
"""The costs of raising the max and the min of an ElasticQuota."""
QuotaField = Literal["max", "min"]


def iter_elastic_quota_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield the fix that raises the ElasticQuota of the pod's namespace, if there is one.

    If the namespace would exceed the quota's max with the pod, max is raised. Otherwise, min is raised by the amounts
    by which the use of all namespaces would exceed the sum of all mins. Nothing is yielded if neither is exceeded.
    """
    use = find_quota_use(trial_node.cycle.view)
    quota = use.quotas.get(trial_node.trial.pod.metadata.namespace)
    state = trial_node.cycle.pre_filter.find_state(CapacityScheduling)
    if quota is None or state is None:
        return

    # Raise max to what the namespace would use.
    if quota.max_amounts is not None:
        used = add_requests(use.sum_namespace_requests(quota.namespace), state.same_quota)
        limits = find_applicable_limits(state.same_quota, quota.max_amounts, default_limit=INT64_MAX)
        new_max = {name: used[name] for name, limit in limits.items() if used.get(name, 0) > limit}
        if new_max:
            yield _build_quota_raise_fix(quota, "max", new_max, quota.max_amounts)
            return

    # Raise min by what all namespaces would use beyond the sum of all mins.
    used = add_requests(use.sum_all_requests(), state.all_quotas)
    min_sum = add_requests(*(quota.min_amounts for quota in use.quotas.values()))
    limits = find_applicable_limits(used, min_sum, default_limit=0)
    new_min = {
        name: quota.min_amounts.get(name, 0) + used[name] - limit
        for name, limit in limits.items()
        if used.get(name, 0) > limit
    }
    if new_min:
        yield _build_quota_raise_fix(quota, "min", new_min, quota.min_amounts)


def _build_quota_raise_fix(quota: Quota, field: QuotaField, new_amounts: Requests, old_amounts: Requests) -> Fix:
    """Build the fix that raises amounts in the ElasticQuota's `field`, max or min, from the old to the new amounts.

    A higher min gives up a guarantee, because the quotas then guarantee more in total.
    """
    key = ObjectKey(KIND, quota.namespace, quota.name)
    amounts = {name: _format_exactly(name, amount) for name, amount in new_amounts.items()}

    def change(current: ElasticQuota) -> ElasticQuota:
        """Return the quota with the raised amounts."""
        raised = {**(getattr(current.spec, field) or {}), **amounts}
        return replace(current, spec=replace(current.spec, **{field: raised}))

    changes_text = ", ".join(
        f"{name} {amounts[name]} instead of {_format_exactly(name, old_amounts.get(name, 0))}" for name in amounts
    )
    return Fix(
        kind=FixKind.RAISE_QUOTA_MAX if field == "max" else FixKind.RAISE_QUOTA_MIN,
        target=(key, *sorted(amounts.items())),
        text=f"raise the {field} of ElasticQuota {quota.namespace}/{quota.name}: {changes_text}",
        by="operator",
        edits=(ObjectEdit(key, change),),
        cost=RAISE_MAX if field == "max" else RAISE_MIN,
        weakens="" if field == "max" else "the ElasticQuotas guarantee more in total",
        commands=(kubectl.render_patch(key, {"spec": {field: amounts}}),),
    )


def _format_exactly(name: str, amount: int) -> str:
    """Format an amount in its usual unit, or as a plain number if the unit would need decimals."""
    text = format_amount(name, amount)
    return str(amount) if "." in text else text


REMEDIES = {CapacityScheduling: PluginRemedies((iter_elastic_quota_fixes,))}
