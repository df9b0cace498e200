"""Nodes drained, as a document: apiVersion kschedctl.dev/v1, kind Drain."""

from __future__ import annotations

from kschedctl.reports.explanation import Document
from kschedctl.reports.simulation import EvictedPod, Headroom, UnplacedPods


class MovedPod(Document, frozen=True):
    """A pod that gets another node; ``tied``: how many nodes were equally good."""

    pod: str
    workload: str
    source: str
    target: str
    tied: int = 1


class BlockedPod(Document, frozen=True):
    """A pod that cannot be evicted, and why."""

    pod: str
    workload: str
    node: str
    why: str
    budgets: tuple[str, ...] = ()


class Drain(Document, frozen=True):
    """``drained``: nothing is left on the nodes but what stays there; ``safe``: every pod that goes gets another node
    and nobody else is evicted for it.

    ``staying``: pods of DaemonSets and static pods. ``lost``: pods that nobody makes anew. ``unplaced``: pods that
    were evicted and fit nowhere else.
    """

    nodes: tuple[str, ...]
    seed: int
    drained: bool
    safe: bool
    moved: tuple[MovedPod, ...] = ()
    unplaced: tuple[UnplacedPods, ...] = ()
    blocked: tuple[BlockedPod, ...] = ()
    evicted: tuple[EvictedPod, ...] = ()
    lost: tuple[str, ...] = ()
    staying: int = 0
    headroom: tuple[Headroom, ...] = ()
    not_replayed: tuple[str, ...] = ()
    interrupted: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Drain"
