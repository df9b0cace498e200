"""Nodes that could go, as a document: apiVersion kschedctl.dev/v1, kind Consolidation."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.fix_costs import CostKind, FixCost
from kschedctl.reports.placements import MovedPod
from kschedctl.reports.pool_change import NO_POOL, PoolChange
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortFix, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, counted, first_few


class RemovableNode(Document, frozen=True):
    """A node that can go once those before it have: where its pods go, what it offers and costs an hour.

    ``autoscaler``: what the cluster's autoscaler says of it, as far as it was asked.
    """

    node: Annotated[str, Column("node", keep=True)]
    pool: Annotated[str, Column(keep=True, words=NO_POOL)]
    pods: Annotated[int, Column("pods move")]
    offers: Annotated[dict[str, int], Column("saves")]
    price: Annotated[float | None, Column("price/h", form=".4f")] = None
    autoscaler: Annotated[str, Column("autoscaler")] = ""
    moves: tuple[MovedPod, ...] = ()


class StayingNode(Document, frozen=True):
    """A node that has to stay, and the first reason: the ``pod`` that keeps it, if one does, and by which rule."""

    node: Annotated[str, Column("node", keep=True)]
    pool: Annotated[str, Column(keep=True, words=NO_POOL)]
    why: Annotated[str, Column("keeps it")]
    pod: str = ""
    autoscaler: Annotated[str, Column("autoscaler")] = ""


class UnitLoss(Document, frozen=True):
    """How many pods the loss of a zone leaves without a node, now and once the nodes have gone."""

    zone: Annotated[str, Column("loss of zone", keep=True)]
    before: Annotated[int, Column("not scheduled now")]
    after: Annotated[int, Column("then")]


class RequestedShare(Document, frozen=True):
    """The share of a resource of all workers that pods request, in percent, now and once the nodes have gone."""

    resource: Annotated[str, Column("requested", keep=True)]
    before: Annotated[float, Column("now, %", form=".1f")]
    after: Annotated[float, Column("then, %", form=".1f")]


class NodeConsolidation(Report, frozen=True):
    """``removable``: nodes that can go in this order, each drained within budgets on top of those before it, with every
    pod placed again. ``staying``: those that were tried in vain; ``tried`` of ``candidates`` were. ``left_out``: how
    many nodes were no candidates, by why.

    ``saves``: what the removable nodes offer together, ``price`` what they cost an hour, where that is known.
    ``zones``: what the loss of each leaves without a node, where that was asked for. ``pools``: before and after.
    ``commands``: in their order.
    """

    removable: tuple[RemovableNode, ...] = ()
    staying: tuple[StayingNode, ...] = ()
    nodes: int = 0
    candidates: int = 0
    tried: int = 0
    complete: bool = True
    left_out: dict[str, int] = {}
    saves: dict[str, int] = {}
    price: float | None = None
    requested: tuple[RequestedShare, ...] = ()
    zones: tuple[UnitLoss, ...] = ()
    pools: tuple[PoolChange, ...] = ()
    autoscaler: str = ""
    commands: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Consolidation"

    def first_line(self) -> tuple[str, ...]:
        """How many nodes could go, and what that saves."""
        moved = sum(node.pods for node in self.removable)
        could = f"{len(self.removable):,} of {counted(self.nodes, 'node')} could go"
        if not self.removable:
            could = f"None of {counted(self.nodes, 'node')} could go" if self.nodes else "There are no nodes"
        moving = f", with {counted(moved, 'pod')} placed again" if moved else ""
        saved = f", saving ${self.price:.4f} an hour" if self.price else ""
        were = agreeing(self.tried, "was", "were")
        tried = "" if self.complete else f"; {self.tried:,} of {counted(self.candidates, 'candidate')} {were} tried"
        return (
            f"{could}{moving}{saved}{tried}{describe_doubt(self.unknown)}",
            *([self.autoscaler] if self.autoscaler else []),
        )

    def summarized(self, summary: Summary) -> Summary:
        """With the nodes that could go as one fix."""
        names = tuple(node.node for node in self.removable)
        fix_text = f"drain and remove {first_few(names)}"
        moved = sum(node.pods for node in self.removable)
        costs = (FixCost(CostKind.EVICTS, f"evicts {counted(moved, 'pod')}", moved),) if moved else ()
        but = "; ".join(cost.text for cost in costs)
        fix = ShortFix(fix_text, "platform", but=but, nodes=names[:3], commands=self.commands[:1], costs=costs)
        figures = {"removable": len(names), "staying": len(self.staying), "tried": self.tried}
        return replace(summary, subject=counted(self.nodes, "node"), fixes=(fix,) if names else (), figures=figures)
