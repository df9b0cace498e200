"""Whether a pod keeps its node, moves or is left alone when the node is taken away: the first rule that says so.

Upstream: simulator/drainability/rules/rules.go, utils/drain/drain.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from kschedctl.api.objects import Pod, Volume
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.disruption_budgets import RemainingBudgets
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions
from kschedctl.autoscaling.cluster_autoscaler.pods import controller_of, is_daemon_set_pod, is_mirror
from kschedctl.autoscaling.durations import nanoseconds
from kschedctl.cluster import Cluster

GRACE, EXTRA_GRACE = 30, 30
"""Seconds: of a pod that names none, and after which one that is deleted still counts."""
LISTED = {
    "ReplicationController": "replication_controllers",
    "ReplicaSet": "replica_sets",
    "Job": "jobs",
    "StatefulSet": "stateful_sets",
    "DaemonSet": "daemon_sets",
}
REPLICATED = frozenset(("ReplicationController", "ReplicaSet", "Job", "StatefulSet"))
WITH_REPLICAS = frozenset(("ReplicationController", "ReplicaSet"))


class Fate(Enum):
    """``LEFT``: it neither moves nor blocks; ``AWAITED``: the node goes once the pod has ended."""

    LEFT = "left"
    MOVES = "moves"
    AWAITED = "awaited"


Outcome = Fate | str
"""A text is the reason why the pod blocks."""
CONTROLLER_NOT_FOUND, TOO_FEW_REPLICAS = "ControllerNotFound", "MinReplicasReached"
NOT_REPLICATED, SYSTEM_POD, NOT_SAFE = "NotReplicated", "UnmovableKubeSystemPod", "NotSafeToEvictAnnotation"
LOCAL_STORAGE, NOT_ENOUGH_BUDGET = "LocalStorageRequested", "NotEnoughPdb"


@dataclass(eq=False)
class Drainability:
    """``controllers``: whether those of pods are looked up; ``now``: microseconds; ``freed``: pods that may go."""

    cluster: Cluster
    options: AutoscalerOptions
    budgets: RemainingBudgets
    now: int
    controllers: bool = True
    freed: set[str] = field(default_factory=set)

    def outcome(self, pod: Pod) -> Outcome:
        """What becomes of a pod when its node goes."""
        if is_mirror(pod) or is_long_terminating(pod, self.now):
            return Fate.LEFT
        if pod.key not in self.freed and (blocked := self._without_controller(pod)):
            return blocked
        if pod.key in self.freed or is_daemon_set_pod(pod):
            return Fate.MOVES
        annotations = pod.metadata.annotations
        if annotations.safe_to_evict == "true" or _is_over(pod):
            return Fate.MOVES
        if annotations.safe_to_evict == "on-completion":
            return Fate.AWAITED
        return self._may_move(pod)

    def _may_move(self, pod: Pod) -> Outcome:
        options = self.options
        if not self._is_replicated(pod):
            return NOT_REPLICATED
        if options.skip_nodes_with_system_pods and pod.metadata.namespace == "kube-system" and not self.budgets.of(pod):
            return Fate.MOVES if self._is_old(pod) else SYSTEM_POD
        if pod.metadata.annotations.safe_to_evict == "false":
            return NOT_SAFE
        if options.skip_nodes_with_local_storage and _keeps_data(pod):
            return LOCAL_STORAGE
        return NOT_ENOUGH_BUDGET if self.budgets.forbid(pod) else Fate.MOVES

    def _without_controller(self, pod: Pod) -> str:
        """Why a pod may not come back; empty where it does, or nobody looks."""
        controller = controller_of(pod)
        if not (self.controllers and self.options.skip_nodes_with_custom_controller_pods and controller):
            return ""
        if controller.kind not in LISTED or (is_daemon_set_pod(pod) and controller.kind != "DaemonSet"):
            return ""
        if controller.kind == "StatefulSet" and not controller.api_version.startswith("apps/"):
            return ""
        key = pod.metadata.namespace, controller.name
        known = self._replicas[controller.kind]
        if key not in known:
            return CONTROLLER_NOT_FOUND
        replicas = known[key]
        few = controller.kind in WITH_REPLICAS and replicas is not None and replicas < self.options.min_replica_count
        return TOO_FEW_REPLICAS if few else ""

    @cached_property
    def _replicas(self) -> Mapping[str, Mapping[tuple[str, str], int | None]]:
        """Kind -> (namespace, name) -> how many pods are wanted, where it says so."""
        return {
            kind: {
                (obj.metadata.namespace, obj.metadata.name): getattr(obj.spec, "replicas", None)
                for obj in getattr(self.cluster, field)
            }
            for kind, field in LISTED.items()
        }

    def _is_replicated(self, pod: Pod) -> bool:
        controller = controller_of(pod)
        if controller is None:
            return False
        return not self.options.skip_nodes_with_custom_controller_pods or controller.kind in REPLICATED

    def _is_old(self, pod: Pod) -> bool:
        created = parse_microseconds(pod.metadata.creation_timestamp or "0001-01-01T00:00:00Z")
        timeout = nanoseconds(self.options.bsp_disruption_timeout, "options.bspDisruptionTimeout")
        return (self.now - created) * 1000 > timeout


def is_long_terminating(pod: Pod, now: int) -> bool:
    """Whether a pod should be gone since long."""
    if pod.metadata.deletion_timestamp is None:
        return False
    grace = pod.spec.termination_grace_period_seconds
    over = (
        parse_microseconds(pod.metadata.deletion_timestamp)
        + ((GRACE if grace is None else grace) + EXTRA_GRACE) * 10**6
    )
    return over < now


def _is_over(pod: Pod) -> bool:
    phase, policy = pod.status.phase, pod.spec.restart_policy
    if policy == "Never" and phase in ("Succeeded", "Failed"):
        return True
    return phase == "Failed" or (policy == "OnFailure" and phase == "Succeeded")


def _keeps_data(pod: Pod) -> bool:
    """Whether a volume lives on the node, and is not said to be safe to lose."""
    safe = pod.metadata.annotations.safe_local_volumes.split(",")
    return any(_is_local(volume) and volume.name not in safe for volume in pod.spec.volumes)


def _is_local(volume: Volume) -> bool:
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium != "Memory"
    return volume.host_path is not None or on_disk


@dataclass(frozen=True)
class Moves:
    """What the pods of a node do when it goes; ``blocking``: the first that keeps it, and why."""

    pods: tuple[Pod, ...] = ()
    awaited: tuple[Pod, ...] = ()
    blocking: tuple[Pod, str] | None = None


def moves(pods: Iterable[Pod], rules: Drainability) -> Moves:
    """What becomes of the pods of a node, in order up to one that keeps it."""
    moving: list[Pod] = []
    awaited: list[Pod] = []
    for pod in pods:
        outcome = rules.outcome(pod)
        if isinstance(outcome, str):
            return Moves(tuple(moving), tuple(awaited), (pod, outcome))
        if outcome is Fate.AWAITED:
            awaited.append(pod)
        elif outcome is Fate.MOVES and not is_daemon_set_pod(pod):
            moving.append(pod)
    return Moves(tuple(moving), tuple(awaited))
