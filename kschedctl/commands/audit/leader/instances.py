"""Scheduler instances: their leases, the scheduler names that they serve, and the settings in which they differ.

Upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go (v1.36). The leader renews its lease every
few seconds; another instance takes a lease that was not renewed for its duration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kschedctl.api.defaults import DEFAULT_SCHEDULER_NAME
from kschedctl.api.events import LEADER_ELECTION, get_first_time, get_reporter, parse_scheduled_event
from kschedctl.api.objects import Event, Lease
from kschedctl.api.times import format_age, parse_nanoseconds
from kschedctl.cluster import Cluster, SchedulerInstance
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.leader.report import DifferentSetting, SchedulerLease, ServedName, WorkingInstance
from kschedctl.commands.explain.waiting import find_volcano_schedulers
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.document import parse_document

DEFAULT_LEASE_SECONDS = 15
"""The duration of a lease that does not give one."""
BECAME_LEADER = "became leader"
SCHEDULER_NAME_PART = "scheduler"
"""A part of the names of all known schedulers' leases."""


class LeaseName(NamedTuple):
    """The namespace and name of a lease."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def find_own_lease(cluster: Cluster) -> LeaseName | None:
    """Return the name of the replayed scheduler's lease, or None if leader election is off in its configuration.

    A lease with this name need not exist. In an anonymized snapshot, namespaces are replaced but lease names are not.
    Therefore, if exactly one lease has the configured name, its namespace is returned instead of the configured one.
    """
    election = parse_document(cluster.configuration or _DEFAULT_CONFIGURATION).leader_election
    if not election.leader_elect:
        return None
    configured = LeaseName(election.resource_namespace, election.resource_name)
    existing_names = [get_lease_name(lease) for lease in cluster.leases if lease.metadata.name == configured.name]
    return existing_names[0] if len(existing_names) == 1 else configured


_DEFAULT_CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def report_scheduler_leases(audited: AuditedCluster) -> list[SchedulerLease]:
    """Report on the leases of all schedulers, starting with the replayed scheduler's lease."""
    own_lease = find_own_lease(audited.cluster)
    newest = _find_newest_renewal(audited.cluster.leases)
    leases = {get_lease_name(lease): lease for lease in audited.cluster.leases if _is_scheduler_lease(lease, own_lease)}
    own_lease_first = sorted(leases, key=lambda name: (name != own_lease, name))
    return [_build_scheduler_lease(name, leases[name], newest, audited) for name in own_lease_first]


def get_lease_name(lease: Lease) -> LeaseName:
    """Return the namespace and name of a lease."""
    return LeaseName(lease.metadata.namespace, lease.metadata.name)


def _is_scheduler_lease(lease: Lease, own_lease: LeaseName | None) -> bool:
    """Return whether a lease belongs to a scheduler, judging by its name."""
    return get_lease_name(lease) == own_lease or SCHEDULER_NAME_PART in lease.metadata.name


def _build_scheduler_lease(
    name: LeaseName, lease: Lease, newest: int | None, audited: AuditedCluster
) -> SchedulerLease:
    """Build the report about a scheduler's lease.

    `newest` is the latest renewal of any lease in nanoseconds, or None if unknown. The lease is stale if it had expired
    by the cluster's time or by `newest`.
    """
    spec = lease.spec
    duration = spec.lease_duration_seconds or DEFAULT_LEASE_SECONDS
    seconds_silent = (_compute_seconds_between(spec.renew_time, newest), audited.measure_seconds_since(spec.renew_time))
    return SchedulerLease(
        lease=str(name),
        holder=spec.holder_identity,
        since=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        leads_for=format_age(spec.acquire_time, audited.now),
        silent_for=format_age(spec.renew_time, audited.now),
        seconds=duration,
        transitions=spec.lease_transitions or 0,
        elections=sum(1 for _ in _iter_elected_instances(audited.cluster, name)),
        stale=any(seconds is not None and seconds > duration for seconds in seconds_silent),
    )


def _iter_elected_instances(cluster: Cluster, name: LeaseName) -> Iterator[str]:
    """Yield the name of the instance that won each election for the lease.

    Elections are recognized by their events, so older elections are missing if their events have expired.
    """
    for event in cluster.events:
        reference = event.involved_object
        if event.reason == LEADER_ELECTION and (reference.namespace, reference.name) == name:
            leader, separator, _ = event.message.partition(f" {BECAME_LEADER}")
            if separator:
                yield leader


def compute_seconds_until_newest_renewal(cluster: Cluster, renewed: str) -> float | None:
    """Return by how many seconds the newest renewal of any lease is later than `renewed`, or None if unknown.

    All these times come from lease holders, so this machine's clock does not matter.
    """
    return _compute_seconds_between(renewed, _find_newest_renewal(cluster.leases))


def _find_newest_renewal(leases: Iterable[Lease]) -> int | None:
    """Return the time of the newest renewal in nanoseconds, or None if there is none."""
    moments = [moment for lease in leases if (moment := _parse_nanoseconds(lease.spec.renew_time)) is not None]
    return max(moments, default=None)


def _compute_seconds_between(start: str | None, end: int | None) -> float | None:
    """Return the seconds from `start` (RFC 3339) to `end` (nanoseconds), or None if either is unknown."""
    start_nanoseconds = _parse_nanoseconds(start)
    if start_nanoseconds is None or end is None:
        return None
    return (end - start_nanoseconds) / 10**9


def _parse_nanoseconds(time: str | None) -> int | None:
    """Parse a time and return it in nanoseconds, or None if it is missing or malformed."""
    try:
        return parse_nanoseconds(time) if time else None
    except InputError:
        return None


PROFILE, EVENTS, LEASE, POD_GROUPS = "profile", "events", "lease", "podGroups"
"""The kinds of evidence that a scheduler name is served, the best first."""


def summarize_scheduler_names(audited: AuditedCluster) -> list[ServedName]:
    """Summarize each scheduler name found in pods, profiles or placement events, most waiting pods first.

    A summary has the evidence for a scheduler with this name ("" if there is none), the numbers of waiting and bound
    pods, and the instances that placed pods.
    """
    waiting = Counter(pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME for pod in audited.pending)
    bound = _count_bound_pods(audited)
    placements = _group_placements(audited.cluster.events)
    profiles = audited.scheduler.configuration.profiles
    held_leases = {lease.metadata.name for lease in audited.cluster.leases if lease.spec.holder_identity}
    names_by_evidence = {
        PROFILE: profiles,
        EVENTS: placements,
        LEASE: held_leases,
        POD_GROUPS: find_volcano_schedulers(audited.cluster),
    }
    summaries = [
        ServedName(
            name=name,
            served=next((evidence for evidence, names in names_by_evidence.items() if name in names), ""),
            waiting=waiting[name],
            bound=bound[name],
            turns=_count_instance_switches(placements.get(name, ())),
            instances=_summarize_instances(placements.get(name, ())),
        )
        for name in dict.fromkeys((*waiting, *bound, *profiles, *placements))
    ]
    return sorted(summaries, key=lambda summary: (-summary.waiting, -summary.bound, summary.name))


def _count_bound_pods(audited: AuditedCluster) -> Counter[str]:
    """Return the number of pods on nodes by scheduler name. Pods that have ended do not count."""
    table = audited.cluster.pods.drop_terminated()
    is_node_name = np.array([bool(name) for name in table.node.values], np.bool_)
    has_node = is_node_name[table.node.codes]
    pods_by_template = np.bincount(table.template[has_node], minlength=len(table.templates)).tolist()
    pods_by_scheduler: Counter[str] = Counter()
    for template, number in zip(table.templates, pods_by_template, strict=True):
        if number:
            pods_by_scheduler[template.spec.scheduler_name or DEFAULT_SCHEDULER_NAME] += number
    return pods_by_scheduler


def _group_placements(events: Iterable[Event]) -> Mapping[str, Sequence[Event]]:
    """Group the events about placed pods by the scheduler name that reported them, in order of time."""
    by_name: dict[str, list[Event]] = {}
    for event in events:
        if parse_scheduled_event(event) is not None and get_reporter(event):
            by_name.setdefault(get_reporter(event), []).append(event)
    for placements in by_name.values():
        placements.sort(key=get_first_time)
    return by_name


def _summarize_instances(placements: Sequence[Event]) -> tuple[WorkingInstance, ...]:
    """Return the instances that placed pods, each with the number of its placements and the first and last time."""
    by_instance: dict[str, list[Event]] = {}
    for event in placements:
        if event.reporting_instance:
            by_instance.setdefault(event.reporting_instance, []).append(event)
    return tuple(
        WorkingInstance(
            instance=name,
            placed=len(instance_events),
            first=get_first_time(instance_events[0]),
            last=get_first_time(instance_events[-1]),
        )
        for name, instance_events in by_instance.items()
    )


def _count_instance_switches(placements: Sequence[Event]) -> int:
    """Return how often a pod was placed by a different instance than the previous pod."""
    instances = [event.reporting_instance for event in placements if event.reporting_instance]
    return sum(instance != next_instance for instance, next_instance in pairwise(instances))


def find_differing_settings(instances: Sequence[SchedulerInstance]) -> list[DifferentSetting]:
    """Return the flags in which instances differ, and the version if it differs, with the instances for each value.

    A flag that is not set has the value "".
    """
    settings = dict.fromkeys(("version", *(flag for instance in instances for flag in instance.flags)))
    differing = []
    for setting in settings:
        instances_by_value: dict[str, tuple[str, ...]] = {}
        for instance in instances:
            value = instance.version if setting == "version" else instance.flags.get(setting, "")
            instances_by_value[value] = (*instances_by_value.get(value, ()), instance.name)
        if len(instances_by_value) > 1:
            differing.append(DifferentSetting(setting=setting, values=instances_by_value))
    return differing
