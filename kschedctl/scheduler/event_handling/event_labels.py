"""The labels of events in kube-scheduler's logs and metrics: resource and action, or special names before 1.32.

Upstream: framework/events.go and eventhandlers.go in pkg/scheduler (v1.31), internal/queue/events.go there (v1.30).
"""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.kube_version import ByVersion, KubeVersion
from kschedctl.scheduler.framework.events import ASSIGNED_POD, NODE, UNSCHEDULABLE_POD, ActionType, ClusterEvent

NAMED_EACH = ByVersion(
    "whether kinds of events have names of their own in logs and metrics", (("", True), ("1.32", False))
)
UNCORDONED, OWN_UPDATE = "NodeSpecUnschedulableChange", "PodUpdate"
"""The labels of events that are told apart by their names alone."""
_NAMES: Mapping[tuple[str, ActionType], str] = {
    (NODE, ActionType.UPDATE_NODE_ALLOCATABLE): "NodeAllocatableChange",
    (NODE, ActionType.UPDATE_NODE_LABEL): "NodeLabelChange",
    (NODE, ActionType.UPDATE_NODE_TAINT): "NodeTaintChange",
    (NODE, ActionType.UPDATE_NODE_CONDITION): "NodeConditionChange",
    (NODE, ActionType.UPDATE_NODE_ANNOTATION): "NodeAnnotationChange",
    (ASSIGNED_POD, ActionType.UPDATE_POD_LABEL): "PodLabelChange",
    (UNSCHEDULABLE_POD, ActionType.UPDATE_POD_LABEL): "PodLabelChange",
    (UNSCHEDULABLE_POD, ActionType.UPDATE_POD_SCALE_DOWN): "PodRequestScaledDown",
    (UNSCHEDULABLE_POD, ActionType.UPDATE): "AssignedPodUpdate",
}
_SHORT = {"PersistentVolume": "Pv", "PersistentVolumeClaim": "Pvc"}


def with_version_label(event: ClusterEvent, release: KubeVersion, name: str = "") -> ClusterEvent:
    """Return the event with its label in a version; `name` is a special label that differs from that of similar events.

    >>> with_version_label(ClusterEvent("storage.k8s.io/CSINode", ActionType.ADD), KubeVersion.parse("1.31")).label
    'CSINodeAdd'
    """
    if not NAMED_EACH.at(release):
        return event
    key = event.resource, event.action
    return event._replace(
        custom_label=name or _NAMES.get(key) or f"{_shorten_resource(event.resource)}{event.action.label}"
    )


def _shorten_resource(resource: str) -> str:
    """Return the resource without its API group; unknown resources keep their plural, capitalized."""
    if "/" not in resource and "." in resource:
        return resource.partition(".")[0].title()
    kind = resource.rpartition("/")[2]
    return _SHORT.get(kind, kind)
