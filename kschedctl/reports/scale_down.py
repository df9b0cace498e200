"""What the Cluster Autoscaler's next loop would take away: kind ScaleDown."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.scale_up import GroupIncrease
from kschedctl.text.counts import counted, first_few


class Utilization(Document, frozen=True):
    """What pods request of what the node offers; ``value``: that of ``resource``, which decides."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0
    resource: str = ""
    value: float = 0.0


class BlockingPod(Document, frozen=True):
    """The first pod that keeps its node, and why."""

    pod: str
    reason: str


class AloneRemoval(Document, frozen=True):
    """Whether a node could go if it were the only one; ``pods``: those that would move."""

    removable: bool = False
    pods: tuple[str, ...] = ()
    on_completion: tuple[str, ...] = ()
    reason: str | None = None
    blocking_pod: BlockingPod | None = None


class NodeKeepers(Document, frozen=True):
    """``keepers``: all pods that keep it; ``then``: the reason why it stays even if these may move, empty: it goes."""

    keepers: tuple[BlockingPod, ...] = ()
    then: str = ""


class NodeRemoval(Document, frozen=True):
    """``state``: notCandidate, unneeded, unremovable or notEvaluated; ``moves``: pod -> the node it would move to."""

    group: str = ""
    candidate: bool = False
    state: str = ""
    reason: str | None = None
    blocking_pod: BlockingPod | None = None
    utilization: Utilization | None = None
    moves: dict[str, str] = {}
    alone: AloneRemoval | None = None


class NodesToGo(Document, frozen=True):
    """Nodes that are empty, and nodes that are drained first."""

    empty: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()


class ScaleDown(Report, frozen=True):
    """``planned``: the loop came as far; else nothing else is said. One possible run where upstream's order is chance.

    ``candidates``: in the order in which they are examined; ``unneeded``: those that could go, in the order found;
    ``to_delete``: those of them that may go now, ``deleted_now``: as many of them as go at once. ``kept``: nodes
    that pods keep, each by itself. ``increases``: groups that grow in the same loop. ``seen_groups``: the groups are
    those of labels, of limits nothing is known.
    ``faults``: node groups and options that make no sense, and are left out. ``sources``: where groups and flags
    are from; ``doubts``: what is not certain of them; ``waits``: how long a node waits before it goes, by flag.
    ``marked_since``: unneeded node -> when the autoscaler marked it as one, by its taint.
    """

    unschedulable: tuple[str, ...] = ()
    filtered_out: tuple[str, ...] = ()
    upcoming: dict[str, int] = {}
    cluster_healthy: bool = True
    loop_error: str | None = None
    planned: bool = False
    candidates: tuple[str, ...] = ()
    unneeded: tuple[str, ...] = ()
    to_delete: NodesToGo = NodesToGo()
    deleted_now: NodesToGo = NodesToGo()
    nodes: dict[str, NodeRemoval] = {}
    kept: dict[str, NodeKeepers] = {}
    budget_causes: dict[str, str] = {}
    """Pod that a PodDisruptionBudget keeps from moving -> the unhealthy pods that use up the budget, in words."""
    increases: tuple[GroupIncrease, ...] = ()
    seen_groups: bool = False
    sources: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    waits: dict[str, str] = {}
    marked_since: dict[str, str] = {}
    faults: tuple[str, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "ScaleDown"

    def first_line(self) -> tuple[str, ...]:
        """Which nodes go, of how many that could; all of them only once they have been unneeded for long enough."""
        going = (*self.deleted_now.empty, *self.deleted_now.drain)
        could = f"of {counted(len(self.unneeded), 'unneeded node')}"
        wait = self.waits.get("scale-down-unneeded-time")
        after = f", once unneeded for {wait}" if wait and going else ""
        return (f"Scale-down: {first_few(going)}" if going else "No node goes", f"{could}{after}")
