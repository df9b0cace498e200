"""Changes that let a drain go on if PodDisruptionBudgets deny the eviction of pods."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.unhealthy_pods import explain_strict_budget
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.scheduler.engine.preemption.budgets import get_budget_key
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.simulation.claim_answers import reads_claims
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, capitalize, first_few, join_first_few

ALLOW_ONE = "Let the budget allow one disruption, for example with maxUnavailable: 1"
RUN_ONE_MORE = "Run one more replica than the budget requires"
REPAIR_PODS = "Repair the pods that are not Ready"
SEPARATE_BUDGETS = "Change the selectors so that only one budget selects each pod"


def choose_budget_fix(evictions: Evictions, positions: Sequence[Position], budgets: Sequence[str]) -> str:
    """Return the advice for pods whose evictions are denied by the same budgets.

    ``positions`` are the pods, and ``budgets`` are named `namespace/name`. One more replica is proposed only if no pod
    of the budget waits for a node already. Besides, a node other than each pod's own must have room for the replica
    now.
    """
    if len(budgets) > 1:
        return SEPARATE_BUDGETS
    [budget] = budgets
    if budget in find_strict_budgets(evictions):
        return ALLOW_ONE

    unhealthy = tuple(dict.fromkeys(key for position in positions for key in evictions.find_unhealthy_pods(position)))
    waiting = find_pods_without_node(evictions.simulation.scheduler.view, unhealthy)
    healing = _describe_healing(unhealthy, waiting)
    if budget not in _find_budgets_with_minimum(evictions):
        return f"{healing or REPAIR_PODS}, or raise the budget's maxUnavailable during the drain"
    if waiting:
        return f"{healing}, or lower the budget's minAvailable during the drain"
    if _can_add_replica_of_each_pod(evictions, positions):
        return f"{healing}, and run one more replica than the budget requires" if healing else RUN_ONE_MORE

    pods = [evictions.simulation.view.pods.objects[position] for position in positions]
    nodes = first_few(sorted({pod.spec.node_name for pod in pods}))
    scale_down = ", or scale the workload to 0," if _count_selected_pods(evictions, budget) == 1 else ""
    lower = f"{healing}, or lower" if healing else "Lower"
    return (
        f"{lower} the budget's minAvailable{scale_down} during the drain. "
        f"One more replica does not help: no node other than {nodes} can take it"
    )


def _describe_healing(unhealthy: Sequence[str], waiting: Sequence[str]) -> str:
    """Describe what would make unhealthy pods count as healthy: a node for those that wait, and repair of the others.

    `waiting` are those of the unhealthy pods that have no node. Return "" if no pod is unhealthy.
    """
    needs = []
    if waiting:
        needs.append(f"get {join_first_few(waiting)} a node")
    if len(waiting) < len(unhealthy):
        unready = [pod for pod in unhealthy if pod not in waiting]
        needs.append(f"repair {join_first_few(unready)}, {agreeing(len(unready), 'which is', 'which are')} not Ready")
    return capitalize(" and ".join(needs))


def find_pods_without_node(view: Fork, keys: Iterable[str]) -> tuple[str, ...]:
    """Return the keys (`namespace/name`) of the pods that have no node in the view, among the given keys."""
    return tuple(key for key in keys if not view.has_node(Position(view.pods.index[key])))


def _count_selected_pods(evictions: Evictions, budget: str) -> int:
    """Return the number of pods that the budget selects."""
    pods = evictions.simulation.view.pods
    return int(np.count_nonzero(evictions.simulation.budgets.find_selected_pods(budget)[pods.info]))


def find_strict_budgets(evictions: Evictions) -> set[str]:
    """Return the budgets that never allow an eviction, even if all their pods are healthy (`namespace/name`)."""
    budgets = evictions.simulation.view.objects.of("PodDisruptionBudget")
    return {get_budget_key(budget) for budget in budgets if explain_strict_budget(budget)}


def _find_budgets_with_minimum(evictions: Evictions) -> set[str]:
    """Return the budgets that need a number of healthy pods whatever the number of replicas (`namespace/name`)."""
    budgets = evictions.simulation.view.objects.of("PodDisruptionBudget")
    return {get_budget_key(budget) for budget in budgets if budget.spec.min_available is not None}


def _can_add_replica_of_each_pod(evictions: Evictions, positions: Sequence[Position]) -> bool:
    """Return whether each pod has another node with room for one more replica, while the pod keeps running."""
    view = evictions.simulation.view
    node_mask_by_info: dict[int, Bools] = {}
    for position in positions:
        info_code = int(view.pods.info[position])  # equal for pods that look the same to the scheduler
        if info_code not in node_mask_by_info:
            node_mask_by_info[info_code] = _mask_nodes_with_room(evictions.simulation, position)
        is_other_node = np.arange(len(view.nodes)) != view.node[position]
        if not (node_mask_by_info[info_code] & is_other_node).any():
            return False
    return True


def _mask_nodes_with_room(simulation: Simulation, position: Position) -> Bools:
    """Return a mask (N,) of the nodes with room for one more pod like this one.

    A replica of a pod with claims gets its own claims. A node then counts unless it is rejected by a filter that does
    not look at claims. For pods that no profile serves, all nodes count.
    """
    node_count = len(simulation.view.nodes)
    if simulation.find_framework(position) is None:
        return np.ones(node_count, np.bool_)
    cycle = simulation.run_cycle(position)
    info = simulation.get_shared_incoming_info(position)
    if not uses_claims(info, simulation.view):
        has_room = np.zeros(node_count, np.bool_)
        has_room[cycle.feasible] = True
        return has_room
    is_rejected = np.zeros(node_count, np.bool_)
    for plugin in cycle.framework.plugins_at("filter"):
        verdict = cycle.filter.verdicts.get(plugin.name)
        if verdict is not None and not reads_claims(plugin, info):
            is_rejected = is_rejected | verdict.rejected
    return ~is_rejected
