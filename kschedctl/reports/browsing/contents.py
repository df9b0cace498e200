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

    ``refused``: how many pending pods would not; both are of the cluster as it is, each pod by itself.
    """

    node: str
    pool: str
    zone: str
    unschedulable: bool
    taints: tuple[str, ...] = ()
    resources: tuple[NodeResource, ...] = ()
    pods: tuple[PodOfNode, ...] = ()
    fit: tuple[str, ...] = ()
    refused: int = 0
    api_version: str = "kschedctl.dev/v1"
    kind: str = "NodeContents"


class PodOfWorkload(Document, frozen=True):
    """``node`` is empty while it has none; ``phase`` as its status says."""

    pod: str
    node: str
    zone: str
    phase: str
    created: str


class WorkloadPods(Document, frozen=True):
    """The pods of a workload; ``zones``: how many of each zone run there."""

    workload: str
    pods: tuple[PodOfWorkload, ...] = ()
    zones: dict[str, int] = {}
    api_version: str = "kschedctl.dev/v1"
    kind: str = "WorkloadPods"
