"""The scheduler names that pods use, and which instances serve them according to configuration, events and leases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kschedctl.api.defaults import DEFAULT_SCHEDULER_NAME
from kschedctl.api.events import first_seen, get_reporter, parse_assignment
from kschedctl.api.objects import Event
from kschedctl.cluster import SchedulerInstance
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.leader.report import DifferentSetting, ServedName, WorkingInstance
from kschedctl.commands.explain.waiting import find_gang_schedulers

PROFILE, EVENTS, LEASE, POD_GROUPS = "profile", "events", "lease", "podGroups"


def find_served_names(audited: AuditedCluster) -> list[ServedName]:
    """Return the names that pods use or profiles have, those with the most waiting pods first."""
    waiting = Counter(pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME for pod in audited.pending)
    bound = _count_bound_pods(audited)
    placed = _group_placements(audited.cluster.events)
    profiles = audited.scheduler.configuration.profiles
    leases = {lease.metadata.name for lease in audited.cluster.leases if lease.spec.holder_identity}
    names = {**waiting, **bound, **dict.fromkeys(profiles, 0), **dict.fromkeys(placed, 0)}
    evidence = {PROFILE: profiles, EVENTS: placed, LEASE: leases, POD_GROUPS: find_gang_schedulers(audited.cluster)}
    served = [
        ServedName(
            name=name,
            served=next((by for by, served in evidence.items() if name in served), ""),
            waiting=waiting[name],
            bound=bound[name],
            turns=_count_turns(placed.get(name, ())),
            instances=_summarize_instances(placed.get(name, ())),
        )
        for name in names
    ]
    return sorted(served, key=lambda served_name: (-served_name.waiting, -served_name.bound, served_name.name))


def _count_bound_pods(audited: AuditedCluster) -> Counter[str]:
    """Return the number of pods on nodes by scheduler name."""
    table = audited.cluster.pods.drop_terminated()
    with_node = np.array([bool(name) for name in table.node.values], np.bool_)[table.node.codes]
    counts = np.bincount(table.template[with_node], minlength=len(table.templates)).tolist()
    pods: Counter[str] = Counter()
    for template, number in zip(table.templates, counts, strict=True):
        if number:
            pods[template.spec.scheduler_name or DEFAULT_SCHEDULER_NAME] += number
    return pods


def _group_placements(events: Iterable[Event]) -> Mapping[str, Sequence[Event]]:
    """Return the placement events by scheduler name, in order of time."""
    by_name: dict[str, list[Event]] = {}
    for event in events:
        if parse_assignment(event) is not None and get_reporter(event):
            by_name.setdefault(get_reporter(event), []).append(event)
    for placements in by_name.values():
        placements.sort(key=first_seen)
    return by_name


def _summarize_instances(placements: Sequence[Event]) -> tuple[WorkingInstance, ...]:
    """Return the instances that placed pods, with the number and times of their placements."""
    by_instance: dict[str, list[Event]] = {}
    for event in placements:
        if event.reporting_instance:
            by_instance.setdefault(event.reporting_instance, []).append(event)
    return tuple(
        WorkingInstance(
            instance=name,
            placed=len(instance_events),
            first=first_seen(instance_events[0]),
            last=first_seen(instance_events[-1]),
        )
        for name, instance_events in by_instance.items()
    )


def _count_turns(placements: Sequence[Event]) -> int:
    """Return how often a pod was placed by another instance than the pod before."""
    instances = [event.reporting_instance for event in placements if event.reporting_instance]
    return sum(before != after for before, after in pairwise(instances))


def find_differing_settings(instances: Sequence[SchedulerInstance]) -> list[DifferentSetting]:
    """Return the version and flags in which instances differ. A flag that is not set has the value ""."""
    settings = dict.fromkeys(("version", *(flag for instance in instances for flag in instance.flags)))
    differing = []
    for setting in settings:
        values: dict[str, tuple[str, ...]] = {}
        for instance in instances:
            value = instance.version if setting == "version" else instance.flags.get(setting, "")
            values[value] = (*values.get(value, ()), instance.name)
        if len(values) > 1:
            differing.append(DifferentSetting(setting=setting, values=values))
    return differing
