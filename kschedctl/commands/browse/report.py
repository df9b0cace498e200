"""What one looks at while browsing: a node, or a workload."""

from __future__ import annotations

from kschedctl.reports.document import Document


class NodeResource(Document, frozen=True):
    """In the resource's own unit (millicores for cpu, bytes for memory)."""

    resource: str
    allocatable: int
    requested: int


class PodOfNode(Document, frozen=True):
    """A pod on a node, and what it requests there by resource."""

    pod: str
    workload: str
    priority: int
    requests: dict[str, int]


class NodeContents(Document, frozen=True):
    """A node. ``pods``: those of the highest priority first; ``fit``: pending pods that would fit there.

    ``refused``: how many pending pods would not, by the first reason; both are of the cluster as it is, each pod by
    itself.
    """

    node: str
    pool: str
    zone: str
    unschedulable: bool
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    resources: tuple[NodeResource, ...] = ()
    pods: tuple[PodOfNode, ...] = ()
    fit: tuple[str, ...] = ()
    refused: dict[str, int] = {}
    api_version: str = "kschedctl.dev/v1"
    kind: str = "NodeContents"


class PodOfWorkload(Document, frozen=True):
    """``node`` is empty while it has none, then ``why`` may tell the cause; ``phase`` as its status says."""

    pod: str
    node: str
    zone: str
    phase: str
    created: str
    why: str = ""


class ZonePods(Document, frozen=True):
    """How many ``pods`` of a workload are in a zone, on how many ``nodes``."""

    zone: str
    pods: int
    nodes: int


class WorkloadPods(Document, frozen=True):
    """The pods of a workload, those that wait first; ``zones``: every zone of the cluster."""

    workload: str
    pods: tuple[PodOfWorkload, ...] = ()
    zones: tuple[ZonePods, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WorkloadPods"


class RefusingReason(Document, frozen=True):
    """The number of nodes that one plugin rejects for one reason, before and after a change."""

    plugin: str
    reason: str
    before: int
    after: int


class ChangedAnswer(Document, frozen=True):
    """What another assumption about a pod changes in its answer."""

    fit: tuple[int, int]
    """The number of feasible nodes before and after."""
    gained: tuple[str, ...] = ()
    """The nodes that are feasible only after the change."""
    lost: tuple[str, ...] = ()
    """The nodes that are feasible only before the change."""
    best: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The nodes with the highest score before and after."""
    reasons: tuple[RefusingReason, ...] = ()
    """The reasons for which another number of nodes is rejected than before."""
