"""The result of Cluster Autoscaler's next scale-down loop, as a document: kind ScaleDown."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.scale_up import GroupIncrease
from kschedctl.text.counts import counted, first_few


class Utilization(Document, frozen=True):
    """The share of a node's resources that pods request."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0
    resource: str = ""
    """The resource that decides."""
    value: float = 0.0
    """The share of the deciding resource."""


class BlockingPod(Document, frozen=True):
    """A pod that keeps its node."""

    pod: str
    reason: str


class AloneRemoval(Document, frozen=True):
    """Whether a node could be removed if it were the only one."""

    removable: bool = False
    pods: tuple[str, ...] = ()
    """The pods that would move."""
    on_completion: tuple[str, ...] = ()
    reason: str | None = None
    blocking_pod: BlockingPod | None = None


class NodeKeepers(Document, frozen=True):
    """The pods that keep a node."""

    keepers: tuple[BlockingPod, ...] = ()
    """All pods that keep it."""
    then: str = ""
    """Why the node stays even if these pods may move; empty if it would be removed."""


class NodeRemoval(Document, frozen=True):
    """The decision about a node."""

    group: str = ""
    candidate: bool = False
    state: str = ""
    """notCandidate, unneeded, unremovable or notEvaluated."""
    reason: str | None = None
    blocking_pod: BlockingPod | None = None
    utilization: Utilization | None = None
    moves: dict[str, str] = {}
    """Pod -> the node to which it would move."""
    alone: AloneRemoval | None = None
    """The decision if the node were the only one to remove."""


class RemovedNodes(Document, frozen=True):
    """Nodes that are removed: empty ones, and ones that are drained first."""

    empty: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()


class ScaleDown(Report, frozen=True):
    """The result of the next scale-down loop. If the autoscaler's order is random, it is one possible run."""

    unschedulable: tuple[str, ...] = ()
    """The pods that kube-scheduler reports as unschedulable."""
    filtered_out: tuple[str, ...] = ()
    """The unschedulable pods that need no new node."""
    upcoming: dict[str, int] = {}
    """Node group -> the number of nodes on their way."""
    cluster_healthy: bool = True
    loop_error: str | None = None
    planned: bool = False
    """Whether the loop got as far as scale-down. Otherwise the fields below are empty."""
    candidates: tuple[str, ...] = ()
    """The nodes that are examined, in order."""
    unneeded: tuple[str, ...] = ()
    """The nodes that could be removed, in the order in which they are found."""
    to_delete: RemovedNodes = RemovedNodes()
    """The unneeded nodes that may be removed now."""
    deleted_now: RemovedNodes = RemovedNodes()
    """The nodes that are removed in this loop."""
    nodes: dict[str, NodeRemoval] = {}
    """Node -> the decision about it."""
    kept: dict[str, NodeKeepers] = {}
    """Node that pods keep -> these pods, each node by itself."""
    budget_causes: dict[str, str] = {}
    """Pod that a PodDisruptionBudget keeps from moving -> the unhealthy pods that use up the budget, in words."""
    increases: tuple[GroupIncrease, ...] = ()
    """The node groups that grow in the same loop."""
    seen_groups: bool = False
    """Whether node groups are only known from labels, so that their limits are not known."""
    sources: tuple[str, ...] = ()
    """Where node groups and flags were read."""
    doubts: tuple[str, ...] = ()
    """What is not certain about groups and flags."""
    waits: dict[str, str] = {}
    """Flag -> how long a node waits before it is removed."""
    marked_since: dict[str, str] = {}
    """Unneeded node -> when the autoscaler marked it, by its taint."""
    faults: tuple[str, ...] = ()
    """Invalid node groups and options, which are ignored."""
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "ScaleDown"

    def first_line(self) -> tuple[str, ...]:
        """Return the nodes that are removed, and the number that could be."""
        going = (*self.deleted_now.empty, *self.deleted_now.drain)
        could = f"of {counted(len(self.unneeded), 'unneeded node')}"
        wait = self.waits.get("scale-down-unneeded-time")
        after = f", once unneeded for {wait}" if wait and going else ""
        return (f"Scale-down: {first_few(going)}" if going else "No node goes", f"{could}{after}")
