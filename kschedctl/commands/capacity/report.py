"""The report of `capacity`: apiVersion kschedctl.dev/v1, kind Capacity."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from kschedctl.api.events import shorten_api_message
from kschedctl.commands.explain.report import Elimination
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.placements import Headroom, Spread
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import Report
from kschedctl.reports.summary import MOST_ENTRIES, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import counted, first_few

EXCEEDED = "exceeded quota"


class RoomLeft(Document, frozen=True):
    """A point of the curve: the number of nodes that take one more pod after some new pods were placed."""

    pods: int
    """The number of new pods that were placed."""
    nodes: int
    """The number of nodes that take one more."""


class ShapeCapacity(Document, frozen=True):
    """The number of further pods of one shape that fit, tried apart from the other shapes."""

    shape: str
    fits: int
    """The number of pods that get a node, regardless of quotas."""
    limited: bool
    """Whether all pods that were tried fit, so that more might."""
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    """New pods by node."""
    domains: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """New pods by topology key and value."""
    verdict: str = ""
    message: str = ""
    """kube-scheduler's message about the first pod that does not fit."""
    eliminations: tuple[Elimination, ...] = ()
    """The reasons in `message`, each with its nodes."""
    evicts: tuple[str, ...] = ()
    """Pods that preemption would evict for the first pod that does not fit."""
    unknown: tuple[UnknownKind, ...] = ()
    headroom: tuple[Headroom, ...] = ()
    over_runs: Spread | None = None
    """The smallest and the largest value of `fits` over several runs."""
    curve: tuple[RoomLeft, ...] = ()
    """Nodes with room after each pod, thinned out if long. Empty if nodes are sampled."""
    created: int | None = None
    """The number of pods that the API server admits, or None if it admits all."""
    refused: tuple[str, ...] = ()
    """The API server's messages about the first pod that it denies."""
    by_quota: int | None = None
    """The number of pods that Kueue admits together without preemption, or None if Kueue does not manage them."""
    flavors: str = ""
    """The flavors in which Kueue admits them, such as ``flavor spot``."""
    beyond_quota: str = ""
    """Why Kueue does not admit one more, or ""."""
    ahead: tuple[str, ...] = ()
    """Waiting pods that are ahead in the queue and got a node before these."""
    cause: str = ""
    """The cause behind `message`, such as a missing StorageClass; empty if the message says it."""

    @property
    def most(self) -> int:
        """The number of pods that are created, get quota from Kueue, and get a node."""
        limits = (limit for limit in (self.created, self.by_quota) if limit is not None)
        return min((self.fits, *limits))

    @property
    def limit_sentence(self) -> str:
        """A sentence that says whether room on nodes or admission ends first; empty if admission denies no pod."""
        if self.created is None:
            return ""
        created = f"{self.created:,} more {'is' if self.created == 1 else 'are'} created"
        message = shorten_api_message(self.refused[0])
        is_quota = EXCEEDED in message
        if self.created < self.fits or self.limited:
            return f"{'the quota ends first:' if is_quota else 'but'} only {created}: {message}"
        if self.created == self.fits and is_quota:
            return f"room and quota end together: {created}, then {message}"
        return f"room ends first: {created}, then {message}"

    @property
    def quota_sentence(self) -> str:
        """A sentence about how many pods Kueue admits; empty if Kueue does not manage them."""
        if self.by_quota is None:
            return ""
        if not self.by_quota:
            return f"Kueue admits none: it {self.beyond_quota}"
        if not self.beyond_quota or self.by_quota > self.fits:
            return f"Kueue admits all of them in {self.flavors}"
        number = f"{self.by_quota:,} {'is' if self.by_quota == 1 else 'are'} admitted in {self.flavors}"
        if self.by_quota == self.fits:
            return f"room and Kueue's quota end together: {number}; with one more it {self.beyond_quota}"
        return f"Kueue's quota ends first: only {number}; with one more it {self.beyond_quota}"

    @property
    def sentence_about_pods_ahead(self) -> str:
        """A sentence that names the waiting pods ahead in the queue."""
        return f"After {counted(len(self.ahead), 'waiting pod')} ahead in the queue: {first_few(self.ahead)}"

    @property
    def eviction_sentence(self) -> str:
        """A sentence about the pods that kube-scheduler would evict for the next pod."""
        return f"kube-scheduler would evict {first_few(self.evicts)} for it; places won by preemption are not counted"

    def build_first_line(self) -> tuple[str, ...]:
        """Return the shape, how many more of it fit, and on how many nodes."""
        number = str(self.over_runs) if self.over_runs else f"{self.fits:,}"
        on = f"on {counted(len(self.nodes), 'node')}" if self.nodes else ""
        return (f"{self.shape}:", f"{number} {'or more' if self.limited else 'more'} fit", on)


class Capacity(Report, frozen=True):
    """The number of further pods that fit, for each shape."""

    seed: int
    shapes: tuple[ShapeCapacity, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    """Notes on the answers of called extenders."""
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    """Whether the user stopped the run, so that the report is incomplete."""
    search_start: SearchStart | None = None
    kind: str = "Capacity"

    def build_first_line(self) -> tuple[str, ...]:
        """Return how many pods of the first shape fit, or () without shapes."""
        return self.shapes[0].build_first_line() if self.shapes else ()

    def extend_summary(self, summary: Summary) -> Summary:
        """Add how many pods of each shape fit, and what stops the next one."""
        shapes = tuple(ShortPods(shape.fits, "", shape.shape, shape.message or shape.verdict) for shape in self.shapes)
        return replace(
            summary,
            pods=shapes,
            warnings=tuple(dict.fromkeys(self._iter_warnings())),
            figures={shape.shape: shape.fits for shape in self.shapes[:MOST_ENTRIES]},
        )

    def _iter_warnings(self) -> Iterator[str]:
        """Yield what else limits the number of pods apart from the nodes, and which pods are ahead in the queue."""
        for shape in self.shapes:
            subject = f"{shape.shape}: " if len(self.shapes) > 1 else ""
            if shape.most < shape.fits or shape.limited:
                yield from (f"{subject}{text}" for text in (shape.limit_sentence, shape.quota_sentence) if text)
            if shape.ahead:
                yield shape.sentence_about_pods_ahead
            if shape.evicts:
                yield f"{subject}{shape.eviction_sentence}"

    def build_csv_table(self) -> CsvTable:
        """Return a row for each shape and each node that takes pods of it."""
        rows = [
            (shape.shape, shape.fits, node, pods, shape.message)
            for shape in self.shapes
            for node, pods in shape.nodes.items() or [("", 0)]
        ]
        return CsvTable(("shape", "fits", "node", "pods", "message"), rows)
