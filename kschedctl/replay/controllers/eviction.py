"""The eviction of pods: PodDisruptionBudgets, Jobs that fail by it, and pods that terminate beside their replacements.

Upstream: pkg/registry/core/pod/storage/eviction.go; pkg/controller/disruption for the number of healthy pods;
exceedsBackoffLimit in pkg/controller/job/job_controller.go; FilterActivePods in pkg/controller/controller_utils.go
(v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position, find_positions
from kschedctl.api.objects import Pod, PodDisruptionBudget, PodDisruptionBudgetStatus, StoredJob
from kschedctl.api.ownership import find_controller, find_owner
from kschedctl.api.unhealthy_pods import describe_unhealthy, list_unhealthy_keys
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.target_pod import find_groups
from kschedctl.replay.controllers.workload_change import resolve_share
from kschedctl.scheduler.engine.preemption.budgets import key_of, spare
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.indexes import ClusterObjects
from kschedctl.text.counts import counted

MORE_THAN_ONE = "more than one PodDisruptionBudget selects it, which evictions do not support"


class Evictions:
    """The budgets of a simulation, and how many healthy pods each has. Pods are positions."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        pdbs = simulation.view.objects.of("PodDisruptionBudget")
        self._budgets = {key_of(pdb): _with_status(pdb, simulation) for pdb in pdbs}
        self._spare = {name: spare(pdb) for name, pdb in self._budgets.items()}

    def budgets_of(self, position: Position) -> tuple[str, ...]:
        """The budgets that select a pod, as ``namespace/name``."""
        return self.simulation.budgets.selecting(position)

    def refusal(self, position: Position) -> str:
        """Why a pod may not be evicted, empty if it may."""
        budgets = () if self._is_free(position) else self.budgets_of(position)
        if len(budgets) > 1:
            return f"{MORE_THAN_ONE}: {', '.join(budgets)}"
        if not budgets:
            return ""
        pdb, spare = self._budgets[budgets[0]], self._spare[budgets[0]]
        desired = pdb.status.desired_healthy
        healthy = desired + spare
        if not _ready(self._pod(position)) and (_always(pdb) or healthy >= desired > 0):
            return ""
        if pdb.status.observed_generation < pdb.metadata.generation:
            return f"PodDisruptionBudget {budgets[0]} was changed, and its status does not tell of that yet"
        if spare > 0:
            return ""
        needs = f": it needs {counted(desired, 'healthy pod')} and has {healthy:,}" if desired else ""
        unhealthy = describe_unhealthy(self._unevicted_pods(budgets[0]))
        uses_up = f"; {unhealthy}, which uses up the budget" if unhealthy else ""
        return f"PodDisruptionBudget {budgets[0]} allows no disruption now{needs}{uses_up}"

    def unhealthy_pods(self, position: Position) -> tuple[str, ...]:
        """Return the keys of the unhealthy pods that use up the budgets of a pod."""
        budgets = self.budgets_of(position)
        return tuple(key for budget in budgets for key in list_unhealthy_keys(self._unevicted_pods(budget)))

    def _unevicted_pods(self, budget: str) -> list[Pod]:
        """Return the pods that a budget selects and that are still where the cluster has them, so no replacements."""
        view = self.simulation.view
        unmoved = view.node == self.simulation.scheduler.view.node
        selected = self.simulation.budgets.selected(budget)[view.pods.info] & unmoved
        positions = (position for position in find_positions(selected) if position not in self.simulation.gone)
        return [view.pods.objects[position] for position in positions]

    def evict(self, position: Position) -> None:
        """Take a pod off its node."""
        self.simulation.take_down([position])
        self.spend(position)

    def spend(self, position: Position) -> None:
        """Count a pod's eviction for its budgets; what was not healthy does not count."""
        if not self._is_free(position) and _ready(self._pod(position)):
            self.simulation.budgets.gone([position])
            self.count([position], -1)

    def take_back(self, position: Position, *, runs: bool) -> None:
        """The pod was never evicted; ``runs``: its successor counts by now."""
        spent = not self._is_free(position) and _ready(self._pod(position))
        if spent and not runs:
            self.back(position)
        elif runs and not spent:
            self.simulation.budgets.gone([position])
            self.count([position], -1)

    def back(self, position: Position) -> None:
        """A pod's successor runs."""
        self.simulation.budgets.back([position])
        self.count([position], 1)

    def count(self, positions: Iterable[Position], by: int) -> None:
        """Count so many healthy pods more for the budgets of each of these pods."""
        for position in positions:
            for budget in self.budgets_of(position):
                self._spare[budget] += by

    def _pod(self, position: Position) -> Pod:
        return self.simulation.view.pods.objects[position]

    def _is_free(self, position: Position) -> bool:
        """Whether no budget is asked: the pod goes already, or does not run yet."""
        pod = self._pod(position)
        return pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending"


def _with_status(pdb: PodDisruptionBudget, simulation: Simulation) -> PodDisruptionBudget:
    """The budget; one that is new gets the status that the disruption controller would give it.

    Of the workloads that it covers all pods are there, for all that can be seen, but for those that are being deleted
    and have no node. Raises InputError.
    """
    least, most_away = pdb.spec.min_available, pdb.spec.max_unavailable
    if pdb.metadata.uid or pdb.status != PodDisruptionBudgetStatus() or (least is None and most_away is None):
        return pdb
    view = simulation.view
    covered = simulation.budgets.selected(key_of(pdb))[view.pods.info]
    positions = np.flatnonzero(covered & ((view.node >= 0) | ~view.pods.terminating[view.pods.info])).tolist()
    pods = [view.pods.objects[position] for position in positions]
    healthy = sum(pod.spec.node_name != "" and pod.metadata.deletion_timestamp is None and _ready(pod) for pod in pods)
    try:
        away = resolve_share(most_away or 0, len(pods), round_up=True)
        desired = resolve_share(least or 0, len(pods), round_up=True) if most_away is None else max(len(pods) - away, 0)
    except InputError as error:
        raise InputError(error.what, where=f"PodDisruptionBudget {key_of(pdb)}") from None
    allowed = max(healthy - desired, 0) if pods else 0
    observed = pdb.metadata.generation
    return replace(pdb, status=PodDisruptionBudgetStatus(healthy, desired, allowed, observed_generation=observed))


def _ready(pod: Pod) -> bool:
    """Whether a pod is ready by its condition; one whose condition nobody knows counts as ready."""
    return all(c.status == "True" for c in pod.status.conditions if c.type == "Ready")


def _always(pdb: PodDisruptionBudget) -> bool:
    return pdb.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"


DEFAULT_BACKOFF_LIMIT = 6
JOB_WOULD_FAIL = "their Job allows no more failed pods (backoffLimit)"


def is_of_job(pod: Pod) -> bool:
    owner = find_controller(pod.metadata)
    return owner is not None and owner.kind == "Job"


def job_would_fail(pod: Pod, objects: ClusterObjects) -> bool:
    """Whether the pod's Job ends with its eviction; not, where there is no such Job."""
    owner = find_controller(pod.metadata)
    if owner is None or owner.kind != "Job":
        return False
    job: StoredJob | None = objects.named("Job", pod.metadata.namespace, owner.name)
    if job is None:
        return False
    limit = DEFAULT_BACKOFF_LIMIT if job.spec.backoff_limit is None else job.spec.backoff_limit
    return (job.status.failed or 0) >= limit


EVICTED_AT = "2000-01-01T00:00:00Z"
"""Whether a pod is being deleted is asked, not since when."""


Names = frozenset[tuple[str, str]]
"""Namespaces and names of objects."""


def patient_jobs(cluster: Cluster) -> Names:
    """The Jobs that create a pod only when the one before it is gone."""
    return frozenset(
        (job.metadata.namespace, job.metadata.name)
        for job in cluster.jobs
        if job.spec.pod_replacement_policy == "Failed"
    )


def terminates_slowly(pod: Pod, patient: Names, grace: int | None = None) -> bool:
    """Whether a pod may still be there when the one in its place is scheduled.

    ``patient``: Jobs that wait until it is gone. ``grace``: how many seconds the eviction gives it, None for what it
    says itself. Members of gangs are left out, as a gang would count such a pod as one more.
    """
    at_once = (pod.spec.termination_grace_period_seconds if grace is None else grace) == 0
    controller = find_controller(pod.metadata)
    if controller is not None and controller.kind == "Job" and (pod.metadata.namespace, controller.name) in patient:
        return False
    return not (at_once or find_owner(pod).kind == "StatefulSet" or find_groups(pod))


def terminating(pod: Pod, node: str) -> Pod:
    """The pod on a node as it terminates, under a name of its own."""
    meta = pod.metadata
    name, uid = f"{meta.name}.terminating", f"{meta.uid}.terminating"
    return replace(
        pod,
        metadata=replace(meta, name=name, uid=uid, deletion_timestamp=EVICTED_AT),
        spec=replace(pod.spec, node_name=node),
    )
