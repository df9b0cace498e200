"""Facts behind the rejections of NodeResourcesFit."""

from __future__ import annotations

from kschedctl.api import resource_names as names
from kschedctl.scheduler.framework.facts import Detail, Fact
from kschedctl.text.counts import counted


class DeferredResize(Detail, frozen=True):
    """A pod on the node whose deferred in-place resize reserves more of a resource than the pod currently has."""

    pod: str
    reserved: int
    running: int


class Insufficient(Fact, frozen=True):
    """A resource of which a node has less free than the pod requests."""

    resource: str
    requested: int
    free: int
    """The free amount on the node."""
    offered: int
    """The allocatable amount of the node."""
    largest: int
    """The largest allocatable amount of any node."""
    deferred_resizes: tuple[DeferredResize, ...] = ()
    """The deferred resizes on the node that reserve more of the resource than is used, largest difference first."""

    @property
    def exceeds_every_node(self) -> bool:
        """True if the request is larger than any node, even an empty one."""
        return self.requested > self.largest

    def words(self) -> str:
        """Describe the requested and the free amounts, and the deferred resizes that reserve some of the resource.

        >>> Insufficient("cpu", requested=6000, free=2000, offered=8000, largest=8000).words()
        'cpu: 6 requested, 2 free of 8'
        >>> Insufficient("cpu", requested=9000, free=2000, offered=4000, largest=8000).words()
        'cpu: 9 requested, 2 free of 4; no node is that large'
        >>> print(Insufficient("cpu", 2000, 0, 12000, 12000, (DeferredResize("shop/big", 12000, 1000),)).words())
        cpu: 2 requested, 0 free of 12; shop/big reserves 12 for a deferred resize but runs with 1
        """
        first = self.deferred_resizes[0] if self.deferred_resizes else DeferredResize("", 0, 0)
        amounts = (self.free, self.offered, *((first.reserved, first.running) if first.pod else ()))
        requested, free, offered, *resize = names.format_in_one_unit(self.resource, self.requested, *amounts)
        text = f"{self.resource}: {requested} requested, {free} free of {offered}"
        if self.exceeds_every_node:
            text += "; no node is that large" if self.largest else "; no node offers any"
        if not resize:
            return text
        remaining = len(self.deferred_resizes) - 1
        others = ""
        if remaining:
            others = f", and {remaining} more {'pods do' if remaining > 1 else 'pod does'} so"
        return f"{text}; {first.pod} reserves {resize[0]} for a deferred resize but runs with {resize[1]}{others}"


class TooManyPods(Fact, frozen=True):
    """A node that already has its maximum number of pods."""

    pods: int
    limit: int
    """The maximum number of pods of the node."""

    def words(self) -> str:
        return f"{self.pods} of {counted(self.limit, 'pod')}"
