"""The scheduler followed pod by pod, as a document: apiVersion kschedctl.dev/v1, kind Following."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kschedctl.reports.document import Document
from kschedctl.reports.plugin_answers import SearchStart
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import counted


class FollowedStep(Document, frozen=True, omit_defaults=True):
    """One pod tried once: where it was put, ``node``, or why nowhere.

    ``feasible``: how many nodes fit; where several do ``total``: node -> its score, and ``best``: the highest. Where
    none does: ``fit_error_message``, kube-scheduler's own, and the plugins that refused the pod; ``tied_candidates``:
    where preemption would cost least, of which the pod was ``nominated`` for the first, ``victims`` went, and pods of
    lower priority lost their nomination for the node. ``gated``: the plugin that holds it back; ``gone``: it was
    preempted before its turn; ``error``: a plugin failed, or no profile serves it.
    """

    pod: str
    feasible: int | None = None
    total: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    node: str = ""
    fit_error_message: str = ""
    unschedulable_plugins: tuple[str, ...] = ()
    tied_candidates: tuple[str, ...] = ()
    nominated: str = ""
    victims: tuple[str, ...] = ()
    nominations_cleared: tuple[str, ...] = ()
    gated: str = ""
    gone: bool = False
    error: str = ""


class FollowingReport(Report, frozen=True):
    """``not_replayed``: what the configuration runs and this answer leaves out; ``unknown``: what was not read."""

    steps: tuple[FollowedStep, ...]
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Following"

    def first_line(self) -> tuple[str, ...]:
        """How many of the pods were placed."""
        placed = sum(bool(step.node) for step in self.steps)
        return (f"{placed:,} of {counted(len(self.steps), 'pod')} placed{describe_doubt(self.unknown)}",)


AS_REPLAYED, BEST_OF_A_PART = "AsReplayed", "BestOfAPart"
NOT_BEST, NOT_FEASIBLE, NOT_LOOKED_AT = "NotBest", "NotFeasible", "NotLookedAt"
OTHER_SCHEDULER, UNKNOWN_NODE, UNKNOWN_POD, NOT_COMPARED = "OtherScheduler", "UnknownNode", "UnknownPod", "NotCompared"
OTHERWISE = (NOT_FEASIBLE, NOT_LOOKED_AT, NOT_BEST, OTHER_SCHEDULER, UNKNOWN_NODE)
"""The outcomes that say that the real scheduler did something else."""


class OverlappingBinding(Document, frozen=True):
    """A pod that was bound to ``node`` so many ``milliseconds`` after another one, before it if negative."""

    pod: str
    node: str
    milliseconds: int


class FollowedPlacement(Document, frozen=True):
    """A pod that was put on ``node`` at ``time`` by ``scheduler``, and what the replay says of that, ``outcome``:

    AsReplayed: one of the best nodes; BestOfAPart: the best where a part of the nodes was looked at, which
    kube-scheduler does in clusters of this size. Otherwise NotBest: ``behind`` so many points the ``best``, by ``lost``
    points of each plugin; NotFeasible: ``plugin`` refuses the node for ``reasons``; NotLookedAt: not in the part of the
    nodes that was searched; OtherScheduler: one that no profile replays; UnknownNode: there is no such node here.
    Nothing is known of an UnknownPod, or NotCompared, as ``reasons`` say. ``feasible`` nodes fit. ``order``: it agrees
    if the pod was tried so many placements later than its event tells, sooner if negative. ``overlapping``: it would be
    as replayed had these, bound within the same second, been tried on the other side of it; events tell when bindings
    are done, which in a burst wait for each other.
    """

    pod: str
    node: str
    time: str
    scheduler: str
    outcome: str
    feasible: int = 0
    best: tuple[str, ...] = ()
    behind: int = 0
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    order: int = 0
    overlapping: tuple[OverlappingBinding, ...] = ()


class FollowedRollout(Report, frozen=True):
    """``placements`` in the order of time, of which ``otherwise`` were not as the replay has it, ``agree`` were.

    ``assumed``: what had to be guessed. ``undecided``: also where nothing could be compared.
    """

    agree: int
    otherwise: int
    placements: tuple[FollowedPlacement, ...] = ()
    assumed: tuple[str, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    search_start: SearchStart | None = None
    api_version: str = "kschedctl.dev/v1"
    kind: str = "FollowedRollout"

    def first_line(self) -> tuple[str, ...]:
        """How many went to a node that the replay has among the best."""
        pods = counted(len(self.placements), "pod")
        verdict = "As replayed:" if self.agree else "Nothing compared:"
        if self.otherwise:
            verdict = f"{self.otherwise:,} of {pods} placed otherwise:"
        sentence = f"{self.agree:,} of {pods} went to a node that the replay has among the best"
        return (verdict, f"{sentence}{describe_doubt(self.unknown)}")

    def extend_summary(self, summary: Summary) -> Summary:
        """With the pods that went elsewhere."""
        otherwise = (placement for placement in self.placements if placement.outcome in OTHERWISE)
        pods = tuple(
            ShortPods(1, placement.pod, "", f"{placement.outcome}: {placement.node}") for placement in otherwise
        )
        return replace(summary, pods=pods, figures={"agree": self.agree, "otherwise": self.otherwise})


class SampledPod(Document, frozen=True, omit_defaults=True):
    """One pod's search for nodes, which began at index ``start`` of the nodes in the scheduler's order.

    ``searched``: how many nodes there were to look at, of which ``num_to_find`` that fit are enough; ``feasible`` in
    the order found, ``rejected``; ``processed``: both together; ``next``: the index at which the next search begins.
    ``total``: node -> its score, ``best``: the highest. ``unscheduled``: why it was not tried, or failed.
    """

    pod: str
    start: int
    searched: int
    num_to_find: int
    processed: int
    next: int
    feasible: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    total: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    unscheduled: str = ""


class SamplingReport(Report, frozen=True):
    """Pods tried one after the other, nothing assumed between them; ``node_order``: as the scheduler goes through it.

    ``not_replayed``: what the configuration runs and this answer leaves out; ``unknown``: what was not read.
    """

    node_order: tuple[str, ...]
    steps: tuple[SampledPod, ...]
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Sampling"

    def first_line(self) -> tuple[str, ...]:
        """How many pods were tried."""
        tried = f"{counted(len(self.steps), 'pod')} tried on {counted(len(self.node_order), 'node')}"
        return (f"{tried}{describe_doubt(self.unknown)}",)
