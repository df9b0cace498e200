"""Evictions: PodDisruptionBudgets, and pods that terminate beside their replacements.

Upstream: pkg/registry/core/pod/storage/eviction.go; pkg/controller/disruption for the number of healthy pods;
FilterActivePods in pkg/controller/controller_utils.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position, find_positions
from kschedctl.api.objects import Pod, PodDisruptionBudget, PodDisruptionBudgetStatus
from kschedctl.api.ownership import find_controller, find_owner
from kschedctl.api.unhealthy_pods import describe_used_up_budget, explain_strict_budget, list_unhealthy_keys
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.target_pod import find_groups_of_pod
from kschedctl.replay.controllers.workload_change import resolve_share
from kschedctl.scheduler.engine.preemption.budgets import get_budget_key, get_disruption_headroom
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.text.counts import counted, join_first_few

MORE_THAN_ONE = "more than one PodDisruptionBudget selects the pod, which the eviction API does not support"


class Evictions:
    """The PodDisruptionBudgets of a simulation and their remaining disruptions. Pods are positions."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        pdbs = simulation.view.objects.of("PodDisruptionBudget")
        self._budgets = {get_budget_key(pdb): _with_computed_status(pdb, simulation) for pdb in pdbs}
        self._headroom = {name: get_disruption_headroom(pdb) for name, pdb in self._budgets.items()}
        self._unreplaced: dict[Position, None] = {}  # evicted pods whose successors are not healthy

    def find_budgets(self, position: Position) -> tuple[str, ...]:
        """Return the budgets that select a pod, as ``namespace/name``."""
        return self.simulation.budgets.find_selecting_budgets(position)

    def find_denial(self, position: Position) -> str:
        """Return why the Eviction API denies the eviction of a pod, or an empty string if it does not.

        A pod that several budgets select cannot be evicted. Budgets do not apply to a pod that is being deleted or does
        not run yet.
        """
        budgets = self.find_budgets(position)
        if not budgets or self._ignores_budgets(position):
            return ""
        if len(budgets) > 1:
            return f"{MORE_THAN_ONE}: {', '.join(budgets)}"
        reason = self.explain_denial_by_budget(position, budgets[0])
        return f"PodDisruptionBudget {budgets[0]} {reason}" if reason else ""

    def find_exhausted_budgets(self) -> tuple[str, ...]:
        """Return the budgets that allow no disruption now, as ``namespace/name``."""
        return tuple(name for name, headroom in self._headroom.items() if headroom <= 0)

    def explain_denial_by_budget(self, position: Position, name: str) -> str:
        """Return why the budget denies the eviction of a pod, or an empty string if it does not.

        The reason is a verb phrase that follows the name of the budget.
        """
        pdb = self._budgets[name]
        headroom = self._headroom[name]
        desired = pdb.status.desired_healthy
        # The headroom follows the simulated evictions, unlike the status
        healthy = desired + headroom

        # An unhealthy pod may go if enough others are healthy, or always with the policy AlwaysAllow
        may_evict_unhealthy = _always_allows_unhealthy(pdb) or healthy >= desired > 0
        if may_evict_unhealthy and not is_ready(self._get_pod(position)):
            return ""
        if pdb.status.observed_generation < pdb.metadata.generation:
            return "was changed, and its status is not up to date yet"
        if headroom > 0:
            return ""
        if reason := explain_strict_budget(pdb):
            return f"never allows an eviction: {reason}"
        if use_by_evicted_pods := self._describe_evicted_pods(name):
            return use_by_evicted_pods
        needs = f": it needs {counted(desired, 'healthy pod')} and has {healthy:,}" if desired else ""
        use_by_unhealthy_pods = describe_used_up_budget(pdb, self._find_unevicted_pods(name))
        separator = "; " if use_by_unhealthy_pods else ""
        return f"allows no disruption now{needs}{separator}{use_by_unhealthy_pods}"

    def _describe_evicted_pods(self, name: str) -> str:
        """Describe the evicted pods that use up a budget that allowed disruptions at first, or return ""."""
        if get_disruption_headroom(self._budgets[name]) <= 0:
            return ""
        evicted = [self._get_pod(position).key for position in self._unreplaced if name in self.find_budgets(position)]
        if not evicted:
            return ""
        were, have = ("was", "has") if len(evicted) == 1 else ("were", "have")
        return f"is used up by {join_first_few(evicted)}, which {were} evicted earlier and {have} no new node"

    def find_unhealthy_pods(self, position: Position) -> tuple[str, ...]:
        """Return the keys of the unhealthy pods that use up the pod's budgets.

        Budgets that never allow an eviction are left out.
        """
        budgets = self.find_budgets(position)
        budgets = tuple(budget for budget in budgets if not explain_strict_budget(self._budgets[budget]))
        return tuple(key for budget in budgets for key in list_unhealthy_keys(self._find_unevicted_pods(budget)))

    def _find_unevicted_pods(self, budget: str) -> list[Pod]:
        """Return the pods that a budget selects and that are still on their original nodes."""
        view = self.simulation.view
        unmoved = view.node == self.simulation.scheduler.view.node
        selected = self.simulation.budgets.find_selected_pods(budget)[view.pods.info] & unmoved
        positions = (position for position in find_positions(selected) if position not in self.simulation.gone)
        return [view.pods.objects[position] for position in positions]

    def evict(self, position: Position) -> None:
        """Evict a pod: remove it from its node, and record the eviction in its budgets."""
        self.simulation.remove([position])
        self.record_eviction(position)

    def record_eviction(self, position: Position) -> None:
        """Record a pod's eviction in its budgets.

        Nothing is recorded if the pod is unhealthy, or if budgets do not apply to it.
        """
        if not self._ignores_budgets(position) and is_ready(self._get_pod(position)):
            self._charge_budgets(position)
            self._unreplaced[position] = None

    def _charge_budgets(self, position: Position) -> None:
        """Count a pod as evicted in its budgets, which then allow one disruption less."""
        self.simulation.budgets.record_evicted_pods([position])
        self.change_allowed_disruptions([position], by=-1)

    def undo_eviction(self, position: Position, *, recovered: bool) -> None:
        """Undo what was recorded about an eviction that did not happen after all.

        ``recovered`` says whether the recovery of the pod's successor was recorded as well. The eviction itself was
        recorded only if the pod was healthy and budgets apply to it.
        """
        was_recorded = not self._ignores_budgets(position) and is_ready(self._get_pod(position))
        # A recorded eviction and a recorded recovery cancel each other out. If only one was recorded, undo it
        if was_recorded and not recovered:
            self.record_recovery(position)
        elif recovered and not was_recorded:
            self._charge_budgets(position)

    def record_recovery(self, position: Position) -> None:
        """Record that the successor of an evicted pod is healthy.

        This gives back the disruption that the eviction used.
        """
        self.simulation.budgets.record_running_pods([position])
        self.change_allowed_disruptions([position], by=1)
        self._unreplaced.pop(position, None)

    def change_allowed_disruptions(self, positions: Iterable[Position], by: int) -> None:
        """Change the number of allowed disruptions by ``by``, once per pod, for all budgets that select the pod."""
        for position in positions:
            for budget in self.find_budgets(position):
                self._headroom[budget] += by

    def _get_pod(self, position: Position) -> Pod:
        """Return the pod at this position."""
        return self.simulation.view.pods.objects[position]

    def _ignores_budgets(self, position: Position) -> bool:
        """Return whether budgets do not apply to the pod, since it is being deleted or not running yet."""
        pod = self._get_pod(position)
        return pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending"


def _with_computed_status(pdb: PodDisruptionBudget, simulation: Simulation) -> PodDisruptionBudget:
    """Return the budget with the status that the disruption controller would set.

    A budget that has a status, or that limits nothing, is returned unchanged. All selected pods count, except for
    deleted pods without a node. Raises InputError if minAvailable or maxUnavailable is malformed.
    """
    min_available = pdb.spec.min_available
    max_unavailable = pdb.spec.max_unavailable
    if has_status(pdb) or (min_available is None and max_unavailable is None):
        return pdb

    # Count the selected pods and the healthy ones among them, as the controller does
    view = simulation.view
    covered = simulation.budgets.find_selected_pods(get_budget_key(pdb))[view.pods.info]
    leaving = view.pods.terminating[view.pods.info] & ~view.mask_placed()
    pods = [view.pods.objects[position] for position in np.flatnonzero(covered & ~leaving).tolist()]
    healthy = sum(map(is_healthy, pods))
    desired = compute_desired_healthy(pdb, len(pods))
    allowed = max(healthy - desired, 0) if pods else 0
    status = PodDisruptionBudgetStatus(
        current_healthy=healthy,
        desired_healthy=desired,
        disruptions_allowed=allowed,
        observed_generation=pdb.metadata.generation,
    )
    return replace(pdb, status=status)


def has_status(pdb: PodDisruptionBudget) -> bool:
    """Return whether the budget comes from a cluster or has a status, so that its status is not computed."""
    return bool(pdb.metadata.uid) or pdb.status != PodDisruptionBudgetStatus()


def compute_desired_healthy(pdb: PodDisruptionBudget, expected_count: int) -> int:
    """Return how many of the expected pods have to be healthy for the budget.

    Raises InputError if minAvailable or maxUnavailable is malformed.
    """
    try:
        if pdb.spec.max_unavailable is None:
            return resolve_share(pdb.spec.min_available or 0, expected_count, round_up=True)
        return max(expected_count - resolve_share(pdb.spec.max_unavailable, expected_count, round_up=True), 0)
    except InputError as error:
        raise InputError(error.what, where=f"PodDisruptionBudget {get_budget_key(pdb)}") from None


def is_healthy(pod: Pod) -> bool:
    """Return whether budgets count the pod as healthy: it is ready on a node and is not being deleted."""
    return pod.spec.node_name != "" and pod.metadata.deletion_timestamp is None and is_ready(pod)


def is_ready(pod: Pod) -> bool:
    """Return whether the pod is ready. A pod without the condition Ready counts as ready."""
    return all(condition.status == "True" for condition in pod.status.conditions if condition.type == "Ready")


def _always_allows_unhealthy(pdb: PodDisruptionBudget) -> bool:
    """Return whether the budget always allows the eviction of unhealthy pods."""
    return pdb.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"


DELETION_TIME = "2000-01-01T00:00:00Z"
"""A deletion time for evicted pods, of which only the existence matters."""


ObjectNames = frozenset[tuple[str, str]]
"""Namespaces and names of objects."""


def find_jobs_awaiting_termination(cluster: Cluster) -> ObjectNames:
    """Return the namespaces and names of the Jobs that create a replacement only after the old pod is gone."""
    return frozenset(
        (job.metadata.namespace, job.metadata.name)
        for job in cluster.jobs
        if job.spec.pod_replacement_policy == "Failed"
    )


def may_terminate_during_rescheduling(pod: Pod, waiting_jobs: ObjectNames, grace: int | None = None) -> bool:
    """Return whether the pod may still be terminating when its replacement is scheduled.

    The pod is gone by then if it has no grace period, or if its controller, a StatefulSet or one of ``waiting_jobs``,
    waits for its end. ``grace`` is the grace period of the eviction in seconds, or None for the pod's own. Members of
    gangs are excluded, because a gang would count such a pod as an additional member.
    """
    grace_seconds = pod.spec.termination_grace_period_seconds if grace is None else grace
    if grace_seconds == 0 or find_owner(pod).kind == "StatefulSet" or find_groups_of_pod(pod):
        return False
    controller = find_controller(pod.metadata)
    is_of_waiting_job = (
        controller is not None
        and controller.kind == "Job"
        and (pod.metadata.namespace, controller.name) in waiting_jobs
    )
    return not is_of_waiting_job


def build_terminating_pod(pod: Pod, node: str) -> Pod:
    """Return a copy of the pod that is being deleted on a node and has another name and UID."""
    meta = pod.metadata
    name, uid = f"{meta.name}.terminating", f"{meta.uid}.terminating"
    return replace(
        pod,
        metadata=replace(meta, name=name, uid=uid, deletion_timestamp=DELETION_TIME),
        spec=replace(pod.spec, node_name=node),
    )
