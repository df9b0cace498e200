"""Reports of the detail screens: a node, a workload, and a changed answer."""

from __future__ import annotations

from kschedctl.reports.document import Document, RootDocument


class NodeResource(Document, frozen=True):
    """A resource of a node, in its own unit (millicores for cpu, bytes for memory)."""

    resource: str
    allocatable: int
    requested: int


class PodOfNode(Document, frozen=True):
    """A pod on a node with its requests per resource."""

    pod: str
    workload: str
    priority: int
    requests: dict[str, int]


class NodeContents(RootDocument, frozen=True):
    """A node with its pods, and the pending pods that would fit on it.

    Each pending pod is tried alone in the current cluster.
    """

    node: str
    pool: str
    zone: str
    unschedulable: bool
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    resources: tuple[NodeResource, ...] = ()
    pods: tuple[PodOfNode, ...] = ()
    """Pods on the node, the highest priority first."""
    fit: tuple[str, ...] = ()
    """Keys of pending pods that would fit."""
    refused: dict[str, int] = {}
    """Numbers of pending pods that would not fit, by the first reason."""
    kind: str = "NodeContents"


class PodOfWorkload(Document, frozen=True):
    """A pod of a workload."""

    pod: str
    node: str
    """Empty while the pod is pending."""
    zone: str
    phase: str
    """The phase in the pod's status."""
    created: str
    why: str = ""
    """The cause if the pod is pending and the cause is known."""


class ZonePods(Document, frozen=True):
    """The numbers of a workload's pods in a zone, and of the nodes they run on."""

    zone: str
    pods: int
    nodes: int


class WorkloadPods(RootDocument, frozen=True):
    """The pods of a workload."""

    workload: str
    pods: tuple[PodOfWorkload, ...] = ()
    """Pending pods first."""
    zones: tuple[ZonePods, ...] = ()
    """All zones of the cluster."""
    kind: str = "WorkloadPods"


class RefusingReason(Document, frozen=True):
    """The number of nodes that one plugin rejects for one reason, before and after a change."""

    plugin: str
    reason: str
    before: int
    after: int


class ChangedAnswer(Document, frozen=True):
    """The change of a pod's answer under an assumption."""

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
