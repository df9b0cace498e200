"""The results of Cluster Autoscaler's next scale-up and scale-down loops, as documents: ScaleUp and ScaleDown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from msgspec.structs import replace

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortFix, ShortPods, Summary
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few, join_words

UNKNOWN_GROUP_LIMITS = (
    "node groups are known only from node labels, so their minimum and maximum sizes are unknown "
    "(specify --node-groups FILE)"
)


NO_PLACE, BLOCKED = "NoPlaceToMovePods", "BlockedByPod"
MAX_KEEPERS = 3
UNBLOCKS = {
    "ControllerNotFound": "gets an owner that exists",
    "MinReplicasReached": "has as many replicas as --min-replica-count",
    "NotReplicated": "gets a controller",
    "UnmovableKubeSystemPod": "has a PodDisruptionBudget that allows its eviction",
    "NotSafeToEvictAnnotation": 'loses its annotation safe-to-evict: "false"',
    "LocalStorageRequested": "lists its volumes in safe-to-evict-local-volumes, if their data may be lost",
    "NotEnoughPdb": "has a PodDisruptionBudget that allows one more disruption",
}
"""The change to a pod after which it no longer keeps its node, by the rule that applies."""
NODE_REASONS = {
    "NotUnderutilized": "above the utilization threshold",
    "CurrentlyBeingDeleted": "already being deleted",
    "ScaleDownDisabledAnnotation": "its scale-down-disabled annotation is true",
    "ScaleDownUnreadyDisabled": "not ready, and unready nodes are not removed",
    "NodeGroupMinSizeReached": "the group is at its minimum size",
    "MinimalResourceLimitExceeded": "the cluster would have fewer cores or less memory than its configured minimum",
    "NotUnneededLongEnough": "not unneeded for long enough yet",
    "NotUnreadyLongEnough": "not unready for long enough yet",
    "AtomicScaleDownFailed": "its group is removed as a whole or not at all, and some of its nodes must stay",
    "BlockedByOnCompletionPod": "a pod on it has to finish first",
    NO_PLACE: "its pods fit nowhere else",
}
"""The autoscaler's reasons to keep a node, in plain words."""
POD_REASONS = {
    "ControllerNotFound": "its controller does not exist",
    "MinReplicasReached": "its workload has fewer replicas than --min-replica-count",
    "NotReplicated": "no controller would recreate it",
    "UnmovableKubeSystemPod": "a kube-system pod without a PDB",
    "NotSafeToEvictAnnotation": 'annotated safe-to-evict: "false"',
    "LocalStorageRequested": "it has local storage",
    "NotEnoughPdb": "its PDB allows no disruption",
}
"""The autoscaler's reasons why a pod keeps its node, in plain words."""


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
    source: Annotated[int, Column("nodes before")]
    target: Annotated[int, Column("nodes after")]


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
    """The unschedulable pods that need no new node, or that the autoscaler ignores."""
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
    """The reasons why groups without nodes do not grow for the pods that remain."""
    templates: dict[str, GroupTemplate] = {}
    events: tuple[AutoscalerEvent, ...] = ()
    still_pending: dict[str, str] = {}
    """Pod for which a group grows, but whose place other pods take -> kube-scheduler's message."""
    rivals: tuple[str, ...] = ()
    """Waiting pods ahead in the queue that take the room of the pods still pending on the new nodes."""
    enough: int | None = None
    """The number of new nodes that would be enough for the pods still pending; None if further loops do not help."""
    seen_groups: bool = False
    """True if node groups are only known from labels, so that their limits are not known."""
    sources: tuple[str, ...] = ()
    """The places at which node groups and flags were read."""
    doubts: tuple[str, ...] = ()
    """Uncertainties about groups and flags."""
    unknown_groups: tuple[str, ...] = ()
    """The groups whose new nodes nobody can describe."""
    faults: tuple[str, ...] = ()
    """Invalid node groups and options, which are ignored."""
    undecided: bool = False
    ignored: dict[str, int] = {}
    """Unschedulable pod that the autoscaler ignores -> its priority, which is below the cutoff."""
    priority_cutoff: int = 0
    """The lowest priority of pods that the autoscaler does not ignore."""
    would_accept: dict[str, tuple[str, ...]] = {}
    """Pod for which no group grows -> the groups at their maximum size whose new nodes would take it."""
    kind: str = "ScaleUp"

    @property
    def are_all_placed(self) -> bool:
        """True if every pod gets a node once the groups have grown."""
        return not (self.remaining or self.still_pending or self.ignored)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The unschedulable pods for which no node has room."""
        filtered_out = set(self.filtered_out)
        return tuple(pod for pod in self.unschedulable if pod not in filtered_out)

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return two texts: which groups grow, and how many of the unschedulable pods get a node.

        The second text also counts the pods that trigger no scale-up, would still wait, fit already, or come later. If
        no group grows, the texts say so and name the number of unschedulable pods.
        """
        pods = counted(len(self.unschedulable), "unschedulable pod")
        if not self.increases:
            return ("No group grows", f"for {pods}" if self.unschedulable else "because no pod is unschedulable")
        increases = ", ".join(
            f"{growth.group} grows from {growth.source:,} to {growth.target:,} nodes" for growth in self.increases
        )
        helped = self.helped
        which = f" ({first_few(helped)})" if helped else ""
        marked_pods = counted(len(self.unschedulable), "pod marked as unschedulable", "pods marked as unschedulable")
        text = f"for {len(helped):,} of {marked_pods}{which}"
        fates = (
            (len(self.remaining), ("triggers no scale-up", "trigger no scale-up")),
            (len(self.still_pending), ("would still wait", "would still wait")),
            (
                len(self.filtered_out) - len(self.ignored),
                ("fits on existing or upcoming nodes", "fit on existing or upcoming nodes"),
            ),
        )
        if clauses := [counted(number, *verbs) for number, verbs in fates if number]:
            text += f". Of the others, {join_words(clauses)}"
        if self.later_pods:
            text += f". {self._describe_later_pods()}"
        return (f"Scale-up: {increases}", text)

    @property
    def helped(self) -> tuple[str, ...]:
        """The pods that get one of the new nodes."""
        return tuple(pod for pod in self.triggered if pod not in self.still_pending)

    @property
    def later_pods(self) -> tuple[str, ...]:
        """The pods that are left to a later loop, because this loop grows groups for other pods.

        If no group grows, there are none.
        """
        if not self.increases:
            return ()
        decided = {*self.triggered, *self.remaining, *self.filtered_out}
        return tuple(pod for pod in self.unschedulable if pod not in decided)

    def _describe_later_pods(self) -> str:
        """Describe the pods about which a later loop decides, with the groups that could grow for them."""
        groups = [option.group for option in self.options if set(option.pods).intersection(self.later_pods)]
        of_groups = f" ({agreeing(len(groups), 'group', 'groups')} {first_few(groups)})" if groups else ""
        wait = counted(len(self.later_pods), "pod waits", "pods wait")
        return f"{wait} for a later loop: {join_first_few(self.later_pods)}{of_groups}"

    def describe_ignored_pods(self) -> str:
        """Describe the pods that are ignored because of their low priority, or return "" if there are none."""
        if not self.ignored:
            return ""
        pods = list(self.ignored)
        priorities = sorted(set(self.ignored.values()))
        of_priority = f"priority {priorities[0]:,} is" if len(priorities) == 1 else "their priorities are"
        return f"ignores {first_few(pods)}: {of_priority} below the autoscaler's cutoff of {self.priority_cutoff:,}"

    def group_pods_by_reasons(self) -> dict[tuple[tuple[str, str], ...], list[str]]:
        """Group the pods that no node group would help, by the reasons that the groups give.

        A key has a pair of group and short reason for each group, sorted by group.
        """
        pods_by_reasons: dict[tuple[tuple[str, str], ...], list[str]] = {}
        for pod, unhelped in self.remaining.items():
            figures = self.details.get(pod, {})
            reasons = {
                group: figures.get(group) or ", ".join(refusal.reasons) for group, refusal in unhelped.rejected.items()
            }
            reasons |= {group: self.describe_skipped_group(pod, group) for group in unhelped.skipped}
            pods_by_reasons.setdefault(tuple(sorted(reasons.items())), []).append(pod)
        return pods_by_reasons

    def describe_skipped_group(self, pod: str, group: str) -> str:
        """Describe why the group was skipped for the pod.

        The text also says whether one more node of the group would take the pod, if this is known.
        """
        reasons = "; ".join(self.remaining[pod].skipped[group])
        if group in self.would_accept.get(pod, ()):
            return f"{reasons}; one more node would take the pod"
        figures = self.details.get(pod, {}).get(group)
        return f"{reasons}; nor would one more node take the pod: {figures}" if figures else reasons

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the pods that get no node or stay pending, each with the reason.

        The figures are the numbers of unschedulable pods and of pods that get a node. Warnings name the pods that are
        ignored or stay pending. A fix is added for each group without nodes whose template lacks something.
        """
        unhelped: list[ShortPods] = []
        for reasons, unhelped_pods in self.group_pods_by_reasons().items():
            why = "; ".join(f"group {group}: {reason}" for group, reason in reasons) or "no node group is known"
            unhelped.append(ShortPods(pods=len(unhelped_pods), such_as=unhelped_pods[0], workload="", why=why))
        waiting = tuple(
            ShortPods(pods=1, such_as=pod, workload="", why=message) for pod, message in self.still_pending.items()
        )
        fixes = tuple(
            ShortFix(
                f"Declare {' and '.join(gap.settings)} on node group {gap.group}: it has no nodes, and its template "
                f"lacks the {' and the '.join(gap.lacks)}; with it, a new node would take {join_first_few(gap.pods)}",
                "platform",
                clears=len(gap.pods),
            )
            for gap in self.template_gaps
        )
        return replace(
            summary,
            pods=(*waiting, *unhelped),
            fixes=fixes,
            warnings=tuple(self._iter_warnings()),
            figures={"unschedulable": len(self.unschedulable), "helped": len(self.helped)},
        )

    def _iter_warnings(self) -> Iterator[str]:
        """Yield a warning about the pods that stay pending, and one about the pods that the autoscaler ignores."""
        if self.still_pending:
            stay = agreeing(len(self.still_pending), "stays", "stay")
            enough = f"; {counted(self.enough, 'new node')} would be enough" if self.enough is not None else ""
            pronoun = "it" if len(self.still_pending) == 1 else "them"
            pods = first_few(tuple(self.still_pending))
            yield f"{pods} {stay} pending although nodes are added for {pronoun}{enough}"
        if ignored := self.describe_ignored_pods():
            yield f"the autoscaler {ignored}"

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
    """The decision whether a node could be removed if it were the only one."""

    removable: bool = False
    pods: tuple[str, ...] = ()
    """The pods that would move."""
    on_completion: tuple[str, ...] = ()
    reason: str | None = None
    blocking_pod: BlockingPod | None = None


class NodeKeepers(Document, frozen=True):
    """The pods that keep a node from being removed."""

    keepers: tuple[BlockingPod, ...] = ()
    """All pods that keep it. A pod is listed once for each of its reasons."""
    then: str = ""
    """The reason why the node stays even if these pods may move; empty if it would be removed."""


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


def _add_code(text: str, code: str) -> str:
    """Return a reason in plain words, followed by the autoscaler's own name for it in parentheses."""
    return f"{text} ({code})"


def _describe_changes_that_free_node(kept: NodeKeepers | None) -> str:
    """Describe which changes to the pods that keep a node would let it be deleted, as the end of a sentence.

    At most MAX_KEEPERS pods are named. If the node's pods would have no room elsewhere even then, the text says so
    instead. Return "" if nothing is known.
    """
    if kept is None:
        return ""
    if kept.then:
        no_place = ". Its pods would have no room elsewhere even if all could be evicted"
        return no_place if kept.then == NO_PLACE else ""
    needs_by_pod: dict[str, list[str]] = {}
    for keeper in kept.keepers:
        needs_by_pod.setdefault(keeper.pod, []).append(UNBLOCKS.get(keeper.reason, keeper.reason))
    needed = [f"{pod} {' and '.join(needs)}" for pod, needs in list(needs_by_pod.items())[:MAX_KEEPERS]]
    if len(needs_by_pod) > MAX_KEEPERS:
        needed.append(counted(len(needs_by_pod) - MAX_KEEPERS, "more pod"))
    return f". Would be deleted if {'; '.join(needed)}"


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
    """True if the loop reached scale-down. Otherwise, the fields below are empty."""
    pending_on_nodes: tuple[str, ...] = ()
    """The pending pods that fit now. The autoscaler has them on nodes already, so they count in utilizations."""
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
    thresholds: dict[str, float] = {}
    """Node whose utilization was examined -> the highest utilization at which it may be removed."""
    minimums: dict[str, int] = {}
    """Node that is no candidate because its group is at its minimum size -> that size."""
    cordoned: tuple[str, ...] = ()
    """The nodes that are cordoned."""
    increases: tuple[GroupIncrease, ...] = ()
    """The node groups that grow in the same loop."""
    seen_groups: bool = False
    """True if node groups are only known from labels, so that their limits are not known."""
    sources: tuple[str, ...] = ()
    """The places at which node groups and flags were read."""
    doubts: tuple[str, ...] = ()
    """Uncertainties about groups and flags."""
    waits: dict[str, str] = {}
    """Flag -> how long a node waits before it is removed."""
    marked_since: dict[str, str] = {}
    """Unneeded node -> when the autoscaler marked it, by its taint."""
    faults: tuple[str, ...] = ()
    """Invalid node groups and options, which are ignored."""
    undecided: bool = False
    kind: str = "ScaleDown"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return a text that says which nodes are removed and when, and how many nodes are unneeded.

        If no node is removed, the text says whether unneeded nodes have to stay.
        """
        removed_nodes = (*self.deleted_now.empty, *self.deleted_now.drain)
        if not removed_nodes:
            if not self.unneeded:
                return ("No node is removed: none is unneeded",)
            have = counted(len(self.unneeded), "unneeded node has", "unneeded nodes have")
            return (f"No node is removed: {have} to stay",)
        wait = self.waits.get("scale-down-unneeded-time")
        waiting_time = f" once they have been unneeded for {wait}" if wait else ""
        share = f"{len(removed_nodes):,} of {counted(len(self.unneeded), 'unneeded node')}"
        return (f"The autoscaler removes {share}{waiting_time}: {join_first_few(removed_nodes)}",)

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
        are_deleted = "is deleted" if count == 1 else "are deleted"
        return (
            f"{counted(count, 'running low-priority pod')} {are_deleted} with these nodes, because the autoscaler "
            f"ignores {'it' if count == 1 else 'them'}: {join_first_few(self.lost_pods)}"
        )

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the running pods that end with the removed nodes.

        If no node is removed, warnings say why the nodes stay.
        """
        lost = self.describe_lost_pods()
        staying: tuple[str, ...] = ()
        if not (self.deleted_now.empty or self.deleted_now.drain):
            staying = tuple(
                f"{first_few(nodes, 1)}: {reason}" for reason, nodes in self.group_staying_nodes().items() if reason
            )
        return replace(summary, warnings=((lost,) if lost else ()) + staying, victims=self.lost_pods)

    def describe_staying_node(self, name: str) -> str:
        """Describe why a node stays and, if this is known, what would have to change for it to be removed.

        Return an empty string if nothing is known.
        """
        node = self.nodes[name]
        code = node.reason or ""
        if node.state == "notCandidate" and not code:
            if not node.group:
                return "it belongs to no node group"
            minimum = self.minimums.get(name)
            return "" if minimum is None else f"its group is at its minimum of {counted(minimum, 'node')}"
        node_reason = self._describe_node_reason(name)
        if node.blocking_pod is not None:
            pod_code = node.blocking_pod.reason
            pod_reason = _add_code(POD_REASONS[pod_code], pod_code) if pod_code in POD_REASONS else pod_code
            kept_by_pod = f"kept by {node.blocking_pod.pod}: {pod_reason}"
            kept_by_pod += _describe_changes_that_free_node(self.kept.get(name))
            return kept_by_pod if code == BLOCKED else f"{node_reason}; {kept_by_pod}"
        if code == NO_PLACE and node.alone is not None and node.alone.removable:
            return f"{node_reason}; its pods fit elsewhere only if no other node is removed"
        return node_reason

    def _describe_node_reason(self, name: str) -> str:
        """Return the autoscaler's reason to keep a node in plain words, followed by its own name for it.

        An unknown reason is returned as it is.
        """
        code = self.nodes[name].reason or ""
        if code not in NODE_REASONS:
            return code
        threshold = self.thresholds.get(name)
        of_threshold = f" of {threshold:.0%}" if code == "NotUnderutilized" and threshold is not None else ""
        return _add_code(f"{NODE_REASONS[code]}{of_threshold}", code)

    def group_staying_nodes(self) -> dict[str, list[str]]:
        """Group the nodes that stay by the reason in words, the most frequent reason first.

        An unneeded node without a reason, which only waits to be removed, is listed under "".
        """
        nodes_by_reason: dict[str, list[str]] = {}
        for name, node in self.nodes.items():
            reason = "" if node.state == "unneeded" and not node.reason else self.describe_staying_node(name)
            nodes_by_reason.setdefault(reason, []).append(name)
        return dict(sorted(nodes_by_reason.items(), key=lambda entry: len(entry[1]), reverse=True))

    def iter_doubts(self) -> Iterator[str]:
        """Yield what limits the answer: what is not certain about groups and flags comes first."""
        yield from iter_group_doubts(self)


def iter_group_doubts(report: ScaleUp | ScaleDown) -> Iterator[str]:
    """Yield the doubts about the node groups and flags, and the faults because of which groups or flags were left out.

    A fault that a doubt already names is not repeated.
    """
    if report.seen_groups:
        yield UNKNOWN_GROUP_LIMITS
    yield from report.doubts
    all_doubts = "".join(report.doubts)
    yield from (f"left out: {fault}" for fault in report.faults if fault not in all_doubts)
