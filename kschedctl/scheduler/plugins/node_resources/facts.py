"""What stands behind a refusal of NodeResourcesFit, with its words."""

from __future__ import annotations

from kschedctl.api import resource_names as names
from kschedctl.scheduler.framework.facts import Fact


class Insufficient(Fact, frozen=True):
    """``free`` of what the node ``offered`` is less than ``requested``; ``largest``: the most that any node offers."""

    resource: str
    requested: int
    free: int
    offered: int
    largest: int

    @property
    def nowhere(self) -> bool:
        """Whether no node has that much even when it is empty."""
        return self.requested > self.largest

    def words(self) -> str:
        """
        >>> Insufficient("cpu", requested=6000, free=2000, offered=8000, largest=8000).words()
        'cpu: 6 requested, 2 free of 8'
        >>> Insufficient("cpu", requested=9000, free=2000, offered=4000, largest=8000).words()
        'cpu: 9 requested, 2 free of 4; no node is that large'
        """
        asked, free, offered = names.alike(self.resource, self.requested, self.free, self.offered)
        nowhere = "; no node is that large" if self.largest else "; no node offers any"
        return f"{self.resource}: {asked} requested, {free} free of {offered}{nowhere if self.nowhere else ''}"


class TooManyPods(Fact, frozen=True):
    """As many pods as the node may have, or more, are there."""

    pods: int
    limit: int

    def words(self) -> str:
        return f"{self.pods} of {self.limit} pods"
