"""What the scenarios of a study share: a cluster, and a scheduler that is made once in each process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar, cast

from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.unreplayed_admission import (
    describe_unreplayed_limits,
    find_unasked_hooks,
    find_unread_limits,
)
from kschedctl.replay.parallel import ONE_PROCESS, Workers
from kschedctl.replay.unknown import find_unreplayed_parts, merge_unknown_kinds, unknown_fields
from kschedctl.reports.searches import SearchStart
from kschedctl.reports.unknown import ClusterBasis, UnknownKind
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.plugins.priority_sort import PrioritySort
from kschedctl.scheduler.scheduler import Scheduler

T = TypeVar("T")

EXTENDERS_GOT = "extenders got of pods what kube-scheduler's plugins read: no annotations, no environment"
EXTENDERS_KNOW = "extenders answer for the cluster as they know it, not as it is here"


@dataclass(eq=False)
class SharedCluster:
    """``sampling``: look at as many nodes as the scheduler does. What is made of it stays behind when it travels.

    ``call_extender``: how extenders are asked, where they are; then it stays where it is.
    """

    cluster: Cluster
    sampling: SampledFrom | None = None
    call_extender: CallExtender | None = None
    made: dict[object, object] = field(default_factory=dict)

    def __getstate__(self) -> Mapping[str, object]:
        return {**self.__dict__, "made": {}}

    @property
    def scheduler(self) -> Scheduler:
        return self.once(_scheduler)

    def once(self, make: Callable[[SharedCluster], T]) -> T:
        """What is made of the cluster, once in each process."""
        if make not in self.made:
            self.made[make] = make(self)
        return cast(T, self.made[make])


def _scheduler(shared: SharedCluster) -> Scheduler:
    return Scheduler(shared.cluster, shared.call_extender)


def search_start(sampling: SampledFrom | None, nodes: int, seed: int) -> SearchStart | None:
    """Where the first search for nodes begins, if only a part is looked at."""
    return SearchStart(sampling.index(nodes, seed), known=sampling.start is not None) if sampling else None


def those_who_may_ask(workers: Workers, call_extender: CallExtender | None) -> Workers:
    """The workers; where extenders are asked one process does it all, so that each answer is heard and kept once."""
    return workers if call_extender is None else ONE_PROCESS


def cluster_basis(
    unknown: tuple[UnknownKind, ...],
    *schedulers: Scheduler,
    created: Iterable[str] = (),
    counted: Mapping[str, bool] | None = None,
) -> ClusterBasis:
    """What a report rests on: also what the configuration runs and no answer replays.

    ``created``: pods (``namespace/name``) that somebody has to create first; ``counted``: the namespaces whose quotas
    and LimitRanges are replayed, and whether all of admission is. Of one that moves pods on a copy of the cluster: also
    what to know of the answers of extenders.
    """
    served = [(s, f) for s in schedulers for name in s.configuration.profiles if (f := s.framework(name))]
    missing = (line for scheduler, framework in served for line in find_unreplayed_parts(framework))
    orders = (line for scheduler in schedulers for line in _other_order(scheduler))
    ignored = (line for s in schedulers for line in s.ignored(pod.spec for pod in s.cluster.pods.templates))
    created = list(created)
    namespaces = {pod.partition("/")[0] for pod in created}
    limits = (
        line
        for scheduler in schedulers[-1:]
        for line in describe_unreplayed_limits(scheduler.cluster, namespaces, counted or {})
    )
    return {
        "not_replayed": tuple(dict.fromkeys((*missing, *orders, *limits))),
        "ignored": tuple(dict.fromkeys(ignored)),
        "extended": of_extenders(*schedulers),
        **unknown_fields(
            merge_unknown_kinds(
                (unknown, *(_unasked(scheduler.cluster, created, namespaces) for scheduler in schedulers[-1:]))
            )
        ),
    }


def _unasked(cluster: Cluster, created: Iterable[str], namespaces: Iterable[str]) -> Iterator[UnknownKind]:
    """What may keep pods (``namespace/name``) from being created, and was not read or asked."""
    pods = (cluster.pod(*key.split("/", 1)) for key in created)
    yield from find_unread_limits(cluster, namespaces)
    yield from find_unasked_hooks(cluster, filter(None, pods))


def _other_order(scheduler: Scheduler) -> Iterator[str]:
    """The plugin that orders the queue in place of PrioritySort, where that is not replayed."""
    profile = next(iter(scheduler.configuration.profiles.values()))
    names = [name for name in profile.plugins["queueSort"] if name != PrioritySort.name]
    if scheduler.queue_sort is None:
        yield from (f"plugin {name} at queueSort" for name in names)


def of_extenders(*schedulers: Scheduler) -> tuple[str, ...]:
    """What to know of the answers of extenders about changed clusters, where any is asked."""
    asked = any(scheduler.call_extender is not None and scheduler.extenders for scheduler in schedulers)
    return (EXTENDERS_KNOW, EXTENDERS_GOT) if asked else ()
