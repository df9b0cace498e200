"""Reports on what a simulation did: pods per node and domain, pending and evicted pods, headroom, missing classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Ints, Position, Row
from kschedctl.api.objects import PersistentVolumeClaim, Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import PODS
from kschedctl.cluster import Cluster
from kschedctl.reports.placements import (
    EvictedPod,
    EvictionChain,
    EvictionFate,
    Headroom,
    PodCount,
    RetriedPods,
    UnplacedPods,
)
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS
from kschedctl.scheduler.engine.permit import WAITS_AT_PLUGIN, run_permit
from kschedctl.scheduler.framework import SUCCESS, Code, PermitPlugin, offers
from kschedctl.scheduler.queueing.scheduling_queue import BACKOFF
from kschedctl.scheduler.queueing.scheduling_queue import UNSCHEDULABLE as UNSCHEDULABLE_PODS
from kschedctl.scheduler.simulation.outcome import ERROR, GATED, UNSCHEDULABLE, Eviction, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, ZONE


class QueuePlace(NamedTuple):
    """The queue in which a pod waits, and the plugins that rejected it."""

    queue: str = ""
    """Empty if the pod waits in no queue."""
    rejectors: tuple[str, ...] = ()
    """Names of the plugins that rejected the pod."""


NO_QUEUE = QueuePlace()
MAX_DOMAINS_LISTED = 50
"""Empty domains are only listed if the topology has no more domains than this."""


def count_by_node(view: Fork, rows: Ints) -> dict[str, int]:
    """Count how often each node occurs in the rows (K,), by node name."""
    used, counts = np.unique(rows, return_counts=True)
    return {view.nodes.names[row]: count for row, count in zip(used.tolist(), counts.tolist(), strict=True)}


def find_topology_keys(view: Fork, pod: Pod | None) -> list[str]:
    """Return the topology keys that matter for a pod: the zone and the keys of its constraints, without hostnames."""
    keys = [ZONE] if view.nodes.label(ZONE).values else []
    if pod is not None:
        keys += [constraint.topology_key for constraint in pod.spec.topology_spread_constraints]
        affinity = pod.spec.affinity
        for part in (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity else ():
            if part is not None:
                keys += [t.topology_key for t in part.required_during_scheduling_ignored_during_execution]
                weighted = part.preferred_during_scheduling_ignored_during_execution
                keys += [t.pod_affinity_term.topology_key for t in weighted]
    return [key for key in dict.fromkeys(keys) if key != HOSTNAME]


def count_by_domain(view: Fork, rows: Ints, keys: Iterable[str]) -> dict[str, dict[str, int]]:
    """Count the rows (K,) in each domain, by topology key and value."""
    return {key: _count_label_values(view, rows, key) for key in keys}


def _count_label_values(view: Fork, rows: Ints, key: str) -> dict[str, int]:
    """Count the rows (K,) that have each value of a label."""
    column = view.nodes.label(key)
    codes = column.codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(column.values)).tolist()
    lists_empty = len(counts) <= MAX_DOMAINS_LISTED
    return {value: n for value, n in sorted(zip(column.values, counts, strict=True)) if n or lists_empty}


def group_unplaced_pods(
    simulation: Simulation, outcomes: Iterable[Outcome], workloads: Mapping[str, str], with_queues: bool = False
) -> tuple[UnplacedPods, ...]:
    """Group the pods without a node by workload and reason.

    ``workloads`` maps new pods to their workloads. With ``with_queues``, groups also tell in which queue they wait.
    """
    groups: dict[tuple[str, str, str, QueuePlace], list[Pod]] = {}
    for outcome in outcomes:
        if outcome.row < 0:
            pod = simulation.view.pods.objects[outcome.position]
            workload = workloads.get(pod.key) or str(find_owner(pod))
            place = _find_queue_place(simulation, outcome) if with_queues else NO_QUEUE
            groups.setdefault((workload, outcome.verdict, outcome.message, place), []).append(pod)
    missing_classes = MissingStorageClasses(simulation.view.cluster) if groups else None
    return tuple(
        UnplacedPods(
            workload,
            verdict,
            message,
            tuple(pod.key for pod in pods),
            *place,
            cause=missing_classes.explain(pods[0]) if missing_classes else "",
        )
        for (workload, verdict, message, place), pods in groups.items()
    )


def find_waiting_at_permit(simulation: Simulation, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return the pods that Permit lets wait on a node, with the reasons."""
    profiles = map(simulation.scheduler.framework, simulation.scheduler.configuration.profiles)
    plugins = (plugin for framework in profiles if framework for plugin in framework.plugins_at("permit"))
    if not any(offers(plugin, PermitPlugin) for plugin in plugins):
        return {}
    waiting = {}
    for outcome in outcomes:
        framework = simulation.framework(outcome.position)
        info = simulation.placements.build_arriving_info(outcome.position)
        status = run_permit(framework, info, simulation.view, outcome.row).status if framework else SUCCESS
        if status.code is Code.WAIT:
            reasons = (reason for reason in status.reasons if reason != WAITS_AT_PLUGIN)
            waiting[simulation.view.pods.objects[outcome.position].key] = ", ".join(reasons)
    return waiting


def group_retried_pods(
    simulation: Simulation, outcomes: Iterable[Outcome], workloads: Mapping[str, str]
) -> tuple[RetriedPods, ...]:
    """Group the retried pods by workload and by the queue in which they wait now."""
    groups: dict[tuple[str, QueuePlace], list[str]] = {}
    retry_labels: dict[tuple[str, QueuePlace], Counter[str]] = {}
    for outcome in outcomes:
        if labels := simulation.retried.get(outcome.position):
            pod = simulation.view.pods.objects[outcome.position]
            key = workloads.get(pod.key) or str(find_owner(pod)), _find_queue_place(simulation, outcome)
            groups.setdefault(key, []).append(pod.key)
            retry_labels.setdefault(key, Counter()).update(labels)
    return tuple(RetriedPods(key[0], tuple(pods), dict(retry_labels[key]), *key[1]) for key, pods in groups.items())


def _find_queue_place(simulation: Simulation, outcome: Outcome) -> QueuePlace:
    """Return the queue in which an unplaced pod waits, and the plugins that rejected it.

    Pods that failed with an error wait in the backoff queue, and so do members of pod groups and pods that no plugin
    rejected. Members of other projects' gangs are unschedulable, rejected by the plugin that makes them wait for each
    other.
    """
    if outcome.verdict == GATED:
        return QueuePlace(UNSCHEDULABLE_PODS)
    if outcome.verdict == ERROR:
        return QueuePlace(BACKOFF)
    if outcome.verdict != UNSCHEDULABLE:
        return NO_QUEUE
    if failure := simulation.failures.permit_failures.get(outcome.position):
        plugins = tuple(sorted((failure.rejectors or NO_REJECTORS).all))
        return QueuePlace(UNSCHEDULABLE_PODS, plugins) if plugins else QueuePlace(BACKOFF)
    if simulation.gangs.group_pods([outcome.position]):
        return QueuePlace(BACKOFF)
    rejectors = simulation.find_rejectors(outcome.position).all
    return QueuePlace(UNSCHEDULABLE_PODS if rejectors else BACKOFF, tuple(sorted(rejectors)))


def report_evictions(simulation: Simulation) -> tuple[EvictedPod, ...]:
    """Return all evictions by preemption in their order, each with the later fate of the victim."""
    reports: list[EvictedPod] = []
    evicted_next_from: dict[Position, Row] = {}
    rounds: dict[Position, int] = {}
    numbers = []
    for eviction in simulation.evictions:
        numbers.append(rounds.get(eviction.preemptor, 0) + 1)
        rounds[eviction.victim] = numbers[-1]
    for eviction, number in zip(reversed(simulation.evictions), reversed(numbers), strict=True):
        reports.append(_report_eviction(simulation, eviction, evicted_next_from.get(eviction.victim), number))
        evicted_next_from[eviction.victim] = eviction.row
    return tuple(reversed(reports))


def _report_eviction(
    simulation: Simulation, eviction: Eviction, evicted_next_from: Row | None, number: int
) -> EvictedPod:
    """Build the report on one eviction by preemption.

    ``evicted_next_from`` is the node from which the victim is evicted next, or None if that does not happen.
    """
    pods = simulation.view.pods
    names = simulation.view.nodes.names
    victim = eviction.victim
    row = int(simulation.view.node[victim]) if evicted_next_from is None else evicted_next_from
    if row >= 0:
        fate = EvictionFate.MOVED
    elif victim in simulation.gone:
        fate = EvictionFate.LOST
    else:
        fate = EvictionFate.PENDING
    return EvictedPod(
        pod=pods.objects[victim].key,
        node=names[eviction.row],
        by=pods.objects[eviction.preemptor].key,
        priority=pods.infos[pods.info[victim]].priority,
        workload=str(find_owner(pods.objects[victim])),
        budgets=simulation.budgets.find_protecting_budgets(victim),
        fate="" if simulation.interrupted else fate,
        target=names[row] if row >= 0 and not simulation.interrupted else "",
        round=number,
        tied=tuple(pods.objects[position].key for position in eviction.tied),
    )


def summarize_evictions(simulation: Simulation, evicted: Sequence[EvictedPod]) -> EvictionChain | None:
    """Summarize the final fates of the ``evicted`` pods, or return None if there are none."""
    if not evicted or simulation.interrupted:
        return None
    first_evictions = {pod.pod: pod for pod in reversed(evicted)}
    last_evictions = {pod.pod: pod for pod in evicted}
    returned = sum(bool(pod.target) and pod.target == first_evictions[pod.pod].node for pod in last_evictions.values())
    fates = Counter(pod.fate for pod in last_evictions.values())
    later_rounds = [pod for pod in evicted if pod.round > 1]
    keys = simulation.view.pods.objects
    return EvictionChain(
        evicted=len(last_evictions),
        moved=fates[EvictionFate.MOVED] - returned,
        returned=returned,
        pending=fates[EvictionFate.PENDING],
        lost=fates[EvictionFate.LOST],
        rounds=max(pod.round for pod in evicted),
        preempting=tuple(dict.fromkeys(pod.by for pod in later_rounds)),
        evicted_in_turn=tuple(dict.fromkeys(pod.pod for pod in later_rounds)),
        tied={pod.pod: pod.tied for pod in evicted if pod.tied},
        outrun=tuple(keys[position].key for position in sorted(simulation.search.preemptors.futile)),
    )


def compute_headroom(view: Fork, before: Amounts, among: Bools | None = None) -> tuple[Headroom, ...]:
    """Return for each resource what the nodes offer, and what was requested ``before`` (N, R) and is requested now.

    ``among`` (N,) selects the nodes for which the largest free amount is computed; None stands for all nodes.
    """
    is_candidate = np.ones(len(view.nodes), np.bool_) if among is None else among
    headrooms = []
    for name, column in view.resources.items():
        allocatable = view.allocatable[:, column]
        if allocatable.any():
            requested_before = before[:, column]
            requested_now = view.requested[:, column]
            free = [
                int(np.maximum(allocatable - used, 0)[is_candidate].max(initial=0))
                for used in (requested_before, requested_now)
            ]
            totals = (int(amounts.sum()) for amounts in (allocatable, requested_before, requested_now))
            headrooms.append(Headroom(name, *totals, *free))
    return tuple(sorted(headrooms, key=lambda resource: resource.resource == PODS))


class PodCountFields(TypedDict):
    """The report fields with the number of pods in each zone, and on each node where it changed."""

    zones: tuple[PodCount, ...]
    nodes_changed: tuple[PodCount, ...]


def count_pods_by_place(view: Fork, before: Amounts, after: Amounts) -> PodCountFields:
    """Count the pods in each zone and on each changed node, given the amounts requested before and after, (N, R)
    each.
    """
    column = view.resources[PODS]
    pods_before, pods_now = before[:, column], after[:, column]
    zones = view.nodes.label(ZONE)
    has_zone = zones.codes >= 0
    per_zone = (
        np.bincount(zones.codes[has_zone], used[has_zone], len(zones.values)).astype(np.int64).tolist()
        for used in (pods_before, pods_now)
    )
    changed_rows = np.flatnonzero(pods_before != pods_now)
    names = [view.nodes.names[row] for row in changed_rows.tolist()]
    return {
        "zones": tuple(sorted(map(PodCount, zones.values, *per_zone), key=lambda zone: zone.place)),
        "nodes_changed": tuple(
            map(PodCount, names, pods_before[changed_rows].tolist(), pods_now[changed_rows].tolist())
        ),
    }


class MissingStorageClass(NamedTuple):
    """A StorageClass that does not exist, and a claim that names it."""

    name: str
    claim: str
    """``namespace/name``."""


class MissingStorageClasses:
    """A lookup of the nonexistent StorageClasses that pods' claims name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._existing = {storage_class.metadata.name for storage_class in cluster.storage_classes}
        self._of_volumes = {volume.spec.storage_class_name for volume in cluster.persistent_volumes}
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        if cluster.gap("StorageClass") is None:
            self._claims = {
                (claim.metadata.namespace, claim.metadata.name): claim
                for claim in cluster.persistent_volume_claims
                if self._lacks_class(claim)
            }

    def find(self, pod: Pod) -> MissingStorageClass | None:
        """Return the first nonexistent StorageClass that a claim of the pod names, or None."""
        for volume in pod.spec.volumes if self._claims else ():
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
            else:
                continue
            claim = self._claims.get((pod.metadata.namespace, name))
            if claim is not None:
                return MissingStorageClass(claim.spec.storage_class_name or "", f"{claim.metadata.namespace}/{name}")
        return None

    def explain(self, pod: Pod) -> str:
        """Explain the missing StorageClass of the pod in a sentence, or return an empty string if there is none."""
        missing = self.find(pod)
        if missing is None:
            return ""
        return f"StorageClass {missing.name} does not exist, so claim {missing.claim} gets no volume"

    def _lacks_class(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the claim waits for a class that does not exist.

        A class without an object is possible if volumes of that class were created by hand.
        """
        name = claim.spec.storage_class_name
        return bool(name) and not claim.spec.volume_name and name not in self._existing and name not in self._of_volumes
