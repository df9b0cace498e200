"""The report of `size`: apiVersion kschedctl.dev/v1, kind NodeSizing."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec.structs import replace

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated, describe_not_created
from kschedctl.reports.placements import PoolChange
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, counted, first_few, format_price, join_first_few


class SizedShape(Document, frozen=True):
    """The nodes of one shape in the best set."""

    shape: Annotated[str, Column("shape", keep=True)]
    nodes: Annotated[int, Column("nodes")]
    zones: Annotated[dict[str, int], Column("zones")]
    """The number of nodes in each zone."""
    price: Annotated[float | None, Column("price/h", form=".3g")] = None
    """The hourly price of all these nodes, None if unknown."""
    like: Annotated[str, Column("example node")] = ""
    """A node of the cluster that the nodes resemble."""
    peculiarities: Annotated[tuple[str, ...], Column("distinguishing labels and taints", show_all=True)] = ()
    """The labels and taints in which the nodes differ from others of their pool; empty if the pool has one shape."""


class SizingAlternative(Document, frozen=True):
    """A set of nodes that takes all pods, except those that no set takes."""

    shapes: Annotated[str, Column("set", keep=True)]
    kinds: Annotated[int, Column("shapes")]
    """The number of shapes."""
    nodes: Annotated[int, Column("nodes")]
    price: Annotated[float | None, Column("price/h", form=".3g")] = None
    cpu: Annotated[float, Column("requested cpu, %", form=".0f")] = 0
    """The requested share of CPU in percent."""
    memory: Annotated[float, Column("requested memory, %", form=".0f")] = 0
    """The requested share of memory in percent."""


class HomelessPods(Document, frozen=True):
    """Pods that got no node, and kube-scheduler's message for them."""

    pods: Annotated[tuple[str, ...], Column("pods", keep=True)]
    message: Annotated[str, Column("reason")]


class NodeSizing(Report, frozen=True):
    """The nodes that a cluster needs."""

    pods: int = 0
    """The number of pods to place."""
    nodes: int = 0
    price: float | None = None
    """The hourly price of the best set, if all prices are known."""
    bound: float = 0
    """The lower bound by requests: money per hour if prices are known, otherwise nodes."""
    bound_pods: int = 0
    """The number of pods for which the lower bounds hold: those that fit on some node."""
    proven: float = 0
    """A higher lower bound, proved by replays of all cheaper sets."""
    cheapest: bool = False
    """True if replays proved that no cheaper set takes all pods, with the nodes of a shape alternating between
    zones.
    """
    refuted: int = 0
    """The number of cheaper sets that do not take all pods."""
    shapes: tuple[SizedShape, ...] = ()
    """The best set. In a replay, each pod got a node of it."""
    alternatives: tuple[SizingAlternative, ...] = ()
    """All sets that were found, best first."""
    pools: tuple[PoolChange, ...] = ()
    """The cluster's pools now and with the best set."""
    never: tuple[HomelessPods, ...] = ()
    """Pods that no set takes, or that the best set leaves out if the search ended early."""
    loses_node: tuple[str, ...] = ()
    """The pods in `never` that run on a node now, so that the set is worse for them than the cluster is."""
    nodes_to_keep: dict[str, tuple[str, ...]] = {}
    """Node of the cluster -> pods in `loses_node` that are bound to it by its hostname, such as by a local volume."""
    hints: tuple[str, ...] = ()
    """The resources or labels that nodes of instance types lack for the pods that get no node."""
    not_created: tuple[NotCreated, ...] = ()
    """Pods of manifests that the API server would deny."""
    tried: int = 0
    """The number of starting sets that were searched to the end."""
    candidates: int = 0
    """The number of starting sets."""
    complete: bool = True
    """True if all starting sets were searched to the end."""
    solver: bool = False
    """True if a solver proposed the sets."""
    zone_loss: bool = False
    """True if all pods also get nodes after the loss of any zone."""
    scale: float = 1
    doubts: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    interrupted: bool = False
    undecided: bool = False
    unknown: tuple[UnknownKind, ...] = ()
    kind: str = "NodeSizing"

    @property
    def homeless(self) -> int:
        """The number of pods without a node."""
        return sum(len(group.pods) for group in self.never)

    @property
    def good(self) -> bool:
        """True if all pods are created and get a node."""
        has_failures = bool(self.never or self.not_created)
        has_enough_nodes = bool(self.nodes) or not self.pods
        return has_enough_nodes and not has_failures

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many nodes take the pods, their price, the lower bound, and how many pods get no node.

        Pods that run now and would get no node come first.
        """
        outcome = f"{self._describe_best_set()}{self._describe_unplaced_pods()}{self._describe_bound_of_more_pods()}"
        return (f"{self._describe_pods_losing_nodes()}{outcome}{describe_doubt(self.unknown)}",)

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def _describe_best_set(self) -> str:
        """Describe the best set: its number of nodes, their price if it is known, and the lower bound.

        The text also covers the cases that no set was found or no nodes are needed.
        """
        taken_pods = counted(self.pods - self.homeless, "pod")
        if not self.nodes and self.pods > self.homeless:
            return f"No set of nodes was found for {taken_pods}"
        if not self.nodes:
            return "No nodes are needed"
        if self.price is None:
            cost = ""
            lower_bound = f"{int(self.bound):,}"
        else:
            cost = f" for {format_price(self.price)} an hour"
            lower_bound = format_price(self.bound)
        if self.homeless:
            taken_pods = f"{self.pods - self.homeless:,} of {counted(self.pods, 'pod')}"
        node_set = f"{counted(self.nodes, 'node')}{cost} can run {taken_pods}"
        if self.leaves_out_placeable_pods:  # the bound is for more pods, so that the set may be below it
            return node_set
        return f"{node_set}; their requests alone need at least {lower_bound}{self._describe_gap_to_bound()}"

    def _describe_bound_of_more_pods(self) -> str:
        """Describe a lower bound that counts pods that the best set leaves out, to append, or return ""."""
        if not self.nodes or not self.leaves_out_placeable_pods:
            return ""
        bound = counted(int(self.bound), "node") if self.price is None else f"{format_price(self.bound)} an hour"
        pods = counted(self.bound_pods, "pod")
        fit = agreeing(self.bound_pods, "fits", "fit")
        subject = f"all {pods}" if self.bound_pods == self.pods else f"the {pods} that {fit} on an empty node"
        return f". By their requests alone, {subject} need at least {bound}"

    @property
    def leaves_out_placeable_pods(self) -> bool:
        """True if the best set leaves out pods that would fit on some node, because the search ended early."""
        return self.pods - self.homeless < self.bound_pods

    @property
    def keep_warning(self) -> str:
        """The sentence that names the nodes to keep for pods that no other node can take, empty if there are none."""
        if not self.nodes_to_keep:
            return ""
        pods = [pod for node_pods in self.nodes_to_keep.values() for pod in node_pods]
        are = agreeing(len(pods), "is bound to its node", "are bound to their nodes")
        nodes = join_first_few(tuple(self.nodes_to_keep), 8)
        noun = agreeing(len(self.nodes_to_keep), "node", "nodes")
        return f"keep {noun} {nodes}: {join_first_few(pods)} {are} by hostname (local volume or nodeSelector)"

    def _describe_gap_to_bound(self) -> str:
        """Describe how far the best set is above the lower bound, as a parenthesis to append to a sentence.

        The text is " (5% above that)", for example. If replays proved that no cheaper set takes all pods, the text also
        says how many cheaper sets were refuted. It is empty if the set is less than half a percent above the bound.
        """
        cost = self.nodes if self.price is None else self.price
        gap = 100 * (cost / self.bound - 1) if self.bound else 0.0
        if gap < 0.5:
            return ""
        refuted = ""
        if self.cheapest and self.refuted == 1:
            refuted = "; the only cheaper set does not take them"
        elif self.cheapest and self.refuted:
            refuted = f"; none of {self.refuted:,} cheaper sets takes them"
        return f" ({gap:.0f}% above that{refuted})"

    def _describe_unplaced_pods(self) -> str:
        """Describe how many pods get no node and which are not created, as the end of a sentence.

        Return "" if all pods are created and get a node.
        """
        text = ""
        if self.never:
            text += f"; {counted(self.homeless, 'pod')} {agreeing(self.homeless, 'gets', 'get')} no node"
        too_large = self.pods - self.bound_pods
        if self.nodes and self.leaves_out_placeable_pods and too_large:
            subject = "it" if self.homeless == too_large == 1 else f"{too_large:,} of them"
            text += f", and {subject} {agreeing(too_large, 'does', 'do')} not fit even on an empty node"
        if self.not_created:
            text += f"; not created: {describe_not_created(self.not_created)}"
        return text

    def _describe_pods_losing_nodes(self) -> str:
        """Describe the pods that run now and would get no node, as the beginning of the headline.

        Return "" if there are none.
        """
        if not self.loses_node:
            return ""
        number = len(self.loses_node)
        subject = f"{counted(number, 'pod')} that {agreeing(number, 'runs', 'run')} now"
        return f"Worse than now: {subject} would get no node ({first_few(self.loses_node)}). "

    @property
    def zone_warning(self) -> str:
        """A warning that more than half of the nodes are in one zone, or "" if there is nothing to warn about.

        There is no warning if all nodes are in one zone, or if the set survives the loss of a zone.
        """
        nodes_by_zone: Counter[str] = Counter()
        for shape in self.shapes:
            nodes_by_zone.update(shape.zones)
        if self.zone_loss or len(nodes_by_zone) < 2:
            return ""
        zone, nodes = nodes_by_zone.most_common(1)[0]
        if nodes * 2 <= self.nodes:
            return ""
        share = f"{nodes:,} of {self.nodes:,} nodes are in zone {zone}"
        effect = "so losing it may leave pods without a node"
        return f"{share}, {effect} (--keep-zone-loss chooses nodes on which all pods still fit without any one zone)"

    @property
    def choice_warning(self) -> str:
        """The sentence that says that another choice of kube-scheduler may leave a pod without a node."""
        return (
            "each set of nodes was replayed once: if kube-scheduler chooses differently among nodes with equal scores, "
            "a pod may stay Pending"
        )

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with the numbers of nodes and pods, and the pods that get no node or are not created.

        Warnings name nodes to keep, what new nodes lack, and a zone with most of the nodes. They also say that each set
        was replayed only once.
        """
        homeless_pods = tuple(ShortPods(len(group.pods), group.pods[0], "", group.message) for group in self.never)
        uncreated_workloads = tuple(workload.short_form for workload in self.not_created)
        warnings = [self.keep_warning, *self.hints]
        if self.shapes:
            warnings += [self.zone_warning, self.choice_warning]
        return replace(
            summary,
            warnings=tuple(filter(None, warnings)),
            pods=(*uncreated_workloads, *homeless_pods),
            figures={"nodes": self.nodes, "pods": self.pods},
        )
