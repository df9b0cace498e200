"""How many more pods of some shapes fit, as a document: apiVersion kschedctl.dev/v1, kind Capacity."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kschedctl.api.observed.failed_creation import in_brief
from kschedctl.reports.document import Document
from kschedctl.reports.explanation import Elimination
from kschedctl.reports.searches import SearchStart
from kschedctl.reports.simulation import Headroom, Spread
from kschedctl.reports.summary import MOST_ENTRIES, Report, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted

EXCEEDED = "exceeded quota"


class RoomLeft(Document, frozen=True):
    """With so many new ``pods`` placed so many ``nodes`` take one more."""

    pods: int
    nodes: int


class ShapeCapacity(Document, frozen=True):
    """One shape of pod by itself, on the cluster as it is.

    ``fits`` pods more; ``limited``: no more than that were tried. ``nodes``: node -> new pods, ``domains``: topology
    key -> value -> new pods. ``message``: what stops the next one, in kube-scheduler's words, ``eliminations``: the
    same by reason; ``evicts``: the pods that preemption would evict for it, which ``fits`` does not count on.
    ``over_runs``: the least and the most over several runs. ``curve``: what is left as pods come, where it changes (of
    very many changes some); empty where a part of the nodes is looked at. ``created``: how many of them the API server
    creates, None for all, and ``refused``: what it says to the next one.
    """

    shape: str
    fits: int
    limited: bool
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    domains: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    verdict: str = ""
    message: str = ""
    eliminations: tuple[Elimination, ...] = ()
    evicts: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    headroom: tuple[Headroom, ...] = ()
    over_runs: Spread | None = None
    curve: tuple[RoomLeft, ...] = ()
    created: int | None = None
    refused: tuple[str, ...] = ()

    @property
    def most(self) -> int:
        """How many are created and get a node."""
        return self.fits if self.created is None else min(self.fits, self.created)

    @property
    def ends_first(self) -> str:
        """Whether it is room that ends first, or what the API server allows; empty where only room ends."""
        if self.created is None:
            return ""
        number = f"{self.created:,} more {'is' if self.created == 1 else 'are'} created"
        said = in_brief(self.refused[0])
        if self.created < self.fits or self.limited:
            return f"{'the quota ends first:' if EXCEEDED in said else 'but'} only {number}: {said}"
        both = "room and quota end together" if self.created == self.fits and EXCEEDED in said else "room ends first"
        return f"{both}: {number}, then {said}"

    def first_line(self) -> tuple[str, ...]:
        """How many more fit, and on how many nodes."""
        number = str(self.over_runs) if self.over_runs else f"{self.fits:,}"
        on = f"on {counted(len(self.nodes), 'node')}" if self.nodes else ""
        return (f"{self.shape}:", f"{number} {'or more' if self.limited else 'more'} fit", on)


class Capacity(Report, frozen=True):
    """``interrupted``: this is what was known when the user stopped it.

    ``extended``: what to know of the answers of extenders that were asked.
    """

    seed: int
    shapes: tuple[ShapeCapacity, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    search_start: SearchStart | None = None
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Capacity"

    def first_line(self) -> tuple[str, ...]:
        """How many fit of the first shape."""
        return self.shapes[0].first_line() if self.shapes else ()

    def summarized(self, summary: Summary) -> Summary:
        """With how many fit of each shape, and what stops the next one."""
        shapes = tuple(ShortPods(shape.fits, "", shape.shape, shape.message or shape.verdict) for shape in self.shapes)
        return replace(summary, pods=shapes, figures={shape.shape: shape.fits for shape in self.shapes[:MOST_ENTRIES]})
