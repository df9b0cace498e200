"""Whether an autoscaler would launch a node for a pod, as a part of its explanation."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document


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
