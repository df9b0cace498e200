"""What lets a drain go on if PodDisruptionBudgets deny the eviction of pods."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.arrays import Position
from kschedctl.api.unhealthy_pods import explain_strict_budget
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.scheduler.engine.preemption.budgets import get_budget_key
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.text.counts import first_few

ALLOW_ONE = "Let the budget allow one disruption, for example with maxUnavailable: 1"
RUN_ONE_MORE = "Run one more replica than the budget requires, and repair pods that are not Ready, if there are any"
REPAIR_PODS = "Repair the pods that are not Ready, or raise the maxUnavailable of the budget for the time of the drain"
SEPARATE_BUDGETS = "Change the selectors so that only one budget selects each pod"


def choose_budget_fix(evictions: Evictions, positions: Sequence[Position], budgets: Sequence[str]) -> str:
    """Choose the advice for pods at these positions that the same budgets (`namespace/name`) keep from being evicted.

    One more replica is proposed only if a node besides each pod's own has room for it now.
    """
    if len(budgets) > 1:
        return SEPARATE_BUDGETS
    [budget] = budgets
    if budget in find_strict_budgets(evictions):
        return ALLOW_ONE
    if budget not in _find_budgets_with_minimum(evictions):
        return REPAIR_PODS
    if all(_has_room_for_one_more(evictions, position) for position in positions):
        return RUN_ONE_MORE
    pods = [evictions.simulation.view.pods.objects[position] for position in positions]
    nodes = first_few(sorted({pod.spec.node_name for pod in pods}))
    scale_down = ", or scale its workload to 0," if len(pods) == 1 else ""
    unhealthy = any(evictions.find_unhealthy_pods(position) for position in positions)
    lower = "Repair the pods that are not Ready, or lower" if unhealthy else "Lower"
    return (
        f"{lower} the minAvailable of the budget{scale_down} for the time of the drain. "
        f"One more replica does not help: no node other than {nodes} has room for it"
    )


def find_strict_budgets(evictions: Evictions) -> set[str]:
    """Return the budgets that never allow an eviction, even if all their pods are healthy (`namespace/name`)."""
    budgets = evictions.simulation.view.objects.of("PodDisruptionBudget")
    return {get_budget_key(budget) for budget in budgets if explain_strict_budget(budget)}


def _find_budgets_with_minimum(evictions: Evictions) -> set[str]:
    """Return the budgets that need a number of healthy pods whatever the number of replicas (`namespace/name`)."""
    budgets = evictions.simulation.view.objects.of("PodDisruptionBudget")
    return {get_budget_key(budget) for budget in budgets if budget.spec.min_available is not None}


def _has_room_for_one_more(evictions: Evictions, position: Position) -> bool:
    """Return whether another node has room for a replica like the pod, which keeps running.

    Return True for pods with claims, since a new replica has claims of its own, and for pods that no profile serves.
    """
    simulation = evictions.simulation
    is_replayed = simulation.framework(position) is not None
    if not is_replayed or uses_claims(simulation.get_shared_incoming_info(position), simulation.view):
        return True
    own_row = int(simulation.view.node[position])
    return any(row != own_row for row in simulation.run_cycle(position).feasible.tolist())
