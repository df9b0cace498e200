"""What all sections of an audit stand on: the cluster at a time, and its pending pods, replayed once for all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from kschedctl.commands.audit.latency.verdicts import LatencyLimits
from kschedctl.commands.audit.priorities.growth import PriorityLimits
from kschedctl.commands.explain.waiting import ReplayedCluster, WaitingThresholds
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.sources.metrics.measured import Measured


@dataclass(frozen=True)
class Thresholds(WaitingThresholds):
    """From where on something is a finding."""

    latency: LatencyLimits = field(default_factory=LatencyLimits)
    sampling_loss_points: float = 50
    """Half of what a plugin of weight 1 can say for a node: its preference is as good as ignored."""
    priorities: PriorityLimits = field(default_factory=PriorityLimits)


@dataclass(frozen=True, eq=False)
class AuditedCluster(ReplayedCluster):
    """A cluster with what the sections of an audit need."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    earlier: Scheduler | None = None
    """The same cluster at an earlier time, if known."""
    measured: Measured | None = None
    """kube-scheduler's own metrics, if known."""

    def not_read(self, *kinds: str) -> Iterator[UnknownKind]:
        """The kinds that the cluster does not cover, and that a verdict leans on."""
        for kind in kinds:
            if gap := self.cluster.gap(kind):
                yield UnknownKind(kind, gap.why, VERDICT)
