"""What all sections of an audit stand on: the cluster at a time, and its pending pods, replayed once for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar, cast

from kschedctl.api.objects import Pod
from kschedctl.api.times import nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.unknown import VERDICT, UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.basics.parallel import UNSEEN, Progress
from kschedctl.studies.controllers.workload_pods import is_waiting
from kschedctl.studies.explain import as_events, explain_pod
from kschedctl.studies.latency.measured import Measured
from kschedctl.studies.latency.verdicts import LatencyLimits
from kschedctl.studies.priorities.growth import PriorityLimits


class ReplayedPods(NamedTuple):
    """Pods that are alike in all that scheduling reads, and what kube-scheduler says of each of them."""

    pods: tuple[Pod, ...]
    explanation: Explanation


def replayed(scheduler: Scheduler, pods: Sequence[Pod], progress: Progress) -> tuple[ReplayedPods, ...]:
    """The pods of the cluster by what they share, in the order of the first of each."""
    columns = scheduler.view.pods
    alike: dict[tuple[int, str], list[Pod]] = {}
    for pod in pods:
        key = int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name
        alike.setdefault(key, []).append(pod)
    done, replays = progress.begin("Replaying pending pods", len(pods)), []
    for same in alike.values():
        explanation = as_events(explain_pod(scheduler, scheduler.view.stored(same[0]), nodes=False))
        replays.append(ReplayedPods(tuple(same), explanation))
        done(len(same))
    return tuple(replays)


T = TypeVar("T")


@dataclass(frozen=True)
class Thresholds:
    """From where on something is a finding."""

    stuck_seconds: int = 60
    """A pod that fits is tried within its back-off, of ten seconds at most, and the cycles before its own."""
    flushed_seconds: int = 340
    """By then every refused pod was tried again: the flush of the unschedulable pods takes those that are in there for
    five minutes, and runs twice a minute; then they back off for ten seconds at most."""
    overdue_seconds: int = 60
    """What leaves is gone soon after its grace period, unless its kubelet does not answer or a finalizer holds it."""
    latency: LatencyLimits = field(default_factory=LatencyLimits)
    sampling_loss_points: float = 50
    """Half of what a plugin of weight 1 can say for a node: its preference is as good as ignored."""
    priorities: PriorityLimits = field(default_factory=PriorityLimits)


@dataclass(frozen=True, eq=False)
class AuditedCluster:
    """``now``: the RFC 3339 time of the cluster; empty where that is not known, and then no section claims anything
    about ages. ``earlier``: the same cluster at an earlier time, ``measured``: what kube-scheduler's own metrics say,
    where these are given."""

    scheduler: Scheduler
    now: str = ""
    thresholds: Thresholds = field(default_factory=Thresholds)
    earlier: Scheduler | None = None
    measured: Measured | None = None
    progress: Progress = UNSEEN

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    def not_read(self, *kinds: str) -> Iterator[UnknownKind]:
        """The kinds that the cluster does not cover, and that a verdict leans on."""
        for kind in kinds:
            if gap := self.cluster.gap(kind):
                yield UnknownKind(kind, gap.why, VERDICT)

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """The pods that wait for a node, in order of namespace and name."""
        return tuple(pod for pod in self.cluster.unbound_pods() if is_waiting(pod))

    @cached_property
    def replay(self) -> tuple[ReplayedPods, ...]:
        """All pending pods replayed, those alike in all that scheduling reads together."""
        return replayed(self.scheduler, self.pending, self.progress)

    def once(self, make: Callable[[AuditedCluster], T]) -> T:
        """What several sections make of it, made once: ``audited.once(waiting_pods)``."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(T, self._made[make])

    @cached_property
    def _made(self) -> dict[Callable[[AuditedCluster], object], object]:
        return {}

    def seconds_since(self, time: str | None) -> float | None:
        """How long ago that was; None where it, or now, is not known or no time."""
        if not time or not self.now:
            return None
        try:
            return (nanoseconds(self.now) - nanoseconds(time)) / 10**9
        except InputError:
            return None
