"""The cluster that an audit examines, with its replayed pending pods, which all sections share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kschedctl.commands.explain.waiting import ReplayedCluster, WaitingThresholds
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.cluster import get_read_time
from kschedctl.sources.metrics.catalogue import MetricsReading

NO_TIMES = UnknownKind(
    "Age",
    "are not judged, because the time at which the cluster was read is unknown (specify it, such as --now "
    "2026-05-06T09:12:00Z)",
    VERDICT,
)


@dataclass(frozen=True)
class PriorityLimits:
    """The growth of a tier in the replay, and the time after which pods starve."""

    grow: int = 10
    """The number of pods by which the tier grows, 0 for none."""
    tier: str = ""
    """The tier by PriorityClass or value, empty for the top tier of users."""
    starving_seconds: float = 3600.0
    """The waiting time in seconds after which pods starve."""


@dataclass(frozen=True)
class LatencyLimits:
    """Limits above which a figure is a finding, times in seconds."""

    target: float = 0.1
    """The target for the 99th percentile of attempts and of binding."""
    sli: float = 5.0
    """The limit for the start of pods, not counting the time that they wait for capacity (the SLO is 5 s)."""
    backlog: float = 30.0
    """The time that attempts for all ready pods may take in total."""
    waiting: int = 100
    """The number of pods below which a queue is never a finding."""
    unschedulable_share: float = 0.1
    """The share of all pods that may be unschedulable."""
    assumed_share: float = 0.01
    """The share of all pods that may be assumed and not bound yet."""
    in_flight: int = 10_000
    """The number of events that may be kept for pods in flight."""


@dataclass(frozen=True)
class Thresholds(WaitingThresholds):
    """Thresholds above which something is reported as a finding."""

    latency: LatencyLimits = field(default_factory=LatencyLimits)
    sampling_loss_points: float = 50
    """The loss above which a preference is as good as ignored: half the score range of a plugin of weight 1."""
    priorities: PriorityLimits = field(default_factory=PriorityLimits)
    queued_seconds: float = 3600.0
    """The time in seconds after which Kueue's Workloads should be admitted, and their pods should have nodes."""


@dataclass(frozen=True, eq=False)
class AuditedCluster(ReplayedCluster):
    """A cluster with everything that the sections of an audit need."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    earlier: Scheduler | None = None
    """This cluster at an earlier time, if given."""
    measured: MetricsReading | None = None
    """kube-scheduler's own metrics, if given."""

    @property
    def ages_end(self) -> str:
        """The RFC 3339 time until which ages are shown: the time of the cluster, or the present time if it is unknown.

        Findings depend only on the time of the cluster.
        """
        return self.now or get_read_time(self.cluster)

    @property
    def ages_note(self) -> str:
        """The end of a clause with an age: empty, or that it ends today if the time of the cluster is unknown."""
        return "" if self.now else " as of today"

    def iter_unread_kinds(self, *kinds: str) -> Iterator[UnknownKind]:
        """Yield an UnknownKind, with effect on the verdict, for each of the kinds that was not read."""
        for kind in kinds:
            if gap := self.cluster.find_gap(kind):
                yield UnknownKind(kind, gap.why, VERDICT)
