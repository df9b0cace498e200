"""The report of `capacity`: apiVersion kschedctl.dev/v1, kind Capacity."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto

import msgspec
from msgspec.structs import replace

from kschedctl.api.events import shorten_api_message
from kschedctl.commands.explain.report import Elimination
from kschedctl.reports.columns import CsvTable
from kschedctl.reports.document import Document
from kschedctl.reports.placements import Headroom, Spread, describe_missing_namespaces
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import Report
from kschedctl.reports.summary import MOST_ENTRIES, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind
from kschedctl.text.counts import agreeing, counted, first_few

EXCEEDED = "exceeded quota"
"""Part of the API server's message if a ResourceQuota denies a pod."""
MAX_NAMED_SHAPES = 4
"""The number of entries in the headline about several shapes."""
NO_REQUESTS = "it requests no resources, so only the number of pods per node limits it"


class CapacityLimit(Enum):
    """The limit that determines the number of further pods."""

    NODES = auto()
    QUOTA = auto()
    ADMISSION = auto()
    """Any reason of the API server other than a quota."""
    KUEUE = auto()


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
    """True if all pods that were tried fit, so that more might."""
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
    """The reason why Kueue does not admit one more, or ""."""
    ahead: tuple[str, ...] = ()
    """Waiting pods that are ahead in the queue and got a node before these."""
    cause: str = ""
    """The cause behind `message`, such as a missing StorageClass; empty if the message says it."""
    exceeded_storage: tuple[str, ...] = ()
    """Sentences about storage of which the pods that fit need more in total than its driver published."""
    volumes_on_several_nodes: tuple[str, ...] = ()
    """Sentences about volumes that are attached to one node at a time but that the pods that fit use on several."""
    requests_nothing: bool = False
    """True if a pod requests neither CPU nor memory nor any other resource."""

    @property
    def most(self) -> int:
        """The number of pods within all limits: the API server creates them, Kueue admits them, and they get a node."""
        limits = (limit for limit in (self.created, self.by_quota) if limit is not None)
        return min((self.fits, *limits))

    @property
    def binding_limit(self) -> CapacityLimit:
        """The limit that is reached first in every run: the nodes, admission, or Kueue's quota."""
        fits = self.over_runs.least if self.over_runs else self.fits
        if self.created is not None and self.created == self.most:
            # With `limited`, more pods than `fits` might get a node, so that admission ends first. Without any created
            # pod, no node is needed.
            admission_ends_before_nodes = self.created < fits or self.limited or not self.created
            if admission_ends_before_nodes:
                return CapacityLimit.QUOTA if EXCEEDED in self.refused[0] else CapacityLimit.ADMISSION
        if self.by_quota is not None and self.by_quota < fits:
            return CapacityLimit.KUEUE
        return CapacityLimit.NODES

    @property
    def limit_sentence(self) -> str:
        """A sentence that says whether the room on nodes or admission ends first, or "" if admission denies no pod."""
        if self.created is None:
            return ""
        message = shorten_api_message(self.refused[0])
        admission_ends_first = self.binding_limit in (CapacityLimit.QUOTA, CapacityLimit.ADMISSION)
        if admission_ends_first:
            not_created = "The next one is" if self.created else "They are"
            return f"{not_created} not created: {message}"
        created = f"{self.created:,} more {'is' if self.created == 1 else 'are'} created"
        is_quota_used_up = EXCEEDED in message
        if is_quota_used_up and self.created == self.fits:
            return f"room and quota run out together: {created}, then {message}"
        return f"room runs out first: {created}, then {message}"

    @property
    def quota_sentence(self) -> str:
        """A sentence that says how many of the pods Kueue admits, or "" if Kueue does not manage them."""
        if self.by_quota is None:
            return ""
        if not self.by_quota:
            return f"Kueue admits none: the workload {self.beyond_quota}"
        if not self.beyond_quota or self.by_quota > self.fits:
            return f"Kueue admits all of them in {self.flavors}"
        number = f"{self.by_quota:,} {'is' if self.by_quota == 1 else 'are'} admitted in {self.flavors}"
        if self.by_quota == self.fits:
            return f"room and Kueue's quota run out together: {number}; with one more it {self.beyond_quota}"
        return f"Kueue's quota runs out first: only {number}; with one more it {self.beyond_quota}"

    @property
    def next_pod_obstacle(self) -> str:
        """The reason why one more pod does not run, as the API server, Kueue or kube-scheduler gives it."""
        if self.binding_limit in (CapacityLimit.QUOTA, CapacityLimit.ADMISSION):
            return shorten_api_message(self.refused[0])
        if self.binding_limit is CapacityLimit.KUEUE:
            return f"Kueue: {self.beyond_quota}"
        return self.message or self.verdict

    @property
    def numbered_name(self) -> str:
        """The number of pods that run and the shape, such as ``3 of Deployment shop/web``."""
        is_limited_by_nodes = self.binding_limit is CapacityLimit.NODES
        or_more = " or more" if is_limited_by_nodes and self.limited else ""
        number = self.over_runs if self.over_runs and is_limited_by_nodes else f"{self.most:,}"
        return f"{number}{or_more} of {self.shape}"

    @property
    def sentence_about_pods_ahead(self) -> str:
        """A sentence that names the waiting pods ahead in the queue."""
        pods = counted(len(self.ahead), "waiting pod is", "waiting pods are")
        nodes_first = agreeing(len(self.ahead), "gets its node first", "get their nodes first")
        return f"{pods} ahead in the queue and {nodes_first}: {first_few(self.ahead)}"

    @property
    def eviction_sentence(self) -> str:
        """A sentence that names the pods that kube-scheduler would evict for the next pod."""
        return f"kube-scheduler would evict {first_few(self.evicts)} for it; places won by preemption are not counted"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the shape, how many more of its pods run, and the number of their nodes.

        If something other than nodes ends first, the last part says what, and how many pods the nodes have room for.
        """
        fits = str(self.over_runs) if self.over_runs else f"{self.fits:,}"
        or_more = " or more" if self.limited else ""
        limit = self.binding_limit
        if limit is CapacityLimit.NODES:
            on = f"on {counted(len(self.nodes), 'node')}" if self.nodes else ""
            is_none = not (self.fits or self.limited or self.over_runs)
            number = "no more pods" if is_none else f"{fits}{or_more or ' more'}"
            return (f"{self.shape}:", f"{number} fit", on)
        number = f"{self.most:,} more" if self.most else "none"
        room = f"the nodes have room for {fits}{or_more}"
        end_without_pods, end_with_pods = _END_BY_LIMIT[limit]
        end = end_with_pods if self.most else end_without_pods
        return (f"{self.shape}:", number, f"{end}; {room}")


_END_BY_LIMIT = {
    CapacityLimit.QUOTA: ("is created, because the quota does not allow it", "until the quota is used up"),
    CapacityLimit.ADMISSION: ("is created", "until admission denies the next one"),
    CapacityLimit.KUEUE: ("gets quota from Kueue", "until Kueue's quota is used up"),
}
"""The limits other than nodes -> the end of the headline, without and with pods that get a node."""


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
    """True if the user stopped the run, so that the report is incomplete."""
    search_start: SearchStart | None = None
    missing_namespaces: dict[str, str] = msgspec.field(default_factory=dict)
    """The namespaces that are assumed to be created first, each with a similar existing name or an empty string."""
    autoscaled: tuple[str, ...] = ()
    """Notes on workloads whose replicas a HorizontalPodAutoscaler changes at once."""
    not_counted: tuple[str, ...] = ()
    """The DaemonSets of the manifests, which run one pod on each node."""
    kind: str = "Capacity"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many more pods of the shape run or, for several shapes, the numbers of pods by shape.

        At most MAX_NAMED_SHAPES shapes are listed. The last part ends with the namespaces that have to be created
        first, if there are any.
        """
        condition = describe_missing_namespaces(self.missing_namespaces)
        if len(self.shapes) < 2:
            *first, last = self.shapes[0].build_headline_parts() if self.shapes else ("",)
            return (*first, f"{last}{condition}")
        numbered = [shape.numbered_name for shape in self.shapes]
        if len(numbered) > MAX_NAMED_SHAPES:
            other_count = len(numbered) - MAX_NAMED_SHAPES + 1
            numbered[MAX_NAMED_SHAPES - 1 :] = [f"and {counted(other_count, 'other workload')}"]
        return (
            f"{counted(len(self.shapes), 'workload')}, each as if it had all the room to itself:",
            f"{', '.join(numbered)}{condition}",
        )

    def extend_summary(self, summary: Summary) -> Summary:
        """Add how many pods of each shape fit, and the reason why the next one does not run, to the summary."""
        shapes = tuple(ShortPods(shape.most, "", shape.shape, shape.next_pod_obstacle) for shape in self.shapes)
        return replace(
            summary,
            pods=shapes,
            warnings=tuple(dict.fromkeys(self._iter_warnings())),
            figures={shape.shape: shape.most for shape in self.shapes[:MOST_ENTRIES]},
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on workloads whose replicas autoscalers change, and on DaemonSets, for which no room is left."""
        if not self.not_counted:
            return self.autoscaled
        run = agreeing(len(self.not_counted), "which runs", "which run")
        daemon_sets = f"{first_few(self.not_counted)}, {run} one pod on each node (simulate shows where)"
        return (*self.autoscaled, f"Not counted: {daemon_sets}. The numbers leave no room for these pods.")

    def _iter_warnings(self) -> Iterator[str]:
        """Yield what a reader of the numbers has to know.

        First come the workloads whose replicas autoscalers change. For each shape, sentences follow about admission,
        quota and exceeded storage, about missing requests, and about pods that wait ahead or would be evicted.
        """
        yield from self.notes
        for shape in self.shapes:
            subject = f"{shape.shape}: " if len(self.shapes) > 1 else ""
            if shape.binding_limit is CapacityLimit.NODES and (shape.most < shape.fits or shape.limited):
                yield from (f"{subject}{text}" for text in (shape.limit_sentence, shape.quota_sentence) if text)
            yield from (f"{subject}{text}" for text in (*shape.exceeded_storage, *shape.volumes_on_several_nodes))
            if shape.requests_nothing:
                yield f"{subject}{NO_REQUESTS}"
            if shape.ahead:
                yield shape.sentence_about_pods_ahead
            if shape.evicts:
                yield f"{subject}{shape.eviction_sentence}"

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return "enough pods fit"

    def build_csv_table(self) -> CsvTable:
        """Build a table with a row for each pair of a shape and a node on which pods of the shape fit.

        A shape that fits on no node has a row with an empty node.
        """
        rows = [
            (shape.shape, shape.fits, node, pods, shape.message)
            for shape in self.shapes
            for node, pods in shape.nodes.items() or [("", 0)]
        ]
        return CsvTable(("shape", "fits", "node", "pods", "message"), rows)
