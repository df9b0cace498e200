"""Drainability rules, which decide whether a pod blocks a node's removal, and the disruptions that PDBs still allow.

Upstream: simulator/drainability/rules/rules.go, utils/drain/drain.go, core/scaledown/pdb/basic.go (1.36). Pods that are
planned to move use up their budgets, even if they stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from kschedctl.api.labels import Selector, selector_from_api
from kschedctl.api.objects import Pod, PodDisruptionBudget, Volume
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions
from kschedctl.autoscaling.cluster_autoscaler.pods import get_controller, is_daemon_set_pod, is_mirror_pod
from kschedctl.cel.library.times import parse_go_duration
from kschedctl.cluster import Cluster

GRACE, EXTRA_GRACE = 30, 30
"""Default grace period of a pod, and how much longer a deleted pod still counts, in seconds."""
CONTROLLER_FIELDS = {
    "ReplicationController": "replication_controllers",
    "ReplicaSet": "replica_sets",
    "Job": "jobs",
    "StatefulSet": "stateful_sets",
    "DaemonSet": "daemon_sets",
}
REPLICATED = frozenset(("ReplicationController", "ReplicaSet", "Job", "StatefulSet"))
WITH_REPLICAS = frozenset(("ReplicationController", "ReplicaSet"))
CONTROLLER_NOT_FOUND, TOO_FEW_REPLICAS = "ControllerNotFound", "MinReplicasReached"
NOT_REPLICATED, SYSTEM_POD, NOT_SAFE = "NotReplicated", "UnmovableKubeSystemPod", "NotSafeToEvictAnnotation"
LOCAL_STORAGE, NOT_ENOUGH_BUDGET = "LocalStorageRequested", "NotEnoughPdb"


class DrainAction(Enum):
    """The fate of a pod that does not block the removal of its node."""

    IGNORED = "left"
    MOVES = "moves"
    AWAITED = "awaited"
    """The node is removed once the pod has ended."""


DrainOutcome = DrainAction | str
"""A pod's fate, or the reason why it blocks the removal."""


@dataclass(eq=False)
class Drainability:
    """The drainability rules applied to one cluster."""

    cluster: Cluster
    options: AutoscalerOptions
    budgets: RemainingBudgets
    now: int
    """Microseconds since 1970."""
    checks_controllers: bool = True
    """True if the controllers of pods are looked up."""
    lifted: set[tuple[str, str]] = field(default_factory=set)
    """Key of a pod and reason why it would block a removal, for obstacles that are treated as removed."""

    def decide_drain_outcome(self, pod: Pod) -> DrainOutcome:
        """Return what happens to a pod when its node is removed, or why the pod blocks the removal.

        Obstacles in ``lifted`` are ignored, but the pod may still have other obstacles.
        """
        if is_mirror_pod(pod) or is_long_terminating(pod, self.now):
            return DrainAction.IGNORED
        controller_problem = self._find_controller_problem(pod)
        if controller_problem and not self._is_obstacle_lifted(pod, controller_problem):
            return controller_problem
        if is_daemon_set_pod(pod):
            return DrainAction.MOVES
        annotations = pod.metadata.annotations
        if annotations.safe_to_evict == "true" or _has_ended_for_good(pod):
            return DrainAction.MOVES
        if annotations.safe_to_evict == "on-completion":
            return DrainAction.AWAITED
        return self._decide_ordinary_pod_outcome(pod)

    def _decide_ordinary_pod_outcome(self, pod: Pod) -> DrainOutcome:
        """Return what happens to a running pod of no DaemonSet, or why it blocks the removal of its node.

        Blocking pods are system pods, pods with local volumes or exhausted PodDisruptionBudgets, and pods that nothing
        recreates.
        """
        obstacles = (reason for reason in self._iter_obstacles(pod) if not self._is_obstacle_lifted(pod, reason))
        return next(obstacles, DrainAction.MOVES)

    def _iter_obstacles(self, pod: Pod) -> Iterator[str]:
        """Yield the reasons why a running pod blocks its node's removal, in upstream's order.

        The pod must not belong to a DaemonSet. With ``--skip-nodes-with-system-pods``, a pod of kube-system that no
        budget selects blocks the removal. If such a pod is older than the timeout for system pods, only a missing
        controller counts.
        """
        options = self.options
        if not self._is_pod_replicated(pod):
            yield NOT_REPLICATED
        is_system_pod = pod.metadata.namespace == "kube-system"
        if options.skip_nodes_with_system_pods and is_system_pod and not self.budgets.find_budget_indexes(pod):
            if self._is_older_than_system_pod_timeout(pod):
                return  # as upstream, where the rule for old system pods overrides the rules below
            yield SYSTEM_POD
        if pod.metadata.annotations.safe_to_evict == "false":
            yield NOT_SAFE
        if options.skip_nodes_with_local_storage and _has_unsafe_local_volume(pod):
            yield LOCAL_STORAGE
        if self.budgets.forbids_eviction(pod):
            yield NOT_ENOUGH_BUDGET

    def _is_obstacle_lifted(self, pod: Pod, reason: str) -> bool:
        """Return whether this obstacle to moving the pod is treated as removed."""
        return (pod.key, reason) in self.lifted

    def _find_controller_problem(self, pod: Pod) -> str:
        """Return why the pod's controller may fail to recreate it, or "" if nothing suggests this.

        A controller has a problem if it does not exist or has fewer replicas than the required minimum. It is checked
        only with ``--skip-nodes-with-custom-controller-pods``.
        """
        controller = get_controller(pod)
        checks_controllers = self.checks_controllers and self.options.skip_nodes_with_custom_controller_pods
        if controller is None or not checks_controllers:
            return ""
        # Only the controllers that upstream can look up are checked.
        if controller.kind not in CONTROLLER_FIELDS or (is_daemon_set_pod(pod) and controller.kind != "DaemonSet"):
            return ""
        if controller.kind == "StatefulSet" and not controller.api_version.startswith("apps/"):
            return ""

        key = pod.metadata.namespace, controller.name
        replicas_by_key = self._desired_replicas[controller.kind]
        if key not in replicas_by_key:
            return CONTROLLER_NOT_FOUND
        replicas = replicas_by_key[key]
        if controller.kind not in WITH_REPLICAS or replicas is None:
            return ""
        return TOO_FEW_REPLICAS if replicas < self.options.min_replica_count else ""

    @cached_property
    def _desired_replicas(self) -> Mapping[str, Mapping[tuple[str, str], int | None]]:
        """The replicas in the spec of each controller, by kind, and then by namespace and name.

        The number is None if the spec states none, or if the kind has no replicas.
        """
        replicas_by_kind = {}
        for kind, field_name in CONTROLLER_FIELDS.items():
            controllers = getattr(self.cluster, field_name)
            replicas_by_kind[kind] = {
                (controller.metadata.namespace, controller.metadata.name): getattr(controller.spec, "replicas", None)
                for controller in controllers
            }
        return replicas_by_kind

    def _is_pod_replicated(self, pod: Pod) -> bool:
        """Return whether a controller recreates the pod.

        With ``--skip-nodes-with-custom-controller-pods``, only the kinds in REPLICATED count.
        """
        controller = get_controller(pod)
        if controller is None:
            return False
        return not self.options.skip_nodes_with_custom_controller_pods or controller.kind in REPLICATED

    def _is_older_than_system_pod_timeout(self, pod: Pod) -> bool:
        """Return whether the pod is older than ``--bsp-disruption-timeout``, which protects system pods."""
        # A pod without a creation time is older than any timeout, as with Go's zero time.
        created = parse_microseconds(pod.metadata.creation_timestamp or "0001-01-01T00:00:00Z")
        timeout = parse_go_duration(self.options.bsp_disruption_timeout, "options.bspDisruptionTimeout")
        return (self.now - created) * 1000 > timeout  # both in nanoseconds


def is_long_terminating(pod: Pod, now: int) -> bool:
    """Return whether the pod was deleted and its grace period ended more than EXTRA_GRACE seconds before ``now``.

    ``now`` is in microseconds since 1970.
    """
    if pod.metadata.deletion_timestamp is None:
        return False
    grace = pod.spec.termination_grace_period_seconds
    if grace is None:
        grace = GRACE
    deadline = parse_microseconds(pod.metadata.deletion_timestamp) + (grace + EXTRA_GRACE) * 10**6
    return deadline < now


def _has_ended_for_good(pod: Pod) -> bool:
    """Return whether the pod has failed, or has succeeded and will not be restarted."""
    if pod.status.phase == "Failed":
        return True
    return pod.status.phase == "Succeeded" and pod.spec.restart_policy in ("Never", "OnFailure")


def _has_unsafe_local_volume(pod: Pod) -> bool:
    """Return whether the pod has a local volume that no annotation declares safe to lose."""
    safe = pod.metadata.annotations.safe_local_volumes.split(",")
    return any(_is_on_node_disk(volume) and volume.name not in safe for volume in pod.spec.volumes)


def _is_on_node_disk(volume: Volume) -> bool:
    """Return whether the volume is a hostPath or an emptyDir on the node's disk."""
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium != "Memory"
    return volume.host_path is not None or on_disk


@dataclass(frozen=True)
class DrainPlan:
    """The pods that move or are awaited when their node is removed."""

    pods: tuple[Pod, ...] = ()
    """Pods that move to other nodes."""
    awaited: tuple[Pod, ...] = ()
    """Pods whose end the removal waits for."""
    blocking: tuple[Pod, str] | None = None
    """The first pod that blocks the removal, and the reason."""


def build_drain_plan(pods: Iterable[Pod], rules: Drainability) -> DrainPlan:
    """Divide a node's pods into pods that move and pods to wait for. Stop at a pod that blocks the removal.

    The plan names the pod that blocks the removal, and the reason. Ignored pods and pods of DaemonSets are left out,
    because they do not move.
    """
    moving: list[Pod] = []
    awaited: list[Pod] = []
    for pod in pods:
        outcome = rules.decide_drain_outcome(pod)
        if isinstance(outcome, str):
            return DrainPlan(tuple(moving), tuple(awaited), blocking=(pod, outcome))
        if outcome is DrainAction.AWAITED:
            awaited.append(pod)
        elif outcome is DrainAction.MOVES and not is_daemon_set_pod(pod):
            moving.append(pod)
    return DrainPlan(tuple(moving), tuple(awaited))


class RemainingBudgets:
    """PodDisruptionBudgets in list order, with the number of disruptions that each still allows."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: list[tuple[str, Selector]] = []
        self.remaining: list[int] = []
        for budget in budgets:
            self._budgets.append((budget.metadata.namespace, selector_from_api(budget.spec.selector)))
            self.remaining.append(budget.status.disruptions_allowed)

    def find_budget_indexes(self, pod: Pod) -> list[int]:
        """Return the indexes of the budgets in the pod's namespace that select the pod."""
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        return [
            index
            for index, (budget_namespace, selects) in enumerate(self._budgets)
            if budget_namespace == namespace and selects.matches(labels)
        ]

    def forbids_eviction(self, pod: Pod) -> bool:
        """Return whether a budget that selects the pod is used up."""
        return any(self.remaining[index] < 1 for index in self.find_budget_indexes(pod))

    def can_evict_simultaneously(self, pods: Sequence[Pod]) -> bool:
        """Return whether the budgets allow evicting all these pods at the same time."""
        eviction_counts = [0] * len(self.remaining)  # by budget
        for pod in pods:
            for index in self.find_budget_indexes(pod):
                eviction_counts[index] += 1
        # A budget may be overdrawn already, which does not matter if none of the pods uses it
        return all(count <= allowed for count, allowed in zip(eviction_counts, self.remaining, strict=True) if count)

    def charge_evictions(self, pods: Iterable[Pod]) -> None:
        """Charge the eviction of these pods to their budgets."""
        for pod in pods:
            for index in self.find_budget_indexes(pod):
                self.remaining[index] -= 1
