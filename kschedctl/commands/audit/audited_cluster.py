"""The cluster that an audit examines, with its replayed pending pods, which all sections share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kschedctl.commands.audit.latency.verdicts import LatencyLimits
from kschedctl.commands.audit.priorities.growth import PriorityLimits
from kschedctl.commands.explain.waiting import ReplayedCluster, WaitingThresholds
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.metrics.measured import MetricsReading


@dataclass(frozen=True)
class Thresholds(WaitingThresholds):
    """Thresholds above which something is reported as a finding."""

    latency: LatencyLimits = field(default_factory=LatencyLimits)
    sampling_loss_points: float = 50
    """Half the score range of a plugin of weight 1: a larger loss means that its preference is as good as ignored."""
    priorities: PriorityLimits = field(default_factory=PriorityLimits)


@dataclass(frozen=True, eq=False)
class AuditedCluster(ReplayedCluster):
    """A cluster with all that the sections of an audit need."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    earlier: Scheduler | None = None
    """The same cluster at an earlier time, if given."""
    measured: MetricsReading | None = None
    """kube-scheduler's own metrics, if given."""

    def iter_unread_kinds(self, *kinds: str) -> Iterator[UnknownKind]:
        """Yield those of the kinds that were not read, as unknowns that affect the verdict."""
        for kind in kinds:
            if gap := self.cluster.gap(kind):
                yield UnknownKind(kind, gap.why, VERDICT)
