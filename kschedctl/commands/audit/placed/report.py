"""The section of an audit about pods that run where the rules would not put them, and what double booking leaves."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.section import Section


class MisplacedPods(Document, frozen=True, kw_only=True):
    """``pods`` of a workload that ``refuses``, a plugin or the effect of a taint, would keep away from where they are.

    ``reason``: in the scheduler's words. ``examples``: some of them, each with its node.
    """

    refuses: Annotated[str, Column("refused by")]
    reason: Annotated[str, Column("reason")]
    workload: Annotated[str, Column("pods of", keep=True, place=-1)]
    pods: Annotated[int, Column(place=-1)]
    examples: Annotated[tuple[str, ...], Column("such as", beneath="such as")]


class Arrival(Document, frozen=True, kw_only=True):
    """A pod on an overcommitted node, what it requests, and ``at`` what time it was bound or, else, started.

    ``beyond``: with it the sum went beyond what the node offers, or was so already. ``static``: of a manifest of the
    node itself, so that no scheduler was asked.
    """

    pod: str
    requests: int
    at: str = ""
    beyond: bool = False
    static: bool = False


class OvercommittedNode(Document, frozen=True, kw_only=True):
    """Pods request more of a resource together than their node offers: millicores, bytes or units.

    ``arrivals``: the last that came, in the order of time; where times are missing, by what they request. ``gap``: the
    seconds between the first that was too much and the one before it, None where that is not known.
    """

    node: str
    resource: str
    requested: int
    allocatable: int
    pods: int
    arrivals: tuple[Arrival, ...] = ()
    gap: float | None = None


class RefusedPods(Document, frozen=True, kw_only=True):
    """Pods that failed as their kubelets refused them for a ``reason``, after a scheduler had put them there.

    ``gone``: how many more there were, of which only an event is left. ``last``: when the latest one was taken in;
    ``message``: what was said of that one.
    """

    reason: Annotated[str, Column("kubelet reason", keep=True)]
    pods: Annotated[int, Column("failed")]
    gone: Annotated[int, Column()] = 0
    nodes: Annotated[tuple[str, ...], Column("on", beneath="on")] = ()
    examples: tuple[str, ...] = ()
    last: Annotated[str, Column("last at", beneath="last at")] = ""
    message: str = ""


class OrphanedPods(Document, frozen=True, kw_only=True):
    """Pods bound to a node that is not there; ``leaving``: how many of them are being deleted."""

    node: str
    pods: int
    leaving: int = 0
    examples: tuple[str, ...] = ()


class SharedDevice(Document, frozen=True, kw_only=True):
    """A device that was allocated to several claims, and is not made to be shared."""

    device: str
    claims: tuple[str, ...]


class PlacedSection(Section, frozen=True, kw_only=True, tag="placed"):
    """``judged``: the bound pods whose places were replayed; ``others``: those that no profile serves."""

    judged: int = 0
    others: int = 0
    overcommitted: tuple[OvercommittedNode, ...] = ()
    misplaced: tuple[MisplacedPods, ...] = ()
    refused: tuple[RefusedPods, ...] = ()
    orphaned: tuple[OrphanedPods, ...] = ()
    shared_devices: tuple[SharedDevice, ...] = ()
