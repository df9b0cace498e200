"""Disruption budgets of NodePools, which limit how many nodes may be disrupted now.

Upstream: GetAllowedDisruptionsByReason in pkg/apis/v1/nodepool.go, BuildDisruptionBudgetMapping in
pkg/controllers/disruption/helpers.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

import re
from collections import Counter

from kschedctl.api.karpenter import DisruptionBudget, NodePool
from kschedctl.autoscaling.durations import parse_go_duration
from kschedctl.autoscaling.karpenter.candidates import has_true_condition
from kschedctl.autoscaling.karpenter.events import EventLog
from kschedctl.autoscaling.karpenter.schedules import is_schedule_active
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting
from kschedctl.autoscaling.karpenter.state_nodes import INSTANCE_TERMINATING, StateNode
from kschedctl.errors import InputError

UNLIMITED = 2**31 - 1
_SHARE = re.compile(r"([0-9]{1,9})%")


def build_budget_mapping(setting: KarpenterSetting, reason: str, log: EventLog) -> dict[str, int]:
    """Return how many nodes of each pool may be disrupted for this reason.

    Nodes that are already deleting or are not ready count against the limit.
    """
    counted_nodes = [
        node for node in setting.nodes if node.managed and node.initialized and not _is_instance_terminating(node)
    ]
    nodes = Counter(node.pool for node in counted_nodes)
    disrupting = Counter(node.pool for node in counted_nodes if node.deleting or not _is_ready(node))
    allowed: dict[str, int] = {}
    for pool in setting.cluster.karpenter_node_pools:
        name = pool.metadata.name
        limit = get_allowed_disruptions(pool, nodes[name], reason, setting.now)
        allowed[name] = max(limit - disrupting[name], 0)
        if nodes[name] and not limit:
            log.log_pool_blocked(name, reason)
    return allowed


def get_allowed_disruptions(pool: NodePool, nodes: int, reason: str, now: int) -> int:
    """Return the smallest number that the pool's budgets for a reason allow, or 0 if one cannot be parsed."""
    budgets = pool.spec.disruption.budgets or ()
    try:
        return min(
            (
                _get_budget_limit(budget, nodes, now)
                for budget in budgets
                if not budget.reasons or reason in budget.reasons
            ),
            default=UNLIMITED,
        )
    except InputError:
        return 0


def _get_budget_limit(budget: DisruptionBudget, nodes: int, now: int) -> int:
    """Return how many nodes one budget allows, rounding percentages up. Raises InputError.

    A budget outside its schedule is unlimited.
    """
    if budget.schedule is not None or budget.duration is not None:
        length = parse_go_duration(budget.duration or "0s", "duration")
        if not is_schedule_active(budget.schedule or "", now, length):
            return UNLIMITED
    text = str(budget.nodes)
    if share := _SHARE.fullmatch(text):
        return -(-nodes * int(share[1]) // 100)
    if not text.lstrip("-").isdigit():
        raise InputError(f'"{text[:40]}" is neither a number nor a share', where="nodes")
    return int(text)


def _is_instance_terminating(state: StateNode) -> bool:
    """Return whether the node's instance is being terminated."""
    return state.claim is not None and has_true_condition(state.claim, INSTANCE_TERMINATING)


def _is_ready(state: StateNode) -> bool:
    """Return whether the node's Ready condition is True."""
    conditions = state.node.status.conditions if state.node else ()
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
