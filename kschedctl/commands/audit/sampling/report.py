"""What looking at a part of the nodes costs and saves: kind SamplingCosts, and the section of an audit about it."""

from __future__ import annotations

from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.report import Report
from kschedctl.reports.section import Section
from kschedctl.reports.unknown import UnknownKind


class SamplingPoint(Document, frozen=True, kw_only=True):
    """What a percentageOfNodesToScore comes to, over all indices at which a search may begin, each as likely.

    ``enough``: the search ends once so many nodes are found that fit; ``scored``: how many it finds. ``examined``: how
    many are looked at, on average and at most. Losses are in points of the score that all nodes give, to the best of
    them: on average, that which half and nine tenths of the starts do not exceed, and the most. ``missed``: the share
    of the starts, 0 to 1, from which none of the best nodes is picked.
    """

    percentage: int
    enough: int
    scored: int
    examined: float
    examined_most: int
    loss: float
    loss_p50: float
    loss_p90: float
    loss_max: float
    missed: float


class SampledKind(Document, frozen=True, kw_only=True):
    """Pods alike, of which one more is searched for; ``pods``: how many there are of the workload.

    ``offered``: nodes that may be looked at, ``fitting`` of which fit; ``best`` and ``worst``: the scores of these.
    ``unmeasured``: why nothing is known of them.
    """

    workload: str
    pod: str
    pods: int
    offered: int = 0
    fitting: int = 0
    best: int = 0
    worst: int = 0
    curve: tuple[SamplingPoint, ...] = ()
    unmeasured: str = ""


class SamplingSetting(Document, frozen=True, kw_only=True):
    """``configured``: percentageOfNodesToScore, 0: adaptive, as ``origin`` says it: default, configuration or profile.

    ``effective``: the percentage that it is for so many ``nodes``, of which ``enough`` that fit end a search.
    ``scores``: plugins score nodes; where none does, the first that fits is taken.
    """

    configured: int
    origin: str
    nodes: int
    effective: int
    enough: int
    scores: bool = True


class SamplingAdvice(Document, frozen=True, kw_only=True):
    """``verdict``: keep, lower, raise; idle where all nodes are looked at whatever is set; none without a pod.

    ``percentage``: the smallest one from which on no kind of pods loses more than ``max_loss`` points on average, of
    those that fit on a node.
    ``now`` and ``then``: all kinds together under what is set, and under that; averages by their pods, the rest of the
    kind that is worst off.
    """

    verdict: str
    max_loss: float
    percentage: int = 0
    now: SamplingPoint | None = None
    then: SamplingPoint | None = None


class SampledProfile(Document, frozen=True, kw_only=True):
    """The pods of one scheduler name; ``curve``: all kinds together, as in the advice."""

    scheduler_name: str
    setting: SamplingSetting
    advice: SamplingAdvice
    kinds: tuple[SampledKind, ...] = ()
    curve: tuple[SamplingPoint, ...] = ()


class SamplingCosts(Report, frozen=True, kw_only=True):
    """``asked``: whose pods were searched for: named, pending, or running ones as they are most frequent.

    ``not_created``: the workloads whose pods nobody searches a node for.
    """

    headline: str
    nodes: int
    asked: str
    profiles: tuple[SampledProfile, ...]
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    not_created: tuple[NotCreated, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "SamplingCosts"


class SamplingSection(Section, frozen=True, kw_only=True, tag="sampling"):
    """``profiles``: with a coarser curve than kschedctl sampling draws, of fewer kinds of pods."""

    profiles: tuple[SampledProfile, ...] = ()
