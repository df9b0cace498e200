"""Under which names pods are scheduled, and by which instances: what configuration, events and leases know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from kschedctl.api.defaults import DEFAULT_SCHEDULER_NAME
from kschedctl.api.objects import Event
from kschedctl.api.observed.events import first_seen, get_reporter, parse_assignment
from kschedctl.cluster import SchedulerInstance
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.leader.report import DifferentSetting, ServedName, WorkingInstance
from kschedctl.commands.explain.waiting import find_gang_schedulers

PROFILE, EVENTS, LEASE, POD_GROUPS = "profile", "events", "lease", "podGroups"


def served_names(audited: AuditedCluster) -> list[ServedName]:
    """The names that pods give, and those that have a profile; most waiting pods first."""
    waiting = Counter(pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME for pod in audited.pending)
    bound = _bound(audited)
    placed = _placed(audited.cluster.events)
    profiles = audited.scheduler.configuration.profiles
    leases = {lease.metadata.name for lease in audited.cluster.leases if lease.spec.holder_identity}
    names = {**waiting, **bound, **dict.fromkeys(profiles, 0), **dict.fromkeys(placed, 0)}
    known = {PROFILE: profiles, EVENTS: placed, LEASE: leases, POD_GROUPS: find_gang_schedulers(audited.cluster)}
    served = [
        ServedName(
            name=name,
            served=next((by for by, served in known.items() if name in served), ""),
            waiting=waiting[name],
            bound=bound[name],
            turns=_turns(placed.get(name, ())),
            instances=_instances(placed.get(name, ())),
        )
        for name in names
    ]
    return sorted(served, key=lambda served_name: (-served_name.waiting, -served_name.bound, served_name.name))


def _bound(audited: AuditedCluster) -> Counter[str]:
    """How many pods that have a node named each scheduler."""
    table = audited.cluster.pods.drop_terminated()
    with_node = np.array([bool(name) for name in table.node.values], np.bool_)[table.node.codes]
    counts = np.bincount(table.template[with_node], minlength=len(table.templates)).tolist()
    pods: Counter[str] = Counter()
    for template, number in zip(table.templates, counts, strict=True):
        if number:
            pods[template.spec.scheduler_name or DEFAULT_SCHEDULER_NAME] += number
    return pods


def _placed(events: Iterable[Event]) -> Mapping[str, Sequence[Event]]:
    """Name of a scheduler -> the events of the pods that it placed, in the order of time."""
    by_name: dict[str, list[Event]] = {}
    for event in events:
        if parse_assignment(event) is not None and get_reporter(event):
            by_name.setdefault(get_reporter(event), []).append(event)
    for placed in by_name.values():
        placed.sort(key=first_seen)
    return by_name


def _instances(placed: Sequence[Event]) -> tuple[WorkingInstance, ...]:
    by_instance: dict[str, list[Event]] = {}
    for event in placed:
        if event.reporting_instance:
            by_instance.setdefault(event.reporting_instance, []).append(event)
    return tuple(
        WorkingInstance(instance=name, placed=len(own), first=first_seen(own[0]), last=first_seen(own[-1]))
        for name, own in by_instance.items()
    )


def _turns(placed: Sequence[Event]) -> int:
    instances = [event.reporting_instance for event in placed if event.reporting_instance]
    return sum(before != after for before, after in pairwise(instances))


def differences(instances: Sequence[SchedulerInstance]) -> list[DifferentSetting]:
    """Versions and flags that not all instances share; "" stands for one that is not set."""
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
