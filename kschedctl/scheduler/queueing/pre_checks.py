"""Pre-checks of old scheduler versions: whether an event reaches a pod at all, before its rejectors are asked.

Upstream: preCheckForNode in pkg/scheduler/eventhandlers.go; AssignedPodAdded, AssignedPodUpdated and
getUnschedulablePodsWithCrossTopologyTerm in the queue's scheduling_queue.go (v1.31, v1.32; in v1.30
getUnschedulablePodsWithMatchingAffinityTerm).
"""

from __future__ import annotations

from kschedctl.api import resource_names as names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, Pod
from kschedctl.api.tolerations import find_untolerated
from kschedctl.scheduler.engine.rejectors import Rejectors
from kschedctl.scheduler.event_handling.event_handlers import Occurrence
from kschedctl.scheduler.framework.events import ASSIGNED_POD, NODE, ActionType, ChangedObject
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.snapshot.demands import compute_offer
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

FREEING = (ActionType.DELETE, ActionType.UPDATE_POD_SCALE_DOWN)
"""Changes of pods on nodes that may free room for any other pod."""
RESIZES, UNDER_WAY = "InPlacePodVerticalScaling", "InProgress"


REACHES_SPREAD = ByVersion(
    "whether pods that PodTopologySpread refused are told of pods of their namespace", (("", False), ("1.31", True))
)

WHILE_RESIZED = ByVersion(
    "whether any update of a pod that is being resized counts as one that makes room", (("", True), ("1.31", False))
)


def passes_pre_check(
    info: PodInfo, rejectors: Rejectors, occurrence: Occurrence, view: Fork, gates: FeatureGates
) -> bool:
    """Return whether an event reaches a pod.

    A node event does if the pod could run on the node. An event about another pod does if that pod frees room, or if
    affinity or topology spreading may depend on it.
    """
    (resource, action, _, broad), change = occurrence.event, occurrence.change
    if resource == NODE and change.new is not None:
        return admits_pod(change.new, info, view)
    if resource == ASSIGNED_POD and action not in FREEING and not broad and not _is_being_resized(change, gates):
        spread = PodTopologySpread.name in rejectors.unschedulable and REACHES_SPREAD.at(gates.release)
        return _may_depend_on(change.new, info, view, spread)
    return True


def _is_being_resized(change: ChangedObject, gates: FeatureGates) -> bool:
    """Return whether upstream takes the update for one that frees room, even if the pod grows."""
    update = change.old is not None and change.new is not None and change.new.status.resize == UNDER_WAY
    return update and gates.enabled(RESIZES) and WHILE_RESIZED.at(gates.release)


def is_pod_updated(change: ChangedObject) -> bool:
    """Return whether an update of a waiting pod changes more than its status. Upstream: isPodUpdated."""
    old, new = change.old, change.new
    annotated = change.documents is not None and change.differs("metadata", "annotations")
    claims = old.status.resource_claim_statuses != new.status.resource_claim_statuses
    return bool(old.metadata.labels != new.metadata.labels or annotated or claims or old.spec != new.spec)


def admits_pod(node: Node, info: PodInfo, view: Fork) -> bool:
    """Return whether a node with its current pods would admit the pod, as far as the kubelet checks.

    Upstream: AdmissionCheck, and the taints that keep pods from being scheduled.
    """
    spec, metadata = info.spec, node.metadata
    return (
        (not spec.node_name or spec.node_name == metadata.name)
        and compile_required_node_affinity(spec).allows(metadata.labels, metadata.name)
        and find_untolerated(node.spec.taints, spec.tolerations, {"NoSchedule"}) is None
        and _has_room(node, info, view)
    )


def _has_room(node: Node, info: PodInfo, view: Fork) -> bool:
    """Return whether the node has room for the pod's requests and host ports."""
    row = view.nodes.index.get(node.metadata.name)
    used = (
        {name: int(view.requested[row, column]) for name, column in view.resources.items()} if row is not None else {}
    )
    requests = {**info.incoming_requests, names.PODS: 1}
    offer = compute_offer(node)
    if any(amount > offer.get(name, 0) - used.get(name, 0) for name, amount in requests.items() if amount > 0):
        return False
    infos = () if row is None else (view.pods.infos[view.pods.info[position]] for position in view.pods_on(row))
    return not any(held.conflicts(mine) for other in infos for held in other.host_ports for mine in info.host_ports)


def _may_depend_on(pod: Pod, info: PodInfo, view: Fork, spread: bool) -> bool:
    """Return whether the answer about the waiting pod may depend on another pod."""
    metadata = pod.metadata
    if spread and metadata.namespace == info.namespace:
        return True
    labels = view.namespace_labels.get(metadata.namespace, {})
    return any(term.matches(metadata.namespace, metadata.labels, labels) for term in info.required_affinity)
