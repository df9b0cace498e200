"""The report about the costs of sampling nodes (kind SamplingCosts), and of section "sampling"."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.report import Report
from kschedctl.reports.section import Section
from kschedctl.reports.unknown import UnknownKind


class SamplingPoint(Document, frozen=True, kw_only=True):
    """The costs of a percentageOfNodesToScore over all nodes at which a search may start, all equally likely.

    Losses are in points of the total score, compared with the best of all feasible nodes.
    """

    percentage: int
    enough: int
    """The number of feasible nodes that end the search."""
    scored: int
    """The number of feasible nodes that the search finds."""
    examined: float
    """The mean number of nodes that are examined."""
    examined_most: int
    """The maximum number of nodes that are examined."""
    loss: float
    """The mean loss."""
    loss_p50: float
    """The loss that half of the starts do not exceed."""
    loss_p90: float
    """The loss that 90 % of the starts do not exceed."""
    loss_max: float
    missed: float
    """The share of starts (0 to 1) from which none of the best nodes is picked."""


class SampledKind(Document, frozen=True, kw_only=True):
    """Pods of one kind, of which one more is placed."""

    workload: str
    pod: str
    pods: int
    """The number of pods of the workload."""
    offered: int = 0
    """The number of nodes that may be examined."""
    fitting: int = 0
    """The number of feasible nodes among them."""
    best: int = 0
    """The best score of a feasible node."""
    worst: int = 0
    """The worst score of a feasible node."""
    curve: tuple[SamplingPoint, ...] = ()
    unmeasured: str = ""
    """The reason why the costs are unknown, empty if they are known."""


class SamplingSetting(Document, frozen=True, kw_only=True):
    """The current percentageOfNodesToScore."""

    configured: int
    """The configured percentage, 0 for adaptive."""
    origin: str
    """The place where the percentage is set: default, configuration or profile."""
    nodes: int
    effective: int
    """The percentage that applies to this number of nodes."""
    enough: int
    """The number of feasible nodes that end a search."""
    scores: bool = True
    """True if plugins score nodes; if not, the first feasible node is taken."""


class SamplingAdvice(Document, frozen=True, kw_only=True):
    """The advised percentageOfNodesToScore."""

    verdict: str
    """keep, lower, raise, idle (all nodes are examined, whatever is set) or none (there is no pod to measure with)."""
    max_loss: float
    percentage: int = 0
    """The smallest percentage from which no kind of feasible pods loses more than `max_loss` points on average."""
    now: SamplingPoint | None = None
    """The costs for all kinds under the current percentage: means weighted by pods, other values of the worst kind."""
    then: SamplingPoint | None = None
    """The costs for all kinds under the advised percentage."""


class SampledProfile(Document, frozen=True, kw_only=True):
    """The costs for the pods of one scheduler name."""

    scheduler_name: str
    setting: SamplingSetting
    advice: SamplingAdvice
    kinds: tuple[SampledKind, ...] = ()
    curve: tuple[SamplingPoint, ...] = ()
    """The costs for all kinds by percentage, combined as in the advice."""


class SamplingCosts(Report, frozen=True, kw_only=True):
    """The costs and savings of sampling nodes."""

    headline: str
    nodes: int
    asked: str
    """The pods that were placed: named, pending or running."""
    profiles: tuple[SampledProfile, ...]
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    not_created: tuple[NotCreated, ...] = ()
    """The workloads whose pods are never created."""
    interrupted: bool = False
    """True if the user interrupted, so that kinds of pods are missing."""
    kind: str = "SamplingCosts"


class SamplingSection(Section, frozen=True, kw_only=True, tag="sampling"):
    """The section about sampling."""

    profiles: tuple[SampledProfile, ...] = ()
    """The profiles, with a coarser curve and fewer kinds of pods than in `kschedctl sampling`."""
