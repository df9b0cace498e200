"""The reports of pods followed one by one: kinds Following, FollowedRollout and Sampling."""

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
    """A single try of a pod: the node on which it was placed, or the reason why it was not placed."""

    pod: str
    feasible: int | None = None
    """The number of feasible nodes."""
    total: dict[str, int] = msgspec.field(default_factory=dict)
    """The total score of each feasible node, if there are several."""
    best: tuple[str, ...] = ()
    """The nodes with the highest score."""
    node: str = ""
    """The node on which the pod was placed, empty if it was not."""
    fit_error_message: str = ""
    """kube-scheduler's message if no node is feasible."""
    unschedulable_plugins: tuple[str, ...] = ()
    """The plugins that rejected the pod."""
    tied_candidates: tuple[str, ...] = ()
    """The nodes on which preemption would cost least. The pod is nominated for the first one."""
    nominated: str = ""
    victims: tuple[str, ...] = ()
    """The pods that were preempted."""
    nominations_cleared: tuple[str, ...] = ()
    """The pods of lower priority that lost their nomination for the node."""
    gated: str = ""
    """The plugin that gates the pod."""
    gone: bool = False
    """True if the pod was preempted before its turn."""
    error: str = ""
    """The error of a plugin, or that no profile serves the pod."""


class FollowingReport(Report, frozen=True):
    """Pods scheduled one after the other, each with the effects of the pods before."""

    steps: tuple[FollowedStep, ...]
    not_replayed: tuple[str, ...] = ()
    """The parts of the configuration that are not replayed."""
    unknown: tuple[UnknownKind, ...] = ()
    """The unread kinds that the answer depends on."""
    undecided: bool = False
    kind: str = "Following"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many of the pods were placed."""
        placed = sum(bool(step.node) for step in self.steps)
        return (f"{placed:,} of {counted(len(self.steps), 'pod')} placed{describe_doubt(self.unknown)}",)

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True


AS_REPLAYED, BEST_OF_A_PART = "AsReplayed", "BestOfAPart"
NOT_BEST, NOT_FEASIBLE, NOT_LOOKED_AT = "NotBest", "NotFeasible", "NotLookedAt"
OTHER_SCHEDULER, UNKNOWN_NODE, UNKNOWN_POD, NOT_COMPARED = "OtherScheduler", "UnknownNode", "UnknownPod", "NotCompared"
DIFFERING_OUTCOMES = (NOT_FEASIBLE, NOT_LOOKED_AT, NOT_BEST, OTHER_SCHEDULER, UNKNOWN_NODE)
"""The outcomes that say that the real scheduler chose differently."""


class OverlappingBinding(Document, frozen=True):
    """A pod that was bound at about the same time as another pod."""

    pod: str
    node: str
    milliseconds: int
    """The time after the other pod's binding, negative if before."""


class FollowedPlacement(Document, frozen=True):
    """A real placement of a pod, compared with the replay."""

    pod: str
    node: str
    time: str
    """The time of the placement."""
    scheduler: str
    """The scheduler that placed the pod."""
    outcome: str
    """AsReplayed (one of the best nodes), BestOfAPart (the best of a part of the nodes, since kube-scheduler
    samples), NotBest, NotFeasible, NotLookedAt (not in the sample that was searched), OtherScheduler (no profile
    replays it), UnknownNode (not in the cluster), UnknownPod (not in the cluster) or NotCompared.
    """
    feasible: int = 0
    """The number of feasible nodes."""
    best: tuple[str, ...] = ()
    """The best nodes according to the replay."""
    behind: int = 0
    """For NotBest, by how many points the node is behind the best."""
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    """For NotBest, the points that the node loses by plugin."""
    plugin: str = ""
    """For NotFeasible, the plugin that rejects the node."""
    reasons: tuple[str, ...] = ()
    """The reasons why the node is rejected, or why nothing is known about the pod."""
    order: int = 0
    """By how many placements later the pod must have been tried than its event says; negative for earlier."""
    overlapping: tuple[OverlappingBinding, ...] = ()
    """Bindings within the same second that explain the placement if they were on the other side of it.

    Events say when bindings are done, and bindings of a burst wait for each other.
    """


class FollowedRollout(Report, frozen=True):
    """The placements of a rollout, compared with a replay."""

    agree: int
    """The number of placements that agree with the replay."""
    otherwise: int
    """The number of placements that do not."""
    placements: tuple[FollowedPlacement, ...] = ()
    """The placements in order of time."""
    assumed: tuple[str, ...] = ()
    """Assumptions, and notes on the manifests."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    """True if unread data could change the answer, or no placement could be compared."""
    interrupted: bool = False
    search_start: SearchStart | None = None
    kind: str = "FollowedRollout"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return a verdict and a sentence.

        The verdict says how many placements differ from the replay, that none differs, or that nothing was compared.
        The sentence says how many pods went to a node that the replay ranks among the best.
        """
        pods = counted(len(self.placements), "pod")
        if self.otherwise:
            verdict = f"{self.otherwise:,} of {pods} placed otherwise:"
        else:
            verdict = "As replayed:" if self.agree else "Nothing compared:"
        sentence = f"{self.agree:,} of {pods} went to a node that the replay ranks among the best"
        return (verdict, f"{sentence}{describe_doubt(self.unknown)}")

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def describe_good_answer(self) -> str:
        """Return in a clause what a good answer says, for questions about several clusters."""
        return "no pod is placed otherwise"

    def extend_summary(self, summary: Summary) -> Summary:
        """Add to the summary the placements that differ from the replay, and the numbers that agree and differ."""
        differing = (placement for placement in self.placements if placement.outcome in DIFFERING_OUTCOMES)
        pods = tuple(
            ShortPods(1, placement.pod, "", f"{placement.outcome}: {placement.node}") for placement in differing
        )
        return replace(summary, pods=pods, figures={"agree": self.agree, "otherwise": self.otherwise})


class SampledPod(Document, frozen=True, omit_defaults=True):
    """The search of one pod for nodes among a part of all nodes."""

    pod: str
    start: int
    """The index in the scheduler's order of nodes at which the search began."""
    searched: int
    """The number of nodes that could be searched."""
    num_to_find: int
    """The number of feasible nodes that ends the search."""
    processed: int
    """The number of nodes that were examined."""
    next: int
    """The index at which the next search begins."""
    feasible: tuple[str, ...] = ()
    """The feasible nodes in the order in which they were found."""
    rejected: tuple[str, ...] = ()
    """The examined nodes that are not feasible."""
    total: dict[str, int] = msgspec.field(default_factory=dict)
    """The total score of each feasible node."""
    best: tuple[str, ...] = ()
    """The nodes with the highest score."""
    unscheduled: str = ""
    """The reason why the pod was not tried, or the error of a plugin."""


class SamplingReport(Report, frozen=True):
    """The searches of several pods, tried one after the other without placing any."""

    node_order: tuple[str, ...]
    """The nodes in the order in which the scheduler searches them."""
    steps: tuple[SampledPod, ...]
    not_replayed: tuple[str, ...] = ()
    """The parts of the configuration that are not replayed."""
    unknown: tuple[UnknownKind, ...] = ()
    """The unread kinds that the answer depends on."""
    undecided: bool = False
    kind: str = "Sampling"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return how many pods were tried on how many nodes."""
        tried = f"{counted(len(self.steps), 'pod')} tried on {counted(len(self.node_order), 'node')}"
        return (f"{tried}{describe_doubt(self.unknown)}",)

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True
