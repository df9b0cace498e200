"""PodTopologySpread: the pods and nodes that change how a pod's constraints count.

Upstream: plugins/podtopologyspread/plugin.go (v1.36: EventsToRegister).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework.events import ChangedObject
from kschedctl.scheduler.plugins.helper.placed_pods import frees_room
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import SpreadConstraint
from kschedctl.snapshot.fork import same_pod
from kschedctl.snapshot.pod_info import PodInfo

COUNTS_PROMISED = ByVersion(
    "whether pods that are only promised a node count for PodTopologySpread's hint", (("", False), ("1.36", True))
)
COUNTS_ITSELF = ByVersion(
    "whether the pod that waits counts for PodTopologySpread's hint itself", (("", False), ("1.32", True))
)


def after_pod_change(
    info: PodInfo, change: ChangedObject, constraints: Sequence[SpreadConstraint], promised: bool, itself: bool
) -> bool:
    """A pod of the same namespace that comes to be counted, or no longer is; or a toleration of the pod's own.

    ``promised``: as of COUNTS_PROMISED; ``itself``: as of COUNTS_ITSELF.
    """
    old, new = change.old, change.new
    if any(pod is not None and not _involved(pod, info.pod, promised, itself) for pod in (old, new)):
        return False
    if old is None or new is None:
        return any(constraint.selector.matches(change.object.metadata.labels) for constraint in constraints)
    tolerates_more = same_pod(new, info.pod) and change.differs("spec", "tolerations")
    if tolerates_more and any(constraint.honor_taints for constraint in constraints):
        return True
    before, after = old.metadata.labels, new.metadata.labels
    return any(constraint.selector.matches(before) != constraint.selector.matches(after) for constraint in constraints)


def after_node_change(change: ChangedObject, constraints: Sequence[SpreadConstraint]) -> bool:
    """A node with all topology keys that comes or goes, or whose topologies or taints change."""
    old, new = ({} if node is None else node.metadata.labels for node in (change.old, change.new))
    if change.old is None or change.new is None:
        return _has_keys(change.object.metadata.labels, constraints)
    if _has_keys(old, constraints) != _has_keys(new, constraints):
        return True
    moved = any(old.get(constraint.topology_key) != new.get(constraint.topology_key) for constraint in constraints)
    return _has_keys(new, constraints) and (moved or change.differs("spec", "taints"))


def _has_keys(labels: Mapping[str, str], constraints: Sequence[SpreadConstraint]) -> bool:
    return all(constraint.topology_key in labels for constraint in constraints)


def _involved(pod: Pod, waiting: Pod, promised: bool, itself: bool) -> bool:
    beside = frees_room(pod, promised) and pod.metadata.namespace == waiting.metadata.namespace
    return (itself and same_pod(pod, waiting)) or beside
