"""A cluster at a moment, with all pending pods replayed: what ``explain`` and ``audit`` say about waiting pods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

from kschedctl.api.objects import Pod
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.attempt import as_events, explain_pod
from kschedctl.commands.explain.report import Explanation
from kschedctl.errors import InputError
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.scheduler.scheduler import Scheduler


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
class WaitingThresholds:
    """How long pods may wait, or take to leave, before something is wrong."""

    stuck_seconds: int = 60
    """A pod that fits is tried within its back-off, of ten seconds at most, and the cycles before its own."""
    flushed_seconds: int = 340
    """By then every refused pod was tried again: the flush of the unschedulable pods takes those that are in there for
    five minutes, and runs twice a minute; then they back off for ten seconds at most."""
    overdue_seconds: int = 60
    """What leaves is gone soon after its grace period, unless its kubelet does not answer or a finalizer holds it."""


@dataclass(frozen=True, eq=False)
class ReplayedCluster:
    """A cluster at a moment, with all pending pods replayed."""

    scheduler: Scheduler
    now: str = ""
    """The RFC 3339 time of the cluster, empty if unknown: then nothing is said about ages."""
    thresholds: WaitingThresholds = field(default_factory=WaitingThresholds)
    progress: Progress = NO_PROGRESS

    @property
    def cluster(self) -> Cluster:
        return self.scheduler.cluster

    @cached_property
    def pending(self) -> tuple[Pod, ...]:
        """The pods that wait for a node, in order of namespace and name."""
        return tuple(pod for pod in self.cluster.unbound_pods() if is_pending(pod))

    @cached_property
    def replay(self) -> tuple[ReplayedPods, ...]:
        """All pending pods replayed, those alike in all that scheduling reads together."""
        return replayed(self.scheduler, self.pending, self.progress)

    def once(self, make: Callable[[Any], T]) -> T:
        """What several sections make of it, made once: ``audited.once(waiting_pods)``."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast(T, self._made[make])

    @cached_property
    def _made(self) -> dict[Callable[[Any], object], object]:
        return {}

    def seconds_since(self, time: str | None) -> float | None:
        """How long ago that was; None where it, or now, is not known or no time."""
        if not time or not self.now:
            return None
        try:
            return (parse_nanoseconds(self.now) - parse_nanoseconds(time)) / 10**9
        except InputError:
            return None
