"""The report of `consolidate`: apiVersion kschedctl.dev/v1, kind Consolidation."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kschedctl.commands.audit.packing.report import describe_condition
from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.placements import NO_POOL, MovedPod, PoolChange
from kschedctl.reports.report import Report
from kschedctl.reports.summary import CostKind, FixCost, ShortFix, ShortPods, Summary, list_eviction_costs
from kschedctl.reports.unknown import VERDICT, UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, counted, first_few, format_price, join_first_few
from kschedctl.text.printable import describe_misfit, rewrite_fit_error

ZONES_NOT_EXAMINED = (
    "Not checked: whether the cluster can still lose a zone afterwards (--keep-zone-loss keeps the nodes for this)."
)

EMPTIEST_FIRST = "The emptiest nodes are tried first, whatever they cost: another order may save more."


class RemovableNode(Document, frozen=True):
    """A node that can be removed once the nodes before it are."""

    node: Annotated[str, Column("node", keep=True)]
    pool: Annotated[str, Column(keep=True, words=NO_POOL)]
    pods: Annotated[int, Column("pods to move")]
    offers: Annotated[dict[str, int], Column("saves")]
    """The node's allocatable resources."""
    price: Annotated[float | None, Column("price/h", form=".3g")] = None
    """The node's hourly price, None if unknown."""
    autoscaler: Annotated[str, Column("autoscaler")] = ""
    """The verdict of the cluster's autoscaler, if it was compared."""
    moves: tuple[MovedPod, ...] = ()
    """The pods that move to other nodes."""


class StayingNode(Document, frozen=True):
    """A node that has to stay, with the first reason."""

    node: Annotated[str, Column("node", keep=True)]
    pool: Annotated[str, Column(keep=True, words=NO_POOL)]
    why: Annotated[str, Column("reason")]
    pod: str = ""
    """The pod that keeps the node, if a pod does."""
    autoscaler: Annotated[str, Column("autoscaler")] = ""
    lets_run: tuple[str, ...] = ()
    """The pending pods (`namespace/name`) that fit there once its pods have moved, or cannot run on any other node."""
    message: str = ""
    """kube-scheduler's message if `pod` fits nowhere else."""
    cordoned_in_replay: int = 0
    """The number of nodes that count as cordoned in the message because the replay removes them, with this one."""

    @property
    def short_why(self) -> str:
        """The reason in plain words."""
        if rewrite_fit_error(self.message) == self.message:
            return self.why
        return describe_misfit(self.pod, self.message, closed=self.cordoned_in_replay)


class ZoneLoss(Document, frozen=True):
    """The number of pods without a node after the loss of a zone, now and once the nodes are removed."""

    zone: Annotated[str, Column("zone", keep=True)]
    before: Annotated[int, Column("before")]
    after: Annotated[int, Column("after")]


class RequestedShare(Document, frozen=True):
    """The requested share of a resource of all workers in percent, now and once the nodes are removed."""

    resource: Annotated[str, Column(keep=True)]
    before: Annotated[float, Column(form=".1f")]
    after: Annotated[float, Column(form=".1f")]


class NodeConsolidation(Report, frozen=True):
    """The nodes that could be removed."""

    removable: tuple[RemovableNode, ...] = ()
    """The nodes that can be removed in this order. Each was drained within budgets, with every pod placed again."""
    staying: tuple[StayingNode, ...] = ()
    """The nodes that have to stay: those that were tried, and cordoned ones without which a pending pod cannot run."""
    nodes: int = 0
    candidates: int = 0
    tried: int = 0
    """The number of candidates that were tried."""
    complete: bool = True
    left_out: dict[str, int] = {}
    """The number of nodes that were no candidates, by reason. Cordoned nodes that are needed or empty are left out."""
    not_tried: dict[str, tuple[str, ...]] = {}
    """The names of these nodes, by reason. Nodes of other pools are left out."""
    cordoned_empty: tuple[str, ...] = ()
    """The cordoned nodes without pods other than those that belong to the nodes: they can be removed as they are."""
    saves: dict[str, int] = {}
    """The resources of the removable nodes."""
    price: float | None = None
    """The hourly price of the removable nodes whose price is known."""
    fitting: int = 0
    """The number of pending pods that fit now. They are placed before the first drain."""
    requested: tuple[RequestedShare, ...] = ()
    """The requested shares on ready worker nodes."""
    zones: tuple[ZoneLoss, ...] = ()
    """The pods that the loss of each zone leaves without a node, if requested."""
    pools: tuple[PoolChange, ...] = ()
    """The pools before and after."""
    autoscaler: str = ""
    commands: tuple[str, ...] = ()
    loses_data: tuple[str, ...] = ()
    """The pods that move and whose emptyDir volumes are deleted."""
    ask_to_stay: tuple[str, ...] = ()
    """The pods that move although their annotations ask autoscalers not to evict them."""
    outages: tuple[str, ...] = ()
    """The workloads that have no running pod until replacements run."""
    starting_over: tuple[str, ...] = ()
    """The pods of Jobs, whose replacements start from the beginning (`namespace/name`)."""
    slow_pods: dict[str, int] = {}
    """The pods with a long grace period, each with the seconds that it may take to end."""
    pool: str = ""
    """The only pool whose nodes may be removed, empty for all pools."""
    pods_of_unready_nodes: tuple[str, ...] = ()
    """The pods of nodes that are not ready. They count as pending, so that room remains for them on other nodes."""
    waiting_workloads: tuple[str, ...] = ()
    """The objects that wait for nodes but whose pods are not placed: in queues or of other schedulers."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    kind: str = "Consolidation"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many nodes could be removed, with the moves and savings, and the autoscaler's summary if any."""
        text = f"{self._build_answer()}{describe_doubt(self.unknown)}"
        return (text, self.autoscaler) if self.autoscaler else (text,)

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def _build_answer(self) -> str:
        """Return how many nodes could be removed, with the moves and savings, and whether all candidates were tried."""
        text = self._describe_removable_count()
        moved_pods = sum(node.pods for node in self.removable)
        if moved_pods:
            text += f" by moving {counted(moved_pods, 'pod')}"
        if self.price:
            text += f", saving {format_price(self.price)} an hour"
        if self.removable:
            text += describe_condition(self.waiting_workloads)
        needed_nodes = [node.node for node in self.staying if node.lets_run]
        if needed_nodes:
            number = len(needed_nodes)
            needed = counted(number, "other node" if self.removable else "node")  # cordoned nodes are not checked
            are = agreeing(number, "is", "are")
            text += (
                f"; {needed}{self._describe_unchecked(number)} {are} kept for pending pods ({first_few(needed_nodes)})"
            )
        text += self._describe_need_for_nodes()
        if self.cordoned_empty and not self.has_unread_pods:
            names = join_first_few(self.cordoned_empty)
            are = agreeing(len(self.cordoned_empty), "is", "are")
            only = "only " if self.complete and not self.removable else ""
            text += f"; {only}{names}, which {are} cordoned and empty, can be removed"
        if not self.complete:
            were = agreeing(self.tried, "was", "were")
            text += f"; {self.tried:,} of {counted(self.candidates, 'candidate')} {were} tried"
        return text

    def _describe_unchecked(self, needed: int) -> str:
        """Describe how many of the `needed` nodes, which pending pods need, were not checked because they are cordoned.

        Return "" if there are none, or if the search did not reach its end.
        """
        unchecked = len(self.staying) + len(self.removable) - self.tried
        if not self.complete or not self.tried or not 0 < unchecked <= needed:
            return ""
        if unchecked == needed:
            return agreeing(needed, ", which is cordoned and was not checked,", ", all cordoned and not checked,")
        are = agreeing(unchecked, "is cordoned and was not checked", "are cordoned and were not checked")
        return f", {unchecked:,} of which {are},"

    def _describe_need_for_nodes(self) -> str:
        """Describe how many pods of nodes that are not ready need the remaining nodes, as the end of a sentence."""
        if not self.pods_of_unready_nodes:
            return ""
        return f"; room is kept for {counted(len(self.pods_of_unready_nodes), 'pod')} of nodes that are not ready"

    def _describe_removable_count(self) -> str:
        """Describe how many nodes could be removed, or how many were tried if none could be."""
        if self.has_unread_pods:
            unknown_nodes = f"which of {self.nodes:,} nodes" if self.nodes > 1 else "whether the only node"
            return f"Not known {unknown_nodes} can be removed"
        if self.removable:
            return f"{len(self.removable):,} of {counted(self.nodes, 'node')} can be removed"
        if not self.nodes:
            return "There are no nodes"
        if self.pool:
            return f"None of the {counted(self.candidates, 'candidate')} in pool {self.pool} can be removed"
        subject = f"None of {counted(self.nodes, 'node')}"
        if 0 < self.tried < self.nodes:
            subject = (
                f"None of the {self.tried:,} nodes checked" if self.tried > 1 else "Not even the only node checked"
            )
        return f"{subject} can be removed"

    def describe_untried_nodes(self) -> str:
        """Describe which nodes were no candidates, and why. Nodes of other pools are left out."""
        return "; ".join(f"{first_few(nodes)} ({reason})" for reason, nodes in self.not_tried.items())

    @property
    def has_unread_pods(self) -> bool:
        """True if not all pods were read, so any node may run further pods."""
        return any(entry.kind == "Pod" and entry.affects == VERDICT for entry in self.unknown)

    @property
    def ignores_prices(self) -> bool:
        """True if another order of the nodes might save more: prices are known, and nodes stay."""
        return bool(self.price and self.staying)

    def list_costs(self) -> tuple[FixCost, ...]:
        """Return what the drains cost besides evictions: deleted data, and pods that ask not to be evicted."""
        return list_eviction_costs(self)

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with one fix that removes all removable nodes, and the staying nodes with their reasons.

        Warnings say which zone losses get worse, what was not checked, and what an autoscaler does.
        """
        names = tuple(node.node for node in self.removable)
        fix_text = f"drain and remove {first_few(names)}"
        moved_pods = sum(node.pods for node in self.removable)
        costs: tuple[FixCost, ...] = ()
        if moved_pods:
            eviction_cost = FixCost(CostKind.EVICTS, f"evicts {counted(moved_pods, 'pod')}", moved_pods)
            costs = (*self.list_costs(), eviction_cost)
        drawback = "; ".join(cost.text for cost in costs)
        fix = ShortFix(fix_text, "platform", but=drawback, nodes=names[:3], commands=self.commands, costs=costs)
        worse_zones = (zone for zone in self.zones if zone.after > zone.before)
        zone_warnings = (
            f"losing zone {zone.zone} would then leave {counted(zone.after, 'pod')} without a node, now {zone.before:,}"
            for zone in worse_zones
        )
        warnings = (
            *((self.autoscaler,) if self.autoscaler else ()),
            *((f"not tried: {self.describe_untried_nodes()}",) if self.not_tried else ()),
            *zone_warnings,
            *((ZONES_NOT_EXAMINED,) if names and not self.zones else ()),
        )
        return replace(
            summary,
            subject=counted(self.nodes, "node"),
            headline=self._build_answer(),  # the summary has its own field for doubts
            pods=tuple(ShortPods(1, node.node, "", node.short_why) for node in self.staying),
            fixes=(fix,) if names else (),
            warnings=warnings,
            figures={"removable": len(names), "staying": len(self.staying), "tried": self.tried},
        )
