"""A cluster that the scenarios of a command share, with a scheduler that is built once in each process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.unreplayed_admission import (
    describe_unreplayed_limits,
    find_uncalled_admission_hooks,
    find_unread_admission_kinds,
)
from kschedctl.replay.parallel import ONE_PROCESS, Workers
from kschedctl.replay.unknown import build_unknown_fields, find_unreplayed_parts, merge_unknown_kinds
from kschedctl.reports.plugin_answers import EXTENDER_INPUT_NOTE, SearchStart
from kschedctl.reports.unknown import ClusterBasis, UnknownKind
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.plugins.priority_sort import PrioritySort
from kschedctl.scheduler.scheduler import Scheduler

T = TypeVar("T")

EXTENDER_CLUSTER_NOTE = "extenders answer for the real cluster, not for the simulated one"


@dataclass(eq=False)
class SharedCluster:
    """A cluster and how its pods are scheduled. Cached values are left out of pickles."""

    cluster: Cluster
    sampling: SampledFrom | None = None
    """The sampling of nodes, or None if all nodes are examined."""
    call_extender: CallExtender | None = None
    """The function that calls extenders, if there are any. The cluster then stays in its process."""
    cache: dict[object, object] = field(default_factory=dict)

    def __getstate__(self) -> Mapping[str, object]:
        """Return the fields to pickle, with an empty cache."""
        return {**self.__dict__, "cache": {}}

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler of the cluster, built once in each process."""
        return self.get_cached(_build_scheduler)

    def get_cached(self, make: Callable[[SharedCluster], T]) -> T:
        """Return the value that ``make`` builds from the cluster. The value is built only once in each process."""
        if make not in self.cache:
            self.cache[make] = make(self)
        return cast(T, self.cache[make])


def _build_scheduler(shared: SharedCluster) -> Scheduler:
    """Build the scheduler of the cluster."""
    return Scheduler(shared.cluster, shared.call_extender)


def describe_search_start(sampling: SampledFrom | None, nodes: int, seed: int) -> SearchStart | None:
    """Return where the first search for nodes starts with this seed, or None if all ``nodes`` nodes are examined."""
    if sampling is None:
        return None
    return SearchStart(sampling.find_start_index(nodes, seed), known=sampling.start is not None)


def limit_workers(workers: Workers, call_extender: CallExtender | None) -> Workers:
    """Return the workers or, if extenders are called, a single process, so that each answer is recorded once."""
    return workers if call_extender is None else ONE_PROCESS


def build_cluster_basis(
    unknown: tuple[UnknownKind, ...],
    *schedulers: Scheduler,
    created_pods: Iterable[str] = (),
    replayed: Mapping[str, bool] | None = None,
) -> ClusterBasis:
    """Build the report fields that say what a report is based on and what was not replayed.

    ``unknown`` are the unread kinds that the caller already found to affect the report. The report is based on the
    clusters of ``schedulers``. ``created_pods`` are the keys (``namespace/name``) of pods that have to be created
    first, in the cluster of the last scheduler. ``replayed`` maps each namespace whose quotas and LimitRanges are
    replayed to True if all of admission is replayed for it, and to False otherwise.
    """
    not_replayed = list(_iter_unreplayed_scheduler_parts(schedulers))
    ignored: list[str] = []
    for scheduler in schedulers:
        ignored += scheduler.list_ignored_fields(pod.spec for pod in scheduler.cluster.pods.templates)

    # What could keep the pods from being created
    unknown_kinds = [unknown]
    if schedulers:
        *_, last_scheduler = schedulers
        created_pods = list(created_pods)
        namespaces = {key.partition("/")[0] for key in created_pods}
        not_replayed += describe_unreplayed_limits(last_scheduler.cluster, namespaces, replayed or {})
        unknown_kinds.append(tuple(_iter_creation_unknowns(last_scheduler.cluster, created_pods, namespaces)))

    return {
        "not_replayed": tuple(dict.fromkeys(not_replayed)),
        "ignored": tuple(dict.fromkeys(ignored)),
        "extended": build_extender_notes(*schedulers),
        **build_unknown_fields(merge_unknown_kinds(unknown_kinds)),
    }


def _iter_unreplayed_scheduler_parts(schedulers: Sequence[Scheduler]) -> Iterator[str]:
    """Yield lines about the parts of the profiles that are not replayed, and then about their queueSort plugins."""
    for scheduler in schedulers:
        for name in scheduler.configuration.profiles:
            framework = scheduler.find_framework(name)
            if framework is not None:
                yield from find_unreplayed_parts(framework)
    for scheduler in schedulers:
        yield from _iter_unreplayed_queue_sorts(scheduler)


def _iter_creation_unknowns(
    cluster: Cluster, pod_keys: Iterable[str], namespaces: Iterable[str]
) -> Iterator[UnknownKind]:
    """Yield the unread limits and uncalled admission hooks that might keep these pods from being created.

    ``pod_keys`` are ``namespace/name``. Pods that the cluster does not have are left out.
    """
    pods = (cluster.pod(*key.split("/", 1)) for key in pod_keys)
    yield from find_unread_admission_kinds(cluster, namespaces)
    yield from find_uncalled_admission_hooks(cluster, filter(None, pods))


def _iter_unreplayed_queue_sorts(scheduler: Scheduler) -> Iterator[str]:
    """Yield a line for each configured queueSort plugin, if the order of the queue is not replayed."""
    if scheduler.queue_sort is not None:
        return
    first_profile = next(iter(scheduler.configuration.profiles.values()))
    for name in first_profile.plugins["queueSort"]:
        if name != PrioritySort.name:
            yield f"plugin {name} at queueSort"


def build_extender_notes(*schedulers: Scheduler) -> tuple[str, ...]:
    """Return notes about extenders that answer for a changed cluster, if any extender is called."""
    is_called = any(scheduler.call_extender is not None and scheduler.extenders for scheduler in schedulers)
    return (EXTENDER_CLUSTER_NOTE, EXTENDER_INPUT_NOTE) if is_called else ()
