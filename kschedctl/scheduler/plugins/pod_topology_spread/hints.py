"""Queueing hints of PodTopologySpread.

Upstream: plugins/podtopologyspread/plugin.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework.events import ChangedObject
from kschedctl.scheduler.plugins.helper.placed_pods import frees_room
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint
from kschedctl.snapshot.fork import is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

COUNTS_NOMINATED = ByVersion(
    "whether pods that are only promised a node count for PodTopologySpread's hint", (("", False), ("1.36", True))
)
COUNTS_ITSELF = ByVersion(
    "whether the pod that waits counts for PodTopologySpread's hint itself", (("", False), ("1.32", True))
)


def is_schedulable_after_pod_change(
    info: PodInfo,
    change: ChangedObject,
    constraints: Sequence[SpreadConstraint],
    *,
    counts_nominated: bool,
    counts_itself: bool,
) -> bool:
    """Return whether a pod starts or stops to count for a constraint, or the pod's own tolerations changed.

    `counts_nominated` and `counts_itself` are the rules COUNTS_NOMINATED and COUNTS_ITSELF of the version.
    """
    old, new = change.old, change.new
    if any(
        pod is not None and not _counts_for_pod(pod, info.pod, counts_nominated, counts_itself) for pod in (old, new)
    ):
        return False
    if old is None or new is None:
        return any(constraint.selector.matches(change.object.metadata.labels) for constraint in constraints)
    own_tolerations_changed = is_same_pod(new, info.pod) and change.differs("spec", "tolerations")
    if own_tolerations_changed and any(constraint.honor_taints for constraint in constraints):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    return any(constraint.selector.matches(before) != constraint.selector.matches(after) for constraint in constraints)


def is_schedulable_after_node_change(change: ChangedObject, constraints: Sequence[SpreadConstraint]) -> bool:
    """Return whether a node with all topology keys is added or deleted, or changes its domains or taints."""
    old, new = ({} if node is None else node.metadata.labels for node in (change.old, change.new))
    if change.old is None or change.new is None:
        return _has_keys(change.object.metadata.labels, constraints)
    if _has_keys(old, constraints) != _has_keys(new, constraints):
        return True
    if not _has_keys(new, constraints):
        return False
    moved = any(old.get(constraint.topology_key) != new.get(constraint.topology_key) for constraint in constraints)
    return moved or change.differs("spec", "taints")


def _has_keys(labels: Mapping[str, str], constraints: Sequence[SpreadConstraint]) -> bool:
    """Return whether the labels include the topology keys of all constraints."""
    return all(constraint.topology_key in labels for constraint in constraints)


def _counts_for_pod(pod: Pod, waiting: Pod, counts_nominated: bool, counts_itself: bool) -> bool:
    """Return whether the changed pod counts for the constraints of the waiting pod."""
    if counts_itself and is_same_pod(pod, waiting):
        return True
    return frees_room(pod, counts_nominated) and pod.metadata.namespace == waiting.metadata.namespace
