"""Nodes for all workloads, as a document: apiVersion kschedctl.dev/v1, kind NodeSizing."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated, refused
from kschedctl.reports.pool_change import PoolChange
from kschedctl.reports.summary import Report, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, doubt
from kschedctl.text.counts import counted


class SizedShape(Document, frozen=True):
    """``nodes`` of a shape, in each of its ``zones``, and what they cost an hour together, where that is known.

    ``like``: the node of the cluster that they are like.
    """

    shape: Annotated[str, Column("shape", keep=True)]
    nodes: Annotated[int, Column("nodes")]
    zones: Annotated[dict[str, int], Column("zones")]
    price: Annotated[float | None, Column("price/h", form=".4f")] = None
    like: Annotated[str, Column("like")] = ""


class SizingAlternative(Document, frozen=True):
    """A set of nodes, of so many ``kinds``, that takes all pods; percent of cpu and memory that is requested."""

    shapes: Annotated[str, Column("nodes", keep=True)]
    kinds: Annotated[int, Column("shapes")]
    nodes: Annotated[int, Column("number")]
    price: Annotated[float | None, Column("price/h", form=".4f")] = None
    cpu: Annotated[float, Column("cpu, %", form=".0f")] = 0
    memory: Annotated[float, Column("memory, %", form=".0f")] = 0


class HomelessPods(Document, frozen=True):
    """Pods that got no node of any set, and what kube-scheduler says of them."""

    pods: Annotated[tuple[str, ...], Column("pods", keep=True)]
    message: Annotated[str, Column("message", tone=Tone.VERBATIM)]


class NodeSizing(Report, frozen=True):
    """``shapes``: the best set of nodes that was found for ``pods`` pods, each of which gets a node in a replay of all;
    ``alternatives``: all that were found, the best first; ``pools``: those of the cluster, now and with the best set;
    ``bound``: what is needed at least by what pods request, in money where
    prices are known, else in nodes; ``proven``: at least by replays of all that cost less, of which ``refuted`` do not
    take all pods; ``cheapest``: none does, with nodes of each shape in its zones in turn. ``never``: pods that got no
    node of any set; where the search ended before one took all others, also those that got none of the best. Of
    ``candidates``, sets to begin with, so many were ``tried``; ``complete``: all, to the end. ``solver``: a solver
    found them. ``zone_loss``: all pods get nodes after the loss of any zone, too. ``not_created``: of manifests, those
    that the API server refuses.
    """

    pods: int = 0
    nodes: int = 0
    price: float | None = None
    bound: float = 0
    proven: float = 0
    cheapest: bool = False
    refuted: int = 0
    shapes: tuple[SizedShape, ...] = ()
    alternatives: tuple[SizingAlternative, ...] = ()
    pools: tuple[PoolChange, ...] = ()
    never: tuple[HomelessPods, ...] = ()
    not_created: tuple[NotCreated, ...] = ()
    tried: int = 0
    candidates: int = 0
    complete: bool = True
    solver: bool = False
    zone_loss: bool = False
    scale: float = 1
    doubts: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    interrupted: bool = False
    undecided: bool = False
    unknown: tuple[UnknownKind, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "NodeSizing"

    @property
    def homeless(self) -> int:
        """How many pods got no node."""
        return sum(len(group.pods) for group in self.never)

    @property
    def good(self) -> bool:
        """Whether all pods are created and get a node."""
        return not (self.never or self.not_created) and (bool(self.nodes) or not self.pods)

    def first_line(self) -> tuple[str, ...]:
        """How many nodes, what they cost, and what is needed at least."""
        return (f"{self._set()}{self._but()}{doubt(self.unknown)}",)

    def _set(self) -> str:
        taken = counted(self.pods - self.homeless, "pod")
        if not self.nodes:
            return f"No set of nodes was found for {taken}" if self.pods > self.homeless else "No nodes are needed"
        cost = "" if self.price is None else f" for {self.price:.4f} an hour"
        at_least = f"{self.bound:.4f}" if self.price is not None else f"{int(self.bound):,}"
        takes = "takes" if self.nodes == 1 else "take"
        return f"{counted(self.nodes, 'node')}{cost} {takes} {taken}; at least {at_least} by requests{self._gap()}"

    def _gap(self) -> str:
        """How far above the bound it is, in percent."""
        best = self.nodes if self.price is None else self.price
        gap = 100 * (best / self.bound - 1) if self.bound else 0.0
        if gap < 0.5:
            return ""
        none = f"none of {self.refuted:,} cheaper sets does" if self.refuted > 1 else "the only cheaper set does not"
        cheaper = f"; {none}" if self.cheapest and self.refuted else ""
        return f" ({gap:.0f} % above it{cheaper})"

    def _but(self) -> str:
        homeless = f"; {counted(self.homeless, 'pod')} get{'s' * (self.homeless == 1)} no node" if self.never else ""
        return f"{homeless}; not created: {refused(self.not_created)}" if self.not_created else homeless

    def summarized(self, summary: Summary) -> Summary:
        """With the pods that got no node, or were not created."""
        never = tuple(ShortPods(len(group.pods), group.pods[0], "", group.message) for group in self.never)
        lacking = tuple(workload.shortened for workload in self.not_created)
        return replace(summary, pods=(*lacking, *never), figures={"nodes": self.nodes, "pods": self.pods})
