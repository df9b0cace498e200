"""The report of the section about pods that the rules would not place where they run, and about double booking."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section
from kschedctl.scheduler.plugins.node_resources.fit import DeferredResize


class MisplacedPods(Document, frozen=True, kw_only=True):
    """Pods of a workload that would be rejected on the nodes where they run."""

    refuses: Annotated[str, Column("rejected by")]
    """The plugin, or the effect of the taint."""
    reason: Annotated[str, Column("reason")]
    """The reason in the scheduler's words."""
    workload: Annotated[str, Column("pods of", keep=True, place=-1)]
    pods: Annotated[int, Column(place=-1)]
    examples: Annotated[tuple[str, ...], Column("examples", beneath="such as")]
    """Some of the pods, each with its node."""
    example_nodes: tuple[str, ...] = ()
    """The nodes of these pods."""


class Arrival(Document, frozen=True, kw_only=True):
    """A pod on an overcommitted node."""

    pod: str
    requests: int
    """The amount that the pod requests, in millicores, bytes or units."""
    at: str = ""
    """The time at which it was scheduled or, if unknown, started."""
    beyond: bool = False
    """True if the sum of requests up to this pod exceeds the node."""
    static: bool = False
    """True if the pod comes from a static manifest, so that no scheduler placed it."""


class OvercommittedNode(Document, frozen=True, kw_only=True):
    """A resource of which a node's pods request more than is allocatable, in millicores, bytes or units."""

    node: str
    resource: str
    requested: int
    allocatable: int
    pods: int
    """The number of pods on the node that request the resource."""
    arrivals: tuple[Arrival, ...] = ()
    """The last pods by time, or by request if times are missing."""
    gap: float | None = None
    """The seconds between the first pod that exceeded the node and the pod before it, None if unknown."""
    deferred_resizes: tuple[DeferredResize, ...] = ()
    """The pods on the node for whose deferred resizes the scheduler reserves more than they run with."""

    @property
    def is_resize_only(self) -> bool:
        """True if the node has room for all running pods, and only deferred resizes exceed it."""
        reserved = sum(resize.reserved - resize.running for resize in self.deferred_resizes)
        return bool(reserved) and self.requested - reserved <= max(self.allocatable, 0)


class RefusedPods(Document, frozen=True, kw_only=True):
    """Pods that a scheduler placed and the kubelet rejected."""

    reason: Annotated[str, Column("kubelet reason", keep=True)]
    """The kubelet's reason."""
    pods: Annotated[int, Column("failed")]
    gone: Annotated[int, Column()] = 0
    """The number of further pods, of which only an event is left."""
    nodes: Annotated[tuple[str, ...], Column("on", beneath="on")] = ()
    examples: tuple[str, ...] = ()
    last: Annotated[str, Column("last at", beneath="last at")] = ""
    """The time at which the latest pod was started."""
    message: str = ""
    """The message about the latest pod."""


class OrphanedPods(Document, frozen=True, kw_only=True):
    """Pods bound to a node that does not exist."""

    node: str
    pods: int
    leaving: int = 0
    """The number of pods that are being deleted."""
    examples: tuple[str, ...] = ()


class SharedDevice(Document, frozen=True, kw_only=True):
    """A device that is allocated to several claims although it cannot be shared."""

    device: str
    claims: tuple[str, ...]


class PlacedSection(Section, frozen=True, kw_only=True, tag="placed"):
    """The section about bound pods that break rules, and about double booking."""

    judged: int = 0
    """The number of bound pods that were replayed."""
    others: int = 0
    """The number of bound pods that no profile serves."""
    left_out: int = 0
    """The number of bound pods that were not replayed: those of DaemonSets, static pods and terminating pods."""
    overcommitted: tuple[OvercommittedNode, ...] = ()
    misplaced: tuple[MisplacedPods, ...] = ()
    refused: tuple[RefusedPods, ...] = ()
    orphaned: tuple[OrphanedPods, ...] = ()
    shared_devices: tuple[SharedDevice, ...] = ()
