"""Whether an autoscaler would launch a node for a pod, as a part of its explanation."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.text.counts import counted


class PoolVerdict(Document, frozen=True, omit_defaults=True):
    """Whether a pool would launch a node for the pod alone; ``answer``: of what types, or why not, in its own words.

    ``missing``: all that it lacks to take the pod, the instance type that comes closest at the end; ``would_take``:
    whether one more of its nodes would take the pod, could it grow; ``plugin``: of kube-scheduler, which refuses that.
    """

    pool: Annotated[str, Column("pool", keep=True)]
    takes: bool
    answer: Annotated[str, Column("answer")]
    missing: Annotated[tuple[str, ...], Column("what is missing", lines=True)] = ()
    would_take: bool = False
    plugin: str = ""


class AutoscalerSaid(Document, frozen=True):
    """The autoscaler's last event about the pod. ``agrees``: the replay comes to the same."""

    message: str
    at: str = ""
    agrees: bool = True


class QueueShare(Document, frozen=True):
    """What the other waiting pods make of the nodes that an autoscaler adds for all of them."""

    nodes: int
    """How many nodes come for all waiting pods."""
    rivals: tuple[str, ...]
    """The other waiting pods that get a place on the new nodes."""
    placed: bool
    """Whether the pod gets a node in the end."""
    enough: int | None = None
    """How many new nodes would be enough for all, the pod among them; None if no number is."""
    growth: str = ""
    """The new nodes by pool, in words."""


class NewNode(Document, frozen=True):
    """``existing_node``: one that the autoscaler sees room on for the pod, so that it launches none.

    ``message``: what the autoscaler writes of the pod, where it launches nothing. ``seen_types``: how many instance
    types nodes prove, where no others are known: then that none fits is not certain. ``said``: by the autoscaler
    itself, where its events were read; ``sources``: where groups and flags are from; ``doubts``: what is not
    certain of them. ``differences``: where the autoscaler takes this pod otherwise than kube-scheduler.
    """

    autoscaler: str
    pools: tuple[PoolVerdict, ...] = ()
    existing_node: str = ""
    seen_types: int | None = None
    message: str = ""
    said: AutoscalerSaid | None = None
    sources: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    queue: QueueShare | None = None
    """What other waiting pods make of it, if there are any and a node would come for the pod alone."""

    @property
    def comes(self) -> bool:
        """Return whether a node would come for the pod alone."""
        return not self.existing_node and any(pool.takes for pool in self.pools)

    @property
    def closest(self) -> str:
        """The pool that lacks the fewest things, where none takes the pod and this is known."""
        refusing = [pool for pool in self.pools if pool.missing]
        if len(refusing) < 2 or any(pool.takes for pool in self.pools):
            return ""
        return min(refusing, key=lambda pool: len(pool.missing)).pool


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
