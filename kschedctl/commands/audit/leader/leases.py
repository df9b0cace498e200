"""The leases of schedulers: who holds them, since when, and whether they are still renewed.

Upstream: staging/src/k8s.io/client-go/tools/leaderelection/leaderelection.go (v1.36): whoever leads renews the lease
every few seconds; who finds it not renewed for as long as it lasts takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kschedctl.api.ages import format_age
from kschedctl.api.objects import Lease
from kschedctl.api.observed.events import LEADER_ELECTION
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.audit.audited_cluster import AuditedCluster
from kschedctl.commands.audit.leader.report import SchedulerLease
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.document import parse_document

LASTS_SECONDS = 15
"""Unless a lease says otherwise."""
BECAME_LEADER = "became leader"
WORD = "scheduler"
"""A word in the name of the lease of every scheduler that is known."""


class LeaseName(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def own_lease(cluster: Cluster) -> LeaseName | None:
    """The lease of the scheduler that is replayed; None where it takes part in no election.

    Under pseudonyms the name stays, but not the namespace: then the only lease of its name is meant.
    """
    election = parse_document(cluster.configuration or _DEFAULT).leader_election
    if not election.leader_elect:
        return None
    own = LeaseName(election.resource_namespace, election.resource_name)
    named = [name_of(lease) for lease in cluster.leases if lease.metadata.name == own.name]
    return named[0] if len(named) == 1 else own


_DEFAULT = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def scheduler_leases(audited: AuditedCluster) -> list[SchedulerLease]:
    """The leases of schedulers, that of the one that is replayed first."""
    own = own_lease(audited.cluster)
    newest = _newest(audited.cluster.leases)
    leases = [(name_of(lease), lease) for lease in audited.cluster.leases if _is_schedulers(lease, own)]
    leases.sort(key=lambda item: (item[0] != own, item[0]))
    return [_told(name, lease, newest, audited) for name, lease in leases]


def name_of(lease: Lease) -> LeaseName:
    return LeaseName(lease.metadata.namespace, lease.metadata.name)


def _is_schedulers(lease: Lease, own: LeaseName | None) -> bool:
    return name_of(lease) == own or WORD in lease.metadata.name


def _told(name: LeaseName, lease: Lease, newest: int | None, audited: AuditedCluster) -> SchedulerLease:
    spec = lease.spec
    lasts = spec.lease_duration_seconds or LASTS_SECONDS
    behind = _seconds_between(spec.renew_time, newest)
    silent = audited.seconds_since(spec.renew_time)
    return SchedulerLease(
        lease=str(name),
        holder=spec.holder_identity,
        since=spec.acquire_time or "",
        renewed=spec.renew_time or "",
        leads_for=format_age(spec.acquire_time, audited.now),
        silent_for=format_age(spec.renew_time, audited.now),
        seconds=lasts,
        transitions=spec.lease_transitions or 0,
        elections=sum(1 for _ in _elections(audited.cluster, name)),
        stale=(behind is not None and behind > lasts) or (silent is not None and silent > lasts),
    )


def _elections(cluster: Cluster, name: LeaseName) -> Iterator[str]:
    """The instances that began to lead, as often as they did."""
    for event in cluster.events:
        about = event.involved_object
        if event.reason == LEADER_ELECTION and (about.namespace, about.name) == name:
            leader, began, _ = event.message.partition(f" {BECAME_LEADER}")
            if began:
                yield leader


def renewed_later(cluster: Cluster, renewed: str) -> float | None:
    """By how many seconds some other lease was renewed later than then: clocks of other machines have no part in it."""
    return _seconds_between(renewed, _newest(cluster.leases))


def _newest(leases: Iterable[Lease]) -> int | None:
    moments = [moment for lease in leases if (moment := _moment(lease.spec.renew_time)) is not None]
    return max(moments, default=None)


def _seconds_between(time: str | None, newest: int | None) -> float | None:
    moment = _moment(time)
    return None if moment is None or newest is None else (newest - moment) / 10**9


def _moment(time: str | None) -> int | None:
    try:
        return parse_nanoseconds(time) if time else None
    except InputError:
        return None
