"""What a simulation did, counted: pods per node and domain, who waits and why, who was evicted, what is left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Ints, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import PODS
from kschedctl.replay.missing_storage_classes import MissingStorageClasses
from kschedctl.reports.eviction_chain import EvictionChain
from kschedctl.reports.placements import EvictedPod, Headroom, PodCount, RetriedPods, UnplacedPods
from kschedctl.scheduler.engine.permit import WAITS_AT_PLUGIN, run_permit
from kschedctl.scheduler.engine.rejectors import NO_REJECTORS
from kschedctl.scheduler.framework import SUCCESS, Code, PermitPlugin, offers
from kschedctl.scheduler.queueing.scheduling_queue import BACKOFF
from kschedctl.scheduler.queueing.scheduling_queue import UNSCHEDULABLE as UNSCHEDULABLE_PODS
from kschedctl.scheduler.simulation.outcome import ERROR, GATED, UNSCHEDULABLE, Eviction, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.node_order import HOSTNAME, ZONE


class WaitingPlace(NamedTuple):
    """The queue that a pod waits in, empty for none, and the plugins that refused it."""

    queue: str = ""
    rejectors: tuple[str, ...] = ()


NOWHERE = WaitingPlace()
DOMAINS_LISTED = 50
"""In a topology with more domains only those that hold a pod are listed."""


def nodes_of(view: Fork, rows: Ints) -> dict[str, int]:
    """Node -> how many of the rows (K,) it is."""
    used, counts = np.unique(rows, return_counts=True)
    return {view.nodes.names[row]: count for row, count in zip(used.tolist(), counts.tolist(), strict=True)}


def domain_keys(view: Fork, pod: Pod | None) -> list[str]:
    """The topologies that matter for a pod: zones, and those of its constraints and terms; not the single hosts."""
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


def per_domain(view: Fork, rows: Ints, keys: Iterable[str]) -> dict[str, dict[str, int]]:
    """Topology key -> value -> how many of the rows (K,) are in that domain."""
    return {key: _counts(view, rows, key) for key in keys}


def _counts(view: Fork, rows: Ints, key: str) -> dict[str, int]:
    column = view.nodes.label(key)
    codes = column.codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(column.values)).tolist()
    few = len(counts) <= DOMAINS_LISTED
    return {value: n for value, n in sorted(zip(column.values, counts, strict=True)) if n or few}


def pending_groups(
    simulation: Simulation, outcomes: Iterable[Outcome], workloads: Mapping[str, str], queues: bool = False
) -> tuple[UnplacedPods, ...]:
    """The pods without a node by workload and reason; ``workloads``: pod -> workload, for those that are new.

    ``queues``: with where they wait as things are now.
    """
    groups: dict[tuple[str, str, str, WaitingPlace], list[Pod]] = {}
    for outcome in outcomes:
        if outcome.row < 0:
            pod = simulation.view.pods.objects[outcome.position]
            workload = workloads.get(pod.key) or str(find_owner(pod))
            waiting = _waiting(simulation, outcome) if queues else NOWHERE
            groups.setdefault((workload, outcome.verdict, outcome.message, waiting), []).append(pod)
    classes = MissingStorageClasses(simulation.view.cluster) if groups else None
    return tuple(
        UnplacedPods(
            workload,
            verdict,
            message,
            tuple(pod.key for pod in pods),
            *waiting,
            cause=classes.explain(pods[0]) if classes else "",
        )
        for (workload, verdict, message, waiting), pods in groups.items()
    )


def waiting_at_permit(simulation: Simulation, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Pod -> why Permit lets it wait on its node, as things are now; of those that got one."""
    profiles = map(simulation.scheduler.framework, simulation.scheduler.configuration.profiles)
    plugins = (plugin for framework in profiles if framework for plugin in framework.plugins_at("permit"))
    if not any(offers(plugin, PermitPlugin) for plugin in plugins):
        return {}
    waiting = {}
    for outcome in outcomes:
        framework, info = simulation.framework(outcome.position), simulation.placements.arriving(outcome.position)
        status = run_permit(framework, info, simulation.view, outcome.row).status if framework else SUCCESS
        if status.code is Code.WAIT:
            reasons = (reason for reason in status.reasons if reason != WAITS_AT_PLUGIN)
            waiting[simulation.view.pods.objects[outcome.position].key] = ", ".join(reasons)
    return waiting


def retried_groups(
    simulation: Simulation, outcomes: Iterable[Outcome], workloads: Mapping[str, str]
) -> tuple[RetriedPods, ...]:
    """The pods that were tried again, by workload and where they are now; ``workloads``: by the keys of pods."""
    groups: dict[tuple[str, WaitingPlace], list[str]] = {}
    after: dict[tuple[str, WaitingPlace], Counter[str]] = {}
    for outcome in outcomes:
        if labels := simulation.retried.get(outcome.position):
            pod = simulation.view.pods.objects[outcome.position]
            key = workloads.get(pod.key) or str(find_owner(pod)), _waiting(simulation, outcome)
            groups.setdefault(key, []).append(pod.key)
            after.setdefault(key, Counter()).update(labels)
    return tuple(RetriedPods(key[0], tuple(pods), dict(after[key]), *key[1]) for key, pods in groups.items())


def _waiting(simulation: Simulation, outcome: Outcome) -> WaitingPlace:
    """Members of pod groups come back by backoff whatever happens, and so do pods that failed by an error.

    Those of other projects' gangs do not: what let them wait for each other refused them last.
    """
    if outcome.verdict == GATED:
        return WaitingPlace(UNSCHEDULABLE_PODS)
    if outcome.verdict == ERROR:
        return WaitingPlace(BACKOFF)
    if outcome.verdict != UNSCHEDULABLE:
        return NOWHERE
    if refused := simulation.failures.said.get(outcome.position):
        plugins = tuple(sorted((refused.rejectors or NO_REJECTORS).all))
        return WaitingPlace(UNSCHEDULABLE_PODS, plugins) if plugins else WaitingPlace(BACKOFF)
    if simulation.gangs.together([outcome.position]):
        return WaitingPlace(BACKOFF)
    rejectors = simulation.rejectors(outcome.position).all
    return WaitingPlace(UNSCHEDULABLE_PODS if rejectors else BACKOFF, tuple(sorted(rejectors)))


def evictions(simulation: Simulation) -> tuple[EvictedPod, ...]:
    """Return all preemptions in the order in which they happened, with what became of each victim after that."""
    evicted: list[EvictedPod] = []
    evicted_next_from: dict[Position, Row] = {}
    rounds: dict[Position, int] = {}
    numbers = []
    for eviction in simulation.evictions:
        numbers.append(rounds.get(eviction.preemptor, 0) + 1)
        rounds[eviction.victim] = numbers[-1]
    for eviction, number in zip(reversed(simulation.evictions), reversed(numbers), strict=True):
        evicted.append(_evicted(simulation, eviction, evicted_next_from.get(eviction.victim), number))
        evicted_next_from[eviction.victim] = eviction.row
    return tuple(reversed(evicted))


def _evicted(simulation: Simulation, eviction: Eviction, evicted_next_from: Row | None, number: int) -> EvictedPod:
    """Return one preemption. ``evicted_next_from``: the node to which the victim came back until its next eviction."""
    pods, names, victim = simulation.view.pods, simulation.view.nodes.names, eviction.victim
    row = int(simulation.view.node[victim]) if evicted_next_from is None else evicted_next_from
    fate = "Moved" if row >= 0 else "Lost" if victim in simulation.gone else "Pending"
    return EvictedPod(
        pod=pods.objects[victim].key,
        node=names[eviction.row],
        by=pods.objects[eviction.preemptor].key,
        priority=pods.infos[pods.info[victim]].priority,
        workload=str(find_owner(pods.objects[victim])),
        budgets=simulation.budgets.of(victim),
        fate="" if simulation.interrupted else fate,
        target=names[row] if row >= 0 and not simulation.interrupted else "",
        round=number,
        tied=tuple(pods.objects[position].key for position in eviction.tied),
    )


def eviction_chain(simulation: Simulation, evicted: Sequence[EvictedPod]) -> EvictionChain | None:
    """Return what became of the ``evicted`` pods of the simulation in the end; None if there are none."""
    if not evicted or simulation.interrupted:
        return None
    first, last = {pod.pod: pod for pod in reversed(evicted)}, {pod.pod: pod for pod in evicted}
    returned = sum(bool(pod.target) and pod.target == first[pod.pod].node for pod in last.values())
    fates = Counter(pod.fate for pod in last.values())
    in_turn = [pod for pod in evicted if pod.round > 1]
    keys = simulation.view.pods.objects
    return EvictionChain(
        evicted=len(last),
        moved=fates["Moved"] - returned,
        returned=returned,
        pending=fates["Pending"],
        lost=fates["Lost"],
        rounds=max(pod.round for pod in evicted),
        preempting=tuple(dict.fromkeys(pod.by for pod in in_turn)),
        evicted_in_turn=tuple(dict.fromkeys(pod.pod for pod in in_turn)),
        tied={pod.pod: pod.tied for pod in evicted if pod.tied},
        outrun=tuple(keys[position].key for position in sorted(simulation.search.preemptors.futile)),
    )


def headroom(view: Fork, before: Amounts, among: Bools | None = None) -> tuple[Headroom, ...]:
    """Every resource that nodes offer, with what was requested ``before`` (N, R) and what is now.

    ``among`` (N,): the nodes of which the most that one has left is told; None: of all.
    """
    room = np.ones(len(view.nodes), np.bool_) if among is None else among
    headrooms = []
    for name, column in view.resources.items():
        allocatable = view.allocatable[:, column]
        if allocatable.any():
            then, now = before[:, column], view.requested[:, column]
            free = [int(np.maximum(allocatable - used, 0)[room].max(initial=0)) for used in (then, now)]
            totals = (int(amounts.sum()) for amounts in (allocatable, then, now))
            headrooms.append(Headroom(name, *totals, *free))
    return tuple(sorted(headrooms, key=lambda resource: resource.resource == PODS))


class PodCounts(TypedDict):
    """The fields of a report that tell how many pods are in each zone, and on nodes where that changed."""

    zones: tuple[PodCount, ...]
    nodes_changed: tuple[PodCount, ...]


def pod_counts(view: Fork, before: Amounts, after: Amounts) -> PodCounts:
    """The pods of places by what is requested, (N, R) each."""
    column = view.resources[PODS]
    then, now = before[:, column], after[:, column]
    zones = view.nodes.label(ZONE)
    known = zones.codes >= 0
    per_zone = (
        np.bincount(zones.codes[known], used[known], len(zones.values)).astype(np.int64).tolist()
        for used in (then, now)
    )
    changed = np.flatnonzero(then != now)
    names = [view.nodes.names[row] for row in changed.tolist()]
    return {
        "zones": tuple(sorted(map(PodCount, zones.values, *per_zone), key=lambda zone: zone.place)),
        "nodes_changed": tuple(map(PodCount, names, then[changed].tolist(), now[changed].tolist())),
    }
