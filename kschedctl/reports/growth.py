"""Which nodes an autoscaler would make for pods that find no room, as a part of a Simulation."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.text.counts import counted


class NewPoolNodes(Document, frozen=True):
    """New nodes of a pool in a zone, and how many pods they hold in the end."""

    pool: Annotated[str, Column(keep=True)]
    zone: Annotated[str, Column()]
    new: Annotated[int, Column()]
    pods: Annotated[int, Column("new pods")]


class NeverScheduled(Document, frozen=True):
    """Pods without a node in the end: ``message`` is kube-scheduler's, ``autoscaler`` why no node comes for them."""

    pods: Annotated[tuple[str, ...], Column(keep=True)]
    message: Annotated[str, Column(tone=Tone.VERBATIM)]
    autoscaler: Annotated[str, Column(tone=Tone.VERBATIM)]
    causes: Annotated[tuple[str, ...], Column("what stops it", lines=True)] = ()
    """What keeps node groups or NodePools from making a node for these pods, in our words."""


class NodeGrowth(Document, frozen=True):
    """``loops``: how often the autoscaler made nodes, ``nodes``: how many; ``placements``: pod -> node for those that
    found no room before. ``sources``: where its groups and flags are from; ``doubts``: what is not certain of them.
    """

    autoscaler: str
    loops: int = 0
    nodes: int = 0
    pools: tuple[NewPoolNodes, ...] = ()
    never: tuple[NeverScheduled, ...] = ()
    placements: dict[str, str] = msgspec.field(default_factory=dict)
    evicted: int = 0
    sources: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    @property
    def without(self) -> int:
        """How many pods never get a node."""
        return sum(len(pods.pods) for pods in self.never)

    @property
    def sentence(self) -> str:
        """``6 new nodes (4 of b, 2 a zone; 2 of c)``."""
        if not self.nodes:
            return f"no node comes by {self.autoscaler}"
        pools: dict[str, list[int]] = {}
        for pool in self.pools:
            pools.setdefault(pool.pool, []).append(pool.new)
        parts = [f"{sum(new):,} of {pool}{_a_zone(new)}" for pool, new in pools.items()]
        return f"{counted(self.nodes, 'new node')} ({'; '.join(parts)})"


def _a_zone(new: list[int]) -> str:
    return f", {new[0]:,} a zone" if len(new) > 1 and len(set(new)) == 1 else ""
