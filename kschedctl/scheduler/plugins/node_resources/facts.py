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

    names_best_node = True

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

        >>> Insufficient("cpu", requested=6000, free=2260, offered=8000, largest=8000).words()
        'needs 6 CPUs; 2.26 of 8 free'
        >>> Insufficient("cpu", requested=9000, free=2000, offered=4000, largest=8000).words()
        'needs 9 CPUs; 2 of 4 free; no node is that large'
        >>> print(Insufficient("cpu", 2000, 0, 12000, 12000, (DeferredResize("shop/big", 12000, 1000),)).words())
        needs 2 CPUs; 0 of 12 free; shop/big reserves 12 for a deferred resize but runs with 1
        """
        (requested, free, offered), unit = names.format_for_sentence(
            self.resource, self.requested, self.free, self.offered
        )
        if not self.largest:
            return f"needs {requested} {unit}; no node offers any"
        text = f"needs {requested} {unit}; {free} of {offered} free"
        return f"{text}{self._describe_size_limit()}{self._describe_resizes()}"

    def describe_cause(self, node: str, scope: str) -> str:
        """Describe the requested amount and the largest free amount, which is on `node`.

        >>> print(Insufficient("cpu", 6000, 2260, 8000, 8000).describe_cause("w4", " (all 9 nodes)"))
        needs 6 CPUs; the most free is 2.26, on w4 (all 9 nodes)
        """
        (requested, free), unit = names.format_for_sentence(self.resource, self.requested, self.free)
        if not self.largest:
            return f"needs {requested} {unit}; no node offers any{scope}"
        nominated = ", after reserving room for nominated pods" if self.nominated else ""
        limits = f"{self._describe_size_limit()}{self._describe_resizes()}"
        return f"needs {requested} {unit}; the most free is {free}, on {node}{nominated}{limits}{scope}"

    def _describe_size_limit(self) -> str:
        """Return a clause that says that no node is large enough, or an empty string."""
        return "; no node is that large" if self.exceeds_every_node else ""

    def _describe_resizes(self) -> str:
        """Return a clause about the pods whose deferred resize reserves some of the resource, or an empty string."""
        if not self.deferred_resizes:
            return ""
        first, *others = self.deferred_resizes
        (reserved, running), _ = names.format_for_sentence(self.resource, first.reserved, first.running)
        more = ""
        if others:
            more = f", and {counted(len(others), 'more pod')} {'do' if len(others) > 1 else 'does'} so"
        return f"; {first.pod} reserves {reserved} for a deferred resize but runs with {running}{more}"


class TooManyPods(Fact, frozen=True):
    """A node that already has its maximum number of pods."""

    pods: int
    limit: int
    """The maximum number of pods of the node."""

    def words(self) -> str:
        return f"{self.pods} of {counted(self.limit, 'pod')}"
