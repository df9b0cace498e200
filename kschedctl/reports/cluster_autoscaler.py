"""The results of Cluster Autoscaler's next scale-up and scale-down loops, as documents: ScaleUp and ScaleDown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import Summary
from kschedctl.text.counts import counted, first_few

UNKNOWN_GROUP_LIMITS = (
    "node groups are only known from node labels, so their minimum and maximum size are unknown: "
    "specify --node-groups FILE"
)


class GroupRefusal(Document, frozen=True):
    """The plugin that rejects a pod on a new node of a group, and its reasons."""

    plugin: str = ""
    reasons: tuple[str, ...] = ()


class RemainingPod(Document, frozen=True):
    """A pod for which no node group grows, with the reason."""

    rejected: dict[str, GroupRefusal] = {}
    """Group -> the filter plugin that rejects the pod on a new node."""
    skipped: dict[str, tuple[str, ...]] = {}
    """Group -> why it was skipped."""
    message: str | None = None
    """The message of the event NotTriggerScaleUp."""


class TemplateGap(Document, frozen=True):
    """The settings with which the template of a node group without nodes would take the pods, verified by replay."""

    group: Annotated[str, Column("node group", keep=True)]
    pods: tuple[str, ...]
    lacks: Annotated[tuple[str, ...], Column("its template lacks", lines=True)]
    settings: Annotated[tuple[str, ...], Column("add to the group", lines=True)]
    """Tags or annotations that tell the autoscaler about the missing parts."""
    provider: str = ""
    """The cloud provider of these tags; empty if it is not known, and the tags are those of AWS."""

    @property
    def sentence(self) -> str:
        """A sentence on the missing parts of the template and the settings that add them."""
        where = "" if self.provider else " (on AWS)"
        return (
            f"it has no nodes, and its template lacks the {' and the '.join(self.lacks)}; with the "
            f"{' and the '.join(self.settings)}{where} it would take the pod"
        )


class ExpansionOption(Document, frozen=True):
    """A way to grow a node group for pods."""

    group: str
    nodes: int
    """The number of new nodes."""
    pods: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()
    """The groups with which it would share the new nodes."""


class GroupIncrease(Document, frozen=True, rename={"source": "from", "target": "to"}):
    """A node group that grows."""

    group: Annotated[str, Column("node group", keep=True)]
    source: Annotated[int, Column("nodes")]
    target: Annotated[int, Column("then")]


class GroupTemplate(Document, frozen=True):
    """A new node of a group, as the autoscaler imagines it."""

    pods: tuple[str, ...] = ()
    """The pods that come with the node, such as those of DaemonSets."""
    cpu_milli: int = 0
    """The CPU that these pods request, in millicores."""
    memory: int = 0
    """The memory that these pods request, in bytes."""
    taints: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    unschedulable: bool = False


class AutoscalerEvent(Document, frozen=True):
    """An event that the autoscaler writes."""

    object: str
    type: str
    reason: str
    message: str


class ScaleUp(Report, frozen=True):
    """The result of the next scale-up loop. If the autoscaler's order is random, it is one possible run."""

    unschedulable: tuple[str, ...] = ()
    """The pods that kube-scheduler reports as unschedulable."""
    filtered_out: tuple[str, ...] = ()
    """The unschedulable pods that need no new node."""
    upcoming: dict[str, int] = {}
    """Node group -> the number of nodes on their way."""
    cluster_healthy: bool = True
    loop_error: str | None = None
    result: str | None = None
    """Upstream's name of the result; None if the loop ends earlier."""
    error: str | None = None
    options: tuple[ExpansionOption, ...] = ()
    """The options from which the expander chooses."""
    best: str | None = None
    """The option that is chosen, the first by name if several are tied."""
    tied: tuple[str, ...] = ()
    """The groups among which chance decides."""
    increases: tuple[GroupIncrease, ...] = ()
    """The groups that grow."""
    triggered: tuple[str, ...] = ()
    """The pods for which groups grow."""
    awaiting: tuple[str, ...] = ()
    """The pods about which a later loop decides."""
    remaining: dict[str, RemainingPod] = {}
    """Pod -> why no group grows for it."""
    details: dict[str, dict[str, str]] = {}
    """Pod -> node group -> the figures behind a refusal, for pods of up to 50 kinds that remain."""
    template_gaps: tuple[TemplateGap, ...] = ()
    """What keeps groups without nodes from growing for the pods that remain."""
    templates: dict[str, GroupTemplate] = {}
    events: tuple[AutoscalerEvent, ...] = ()
    still_pending: dict[str, str] = {}
    """Pod for which a group grows, but whose place other pods take -> kube-scheduler's message."""
    rivals: tuple[str, ...] = ()
    """Waiting pods for which no group grows now, and that take room on the new nodes."""
    enough: int | None = None
    """How many new nodes would be enough, if pods are still pending; None if none that further loops add is."""
    seen_groups: bool = False
    """Whether node groups are only known from labels, so that their limits are not known."""
    sources: tuple[str, ...] = ()
    """Where node groups and flags were read."""
    doubts: tuple[str, ...] = ()
    """What is not certain about groups and flags."""
    unknown_groups: tuple[str, ...] = ()
    """The groups whose new nodes nobody can describe."""
    faults: tuple[str, ...] = ()
    """Invalid node groups and options, which are ignored."""
    undecided: bool = False
    kind: str = "ScaleUp"

    @property
    def are_all_placed(self) -> bool:
        """Whether every pod gets a node once the groups have grown."""
        return not (self.remaining or self.still_pending)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The unschedulable pods for which no node has room."""
        filtered_out = set(self.filtered_out)
        return tuple(pod for pod in self.unschedulable if pod not in filtered_out)

    def build_first_line(self) -> tuple[str, ...]:
        """Return the growing groups, or that no group grows, and the number of unschedulable pods."""
        increases = [f"{growth.group} from {growth.source:,} to {growth.target:,}" for growth in self.increases]
        pods = counted(len(self.unschedulable), "unschedulable pod")
        return (f"Scale-up: {', '.join(increases)}" if increases else "No group grows", f"for {pods}")

    def iter_doubts(self) -> Iterator[str]:
        """Yield what limits the answer: what is not certain about groups and flags comes first."""
        yield from iter_group_doubts(self)


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
    """The pods that keep a node from being removed."""

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
    """Nodes that are removed. Some are empty, and the others are drained first."""

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
    """Whether the loop reached scale-down. Otherwise, the fields below are empty."""
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
    ignored_pods: dict[str, tuple[str, ...]] = {}
    """Unneeded node -> its pods that the autoscaler ignores for their low priority, and that end with the node."""
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
    kind: str = "ScaleDown"

    def build_first_line(self) -> tuple[str, ...]:
        """Return which nodes are removed, if any, and the number of unneeded nodes."""
        removed_nodes = (*self.deleted_now.empty, *self.deleted_now.drain)
        if not removed_nodes:
            return ("No node is removed", f"of {counted(len(self.unneeded), 'unneeded node')}")
        wait = self.waits.get("scale-down-unneeded-time")
        waiting_time = f", once unneeded for {wait}" if wait else ""
        share = f"{len(removed_nodes):,} of {counted(len(self.unneeded), 'unneeded node')}"
        return (f"Removes {share}: {first_few(removed_nodes)}{waiting_time}",)

    @property
    def lost_pods(self) -> tuple[str, ...]:
        """The ignored pods of the nodes that are removed in this loop."""
        removed_nodes = (*self.deleted_now.empty, *self.deleted_now.drain)
        return tuple(pod for node in removed_nodes for pod in self.ignored_pods.get(node, ()))

    def describe_lost_pods(self) -> str:
        """Describe the pods that end although the autoscaler counts their nodes as empty, or return "" if none do."""
        if not self.lost_pods:
            return ""
        count = len(self.lost_pods)
        end = "ends" if count == 1 else "end"
        return (
            f"{counted(count, 'running pod')} of low priority {end} with these nodes, since the autoscaler ignores "
            f"{'it' if count == 1 else 'them'}: {first_few(self.lost_pods)}"
        )

    def extend_summary(self, summary: Summary) -> Summary:
        """Add the running pods that end with the removed nodes."""
        lost = self.describe_lost_pods()
        return replace(summary, warnings=(lost,) if lost else (), victims=self.lost_pods)

    def iter_doubts(self) -> Iterator[str]:
        """Yield what limits the answer: what is not certain about groups and flags comes first."""
        yield from iter_group_doubts(self)


def iter_group_doubts(report: ScaleUp | ScaleDown) -> Iterator[str]:
    """Yield what is not certain about the node groups and flags, and which of them were left out as invalid."""
    if report.seen_groups:
        yield UNKNOWN_GROUP_LIMITS
    yield from report.doubts
    all_doubts = "".join(report.doubts)
    yield from (f"left out: {fault}" for fault in report.faults if fault not in all_doubts)
