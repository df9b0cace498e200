"""Reports on what a simulation did: pods per node and domain, pending and evicted pods, headroom, missing classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Ints, Position, Row
from kschedctl.api.objects import Affinity, PersistentVolumeClaim, Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.resource_names import PODS
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.volumes import explain_confining_volume
from kschedctl.reports.not_created import NOT_CREATED
from kschedctl.reports.placements import (
    EvictedPod,
    EvictionChain,
    EvictionFate,
    Headroom,
    PodCount,
    RetriedPods,
    UnplacedPods,
    select_displaced_pods,
)
from kschedctl.scheduler.engine.diagnosis import NO_REJECTORS
from kschedctl.scheduler.engine.permit import WAITS_AT_PLUGIN, run_permit
from kschedctl.scheduler.framework import Code, PermitPlugin, offers
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import HOSTNAME, ZONE
from kschedctl.text.counts import agreeing, first_few

if TYPE_CHECKING:
    from kschedctl.scheduler.simulation.outcome import Eviction, Outcome
    from kschedctl.scheduler.simulation.simulation import Simulation


class WaitingQueue(NamedTuple):
    """The queue in which a pod waits, and the plugins that rejected the pod."""

    queue: str = ""
    """Empty if the pod waits in no queue."""
    rejectors: tuple[str, ...] = ()
    """Names of the plugins that rejected the pod."""


NO_QUEUE = WaitingQueue()
MAX_DOMAINS_LISTED = 50
"""Empty domains are only listed if the topology has no more domains than this."""


def count_by_node(view: Fork, rows: Ints) -> dict[str, int]:
    """Return how often each node occurs in the rows (K,), which may repeat, by node name."""
    used, counts = np.unique(rows, return_counts=True)
    return {view.nodes.names[row]: count for row, count in zip(used.tolist(), counts.tolist(), strict=True)}


def find_topology_keys(view: Fork, pod: Pod | None) -> list[str]:
    """Return the topology keys that matter for a pod: the zone and the keys of its constraints, except the hostname.

    The zone is left out if no node has one. Without a pod, only the zone counts.
    """
    keys = [ZONE] if view.nodes.label(ZONE).values else []
    if pod is not None:
        keys += [constraint.topology_key for constraint in pod.spec.topology_spread_constraints]
        keys += _iter_affinity_keys(pod.spec.affinity)
    return [key for key in dict.fromkeys(keys) if key != HOSTNAME]


def _iter_affinity_keys(affinity: Affinity | None) -> Iterator[str]:
    """Yield the topology keys of pod affinity and anti-affinity terms."""
    if affinity is None:
        return
    for pod_affinity in (affinity.pod_affinity, affinity.pod_anti_affinity):
        if pod_affinity is not None:
            for term in pod_affinity.required_during_scheduling_ignored_during_execution:
                yield term.topology_key
            for weighted in pod_affinity.preferred_during_scheduling_ignored_during_execution:
                yield weighted.pod_affinity_term.topology_key


def count_by_domain(view: Fork, rows: Ints, keys: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return how many of the rows (K,) are in each domain, by topology key and value."""
    return {key: _count_nodes_by_label_value(view, rows, key) for key in keys}


def _count_nodes_by_label_value(view: Fork, rows: Ints, key: str) -> dict[str, int]:
    """Return the number of nodes in these rows for each value of a label, sorted by value.

    Values that none of the nodes has are included unless the label has more than MAX_DOMAINS_LISTED values.
    """
    column = view.nodes.label(key)
    codes = column.codes[rows]
    counts = np.bincount(codes[codes >= 0], minlength=len(column.values)).tolist()
    includes_absent_values = len(counts) <= MAX_DOMAINS_LISTED
    count_by_value = sorted(zip(column.values, counts, strict=True))
    return {value: count for value, count in count_by_value if count or includes_absent_values}


class _GroupKey(NamedTuple):
    """What the pods without a node in one group have in common."""

    workload: str
    verdict: str
    message: str
    known_cause: str
    """A cause that the message does not name, or "" if such a cause can only be an object that is missing."""
    place: WaitingQueue


def group_unplaced_pods(
    simulation: Simulation,
    outcomes: Iterable[Outcome],
    workloads: Mapping[str, str],
    with_queues: bool = False,
    *,
    displaced_from: Container[str] | None = None,
    causes: Mapping[str, str] = {},
) -> tuple[UnplacedPods, ...]:
    """Group the pods without a node by workload and reason.

    Return () if all pods have a node. ``workloads`` maps the keys of new pods to their workloads. With ``with_queues``,
    pods are also grouped by the queue in which they wait. ``displaced_from`` has the names of the nodes that all pods
    have to leave. If it is given, the largest groups come first, and groups say which pods were evicted from other
    nodes. ``causes`` maps pods to causes that their messages do not name.
    """
    pods_by_group: dict[_GroupKey, list[Pod]] = {}
    for outcome in outcomes:
        if not outcome.is_placed:
            pod = simulation.view.pods.objects[outcome.position]
            known_cause = causes.get(pod.key, "")
            if not known_cause and outcome.verdict != NOT_CREATED:
                known_cause = explain_confining_volume(simulation.view, pod)
            group = _GroupKey(
                workload=workloads.get(pod.key) or str(find_owner(pod)),
                verdict=outcome.verdict,
                message=outcome.message,
                known_cause=known_cause,
                place=_find_waiting_queue(simulation, outcome) if with_queues else NO_QUEUE,
            )
            pods_by_group.setdefault(group, []).append(pod)
    if not pods_by_group:
        return ()

    missing_objects = MissingObjects(simulation.view.cluster)
    unplaced = []
    for group, pods in pods_by_group.items():
        cause = group.known_cause
        if not cause and group.verdict != NOT_CREATED:
            cause = missing_objects.explain(pods[0])  # the first pod stands for the group
        evicted_from = {}
        if displaced_from is not None:
            evicted_from = {pod.key: pod.spec.node_name for pod in pods if pod.spec.node_name not in displaced_from}
        unplaced.append(
            UnplacedPods(
                group.workload,
                verdict=group.verdict,
                message=group.message,
                pods=tuple(pod.key for pod in pods),
                queue=group.place.queue,
                rejectors=group.place.rejectors,
                cause=cause,
                evicted_from=evicted_from,
            )
        )
    if displaced_from is not None:
        unplaced.sort(key=lambda group: len(group.pods), reverse=True)
    return tuple(unplaced)


def list_pods_evicted_elsewhere(simulation: Simulation, displaced_from: Container[str]) -> tuple[str, ...]:
    """Return the keys of the pods that preemption evicted from nodes not in ``displaced_from``, each key once.

    Pods that were being deleted anyway are left out.
    """
    pods = simulation.view.pods.objects
    victims = (pods[eviction.victim] for eviction in simulation.evictions)
    return tuple(
        dict.fromkeys(
            pod.key
            for pod in victims
            if pod.spec.node_name not in displaced_from and pod.metadata.deletion_timestamp is None
        )
    )


def list_lost_victims(simulation: Simulation) -> tuple[str, ...]:
    """Return the keys of the pods that preemption evicted and that no controller recreates, each key once.

    Such pods have no controller, or their Job fails. Pods that were being deleted anyway are left out.
    """
    pods = simulation.view.pods.objects
    job_failures = JobFailures.of(simulation.view.objects)
    victims = [pods[eviction.victim] for eviction in simulation.evictions]
    return tuple(
        dict.fromkeys(
            pod.key
            for pod in victims
            if (find_owner(pod).kind == "Pod" or job_failures.is_of_failed_job(pod))
            and pod.metadata.deletion_timestamp is None
        )
    )


def find_pods_waiting_at_permit(simulation: Simulation, outcomes: Iterable[Outcome]) -> dict[str, str]:
    """Return, by pod key, why Permit plugins make placed pods wait.

    All outcomes must have a node. Pods that do not wait are left out.
    """
    if not _has_permit_plugins(simulation.scheduler):
        return {}
    waiting = {}
    for outcome in outcomes:
        framework = simulation.find_framework(outcome.position)
        if framework is None:
            continue
        info = simulation.placements.build_arriving_info(outcome.position)
        status = run_permit(framework, info, simulation.view, outcome.row).status
        if status.code is Code.WAIT:
            reasons = (reason for reason in status.reasons if reason != WAITS_AT_PLUGIN)
            waiting[simulation.view.pods.objects[outcome.position].key] = ", ".join(reasons)
    return waiting


def _has_permit_plugins(scheduler: Scheduler) -> bool:
    """Return whether a profile has Permit plugins."""
    for name in scheduler.configuration.profiles:
        framework = scheduler.find_framework(name)
        if framework and any(offers(plugin, PermitPlugin) for plugin in framework.plugins_at("permit")):
            return True
    return False


def group_retried_pods(
    simulation: Simulation, outcomes: Iterable[Outcome], workloads: Mapping[str, str]
) -> tuple[RetriedPods, ...]:
    """Group the retried pods by workload and by the queue where they wait now.

    Each group has the number of retries by the event that caused them. ``workloads`` maps pod keys to workloads. Other
    pods are grouped by their owner.
    """
    pods = simulation.view.pods.objects
    positions_by_group: dict[tuple[str, WaitingQueue], list[Position]] = {}
    for outcome in outcomes:
        if simulation.retried.get(outcome.position):
            pod = pods[outcome.position]
            workload = workloads.get(pod.key) or str(find_owner(pod))
            group = (workload, _find_waiting_queue(simulation, outcome))
            positions_by_group.setdefault(group, []).append(outcome.position)

    retried = []
    for (workload, waiting), positions in positions_by_group.items():
        # `retried` has the label of the event before each retry of a pod
        event_labels = chain.from_iterable(simulation.retried[position] for position in positions)
        retried.append(
            RetriedPods(
                workload,
                pods=tuple(map(pods.get_key, positions)),
                after=dict(Counter(event_labels)),
                queue=waiting.queue,
                rejectors=waiting.rejectors,
            )
        )
    return tuple(retried)


def _find_waiting_queue(simulation: Simulation, outcome: Outcome) -> WaitingQueue:
    """Return the queue in which an unplaced pod waits, and the plugins that rejected the pod.

    - Gated pods and pods that a plugin rejected are unschedulable. Among them are members of other projects' gangs,
      which are rejected by the plugin that makes them wait for each other.
    - Pods that failed with an error, members of pod groups, and pods that no plugin rejected are in the backoff queue.
    - Pods that were not tried or not created are in no queue.
    """
    from kschedctl.scheduler.queueing import scheduling_queue  # noqa: PLC0415 - after simulations
    from kschedctl.scheduler.simulation.outcome import ERROR, GATED, UNSCHEDULABLE  # noqa: PLC0415 - after simulations

    if outcome.verdict == GATED:
        return WaitingQueue(scheduling_queue.UNSCHEDULABLE)
    if outcome.verdict == ERROR:
        return WaitingQueue(scheduling_queue.BACKOFF)
    if outcome.verdict != UNSCHEDULABLE:
        return NO_QUEUE

    permit_failure = simulation.failures.permit_failures.get(outcome.position)
    is_in_pod_group = bool(simulation.gangs.group_pods_for_queue([outcome.position]))
    if is_in_pod_group and not permit_failure:
        return WaitingQueue(scheduling_queue.BACKOFF)
    if permit_failure:
        rejectors = (permit_failure.rejectors or NO_REJECTORS).all
    else:
        rejectors = simulation.find_rejectors(outcome.position).all
    queue = scheduling_queue.UNSCHEDULABLE if rejectors else scheduling_queue.BACKOFF
    return WaitingQueue(queue, tuple(sorted(rejectors)))


def report_evictions(simulation: Simulation) -> tuple[EvictedPod, ...]:
    """Return reports on all evictions by preemption, in order, each with what happened to the victim afterwards."""
    evictions = simulation.evictions
    return tuple(
        _report_eviction(simulation, eviction, next_row, eviction_round)
        for eviction, next_row, eviction_round in zip(
            evictions, _list_rows_of_next_evictions(evictions), _number_eviction_rounds(evictions), strict=True
        )
    )


def _number_eviction_rounds(evictions: Sequence[Eviction]) -> list[int]:
    """Return the round of each eviction.

    Replacements of victims may preempt as well. Preemptors that were not evicted themselves evict in round 1. A pod
    that was evicted in round n evicts others in round n + 1.
    """
    latest_round_by_victim: dict[Position, int] = {}
    rounds = []
    for eviction in evictions:
        preemptor_evicted_in_round = latest_round_by_victim.get(eviction.preemptor, 0)
        rounds.append(preemptor_evicted_in_round + 1)
        latest_round_by_victim[eviction.victim] = preemptor_evicted_in_round + 1
    return rounds


def _list_rows_of_next_evictions(evictions: Sequence[Eviction]) -> list[Row | None]:
    """Return, for each eviction, the row of the node from which the victim is evicted next, or None if it never is."""
    # Going backwards, the next eviction of each victim is known
    next_rows: list[Row | None] = []
    evicted_next_from: dict[Position, Row] = {}
    for eviction in reversed(evictions):
        next_rows.append(evicted_next_from.get(eviction.victim))
        evicted_next_from[eviction.victim] = eviction.row
    return next_rows[::-1]


def _report_eviction(
    simulation: Simulation, eviction: Eviction, evicted_next_from: Row | None, eviction_round: int
) -> EvictedPod:
    """Build the report on one eviction by preemption.

    ``evicted_next_from`` is the node of the victim's next eviction, to which it must have moved in between. It is None
    if this eviction was the victim's last one, so that its fate is its state at the end of the simulation. If the
    simulation was interrupted, the target is empty, and so is the fate, unless the victim was already being deleted.
    """
    pods = simulation.view.pods
    names = simulation.view.nodes.names
    victim = eviction.victim
    # The node on which the victim was placed after this eviction, or a negative number
    row = int(simulation.view.node[victim]) if evicted_next_from is None else evicted_next_from
    if row >= 0:
        fate = EvictionFate.MOVED
    elif pods.objects[victim].metadata.deletion_timestamp is not None:
        fate = EvictionFate.DELETED
    elif victim in simulation.gone:
        fate = EvictionFate.LOST
    else:
        fate = EvictionFate.PENDING
    return EvictedPod(
        pod=pods.objects[victim].key,
        node=names[eviction.row],
        by=pods.objects[eviction.preemptor].key,
        priority=pods.get_info(victim).priority,
        workload=str(find_owner(pods.objects[victim])),
        budgets=simulation.budgets.find_protecting_budgets(victim),
        fate="" if simulation.interrupted and fate != EvictionFate.DELETED else fate,
        target=names[row] if row >= 0 and not simulation.interrupted else "",
        round=eviction_round,
        tied=tuple(pods.objects[position].key for position in eviction.tied),
    )


def find_violated_budgets(cluster: Cluster, evicted: Iterable[EvictedPod]) -> dict[str, int]:
    """Return the PodDisruptionBudgets that the evictions violate.

    Keys are `namespace/name`, and values are the numbers of disruptions that each budget allows now. Budgets that are
    not in the cluster are left out.
    """
    pods_by_budget: dict[str, set[str]] = {}
    for eviction in select_displaced_pods(evicted):
        for name in eviction.budgets:
            pods_by_budget.setdefault(name, set()).add(eviction.pod)
    allowed_by_budget = {
        f"{budget.metadata.namespace}/{budget.metadata.name}": budget.status.disruptions_allowed
        for budget in cluster.pod_disruption_budgets
    }
    violated = {}
    for name, pods in sorted(pods_by_budget.items()):
        allowed = allowed_by_budget.get(name)
        if allowed is not None and len(pods) > allowed:
            violated[name] = allowed
    return violated


def summarize_evictions(simulation: Simulation, evicted: Sequence[EvictedPod]) -> EvictionChain | None:
    """Summarize what finally happened to the ``evicted`` pods.

    Return None if there are none, or if the simulation was interrupted and the result is not known.
    """
    if not evicted or simulation.interrupted:
        return None
    # A pod may be evicted several times. A later entry for a pod overwrites an earlier one.
    first_node_by_pod = {eviction.pod: eviction.node for eviction in reversed(evicted)}
    last_evictions = {eviction.pod: eviction for eviction in evicted}

    # Pods that run again on the node from which they were evicted first are not counted as moved.
    fates = Counter(last.fate for last in last_evictions.values())
    returned = sum(bool(last.target) and last.target == first_node_by_pod[pod] for pod, last in last_evictions.items())

    # In later rounds, the replacements of evicted pods preempt other pods.
    by_replacements = [eviction for eviction in evicted if eviction.round > 1]

    # The node of a futile preemptor is taken again and again by its own victims.
    futile_preemptors = sorted(simulation.search.preemptors.futile)
    return EvictionChain(
        evicted=len(last_evictions) - fates[EvictionFate.DELETED],
        moved=fates[EvictionFate.MOVED] - returned,
        returned=returned,
        pending=fates[EvictionFate.PENDING],
        lost=fates[EvictionFate.LOST],
        deleted=fates[EvictionFate.DELETED],
        rounds=max(eviction.round for eviction in evicted),
        preempting=tuple(dict.fromkeys(eviction.by for eviction in by_replacements)),
        evicted_in_turn=tuple(dict.fromkeys(eviction.pod for eviction in by_replacements)),
        tied={eviction.pod: eviction.tied for eviction in evicted if eviction.tied},
        outrun=tuple(simulation.view.pods.objects[position].key for position in futile_preemptors),
    )


def compute_headroom(
    view: Fork,
    before: Amounts,
    among: Bools | None = None,
    drained: Bools | None = None,
    reserved: Amounts | None = None,
) -> tuple[Headroom, ...]:
    """Return, for each resource, the allocatable amount, and the requested and largest free amounts before and now.

    ``before`` has the nodes' requests before, (N, R). ``among`` (N,) selects the nodes for which the largest free
    amount is computed; None stands for all nodes. All amounts of the nodes in ``drained`` (N,) are left out. What is
    ``reserved`` on the nodes (N, R) for nominated pods does not count as free. Resources that no node offers are left
    out, and the number of pods comes last.
    """
    every_node = np.ones(len(view.nodes), np.bool_)
    remains = every_node if drained is None else ~drained
    candidates = every_node if among is None else among
    is_candidate = candidates[remains]  # over the remaining nodes
    headrooms = []
    for name, column in view.resources.items():
        allocatable = view.allocatable[remains, column]
        if not allocatable.any():
            continue
        requested_before = before[remains, column]
        requested_now = view.requested[remains, column]
        reserved_now = 0 if reserved is None else reserved[remains, column]
        free_before = np.maximum(allocatable - requested_before - reserved_now, 0)[is_candidate]
        free_now = np.maximum(allocatable - requested_now - reserved_now, 0)[is_candidate]
        headrooms.append(
            Headroom(
                name,
                allocatable=int(allocatable.sum()),
                requested_before=int(requested_before.sum()),
                requested_after=int(requested_now.sum()),
                largest_free_before=int(free_before.max(initial=0)),
                largest_free_after=int(free_now.max(initial=0)),
            )
        )
    # False sorts before True, so the number of pods comes last
    return tuple(sorted(headrooms, key=lambda headroom: headroom.resource == PODS))


class PodCountFields(TypedDict):
    """The report fields with the number of pods in each zone, and on each node where it changed."""

    zones: tuple[PodCount, ...]
    nodes_changed: tuple[PodCount, ...]


def build_pod_count_fields(view: Fork, before: Amounts, after: Amounts) -> PodCountFields:
    """Build the numbers of pods in each zone and on each changed node from the requests ``before`` and ``after``.

    Both are (N, R), with the number of pods as one of the resources.
    """
    column = view.resources[PODS]
    pods_before = before[:, column]
    pods_after = after[:, column]

    zones = view.nodes.label(ZONE)
    zones_before = zones.sum_nodes(pods_before).tolist()
    zones_after = zones.sum_nodes(pods_after).tolist()
    zone_counts = map(PodCount, zones.values, zones_before, zones_after)

    changed_rows = np.flatnonzero(pods_before != pods_after)
    names = [view.nodes.names[row] for row in changed_rows.tolist()]
    node_counts = map(PodCount, names, pods_before[changed_rows].tolist(), pods_after[changed_rows].tolist())
    return {
        "zones": tuple(sorted(zone_counts, key=lambda zone: zone.place)),
        "nodes_changed": tuple(node_counts),
    }


class MissingStorageClass(NamedTuple):
    """A StorageClass that does not exist but is named by a claim."""

    name: str
    claim: str
    """``namespace/name``."""


def _has_default_class(cluster: Cluster) -> bool:
    """Return whether a StorageClass is marked as default."""
    from kschedctl.admission.classes import is_default_class  # noqa: PLC0415 - only for claims without a class

    return any(map(is_default_class, cluster.storage_classes))


class MissingStorageClasses:
    """A lookup of the nonexistent StorageClasses that pods' claims name."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._existing = {storage_class.metadata.name for storage_class in cluster.storage_classes}
        self._classes_of_volumes = {volume.spec.storage_class_name for volume in cluster.persistent_volumes}
        self._claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        """The claims that lack their class; none if the StorageClasses were not read."""
        self._classless: dict[tuple[str, str], PersistentVolumeClaim] = {}
        """The claims that name no class where no class is the default and no volume without a class exists."""
        if cluster.find_gap("StorageClass") is not None:
            return
        for claim in cluster.persistent_volume_claims:
            key = (claim.metadata.namespace, claim.metadata.name)
            if self._lacks_storage_class(claim):
                self._claims[key] = claim
            elif claim.spec.storage_class_name is None and not claim.spec.volume_name:
                self._classless[key] = claim
        has_volume_without_class = "" in self._classes_of_volumes
        if self._classless and (has_volume_without_class or _has_default_class(cluster)):
            self._classless = {}

    def find_missing_class(self, pod: Pod) -> MissingStorageClass | None:
        """Return the first nonexistent StorageClass that a claim of the pod names, with the claim.

        Return None if all named classes exist, or if StorageClasses were not read.
        """
        claim = self._find_first_claim_of_pod(pod, self._claims)
        if claim is None:
            return None
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        return MissingStorageClass(claim.spec.storage_class_name or "", key)

    def explain_missing_class(self, pod: Pod) -> str:
        """Explain in a sentence why a claim of the pod lacks a class, or return "" if every claim has a class.

        Either the class does not exist, or the claim names no class and there is no default class.
        """
        missing = self.find_missing_class(pod)
        if missing is not None:
            return f"StorageClass {missing.name} does not exist, so claim {missing.claim} gets no volume"
        classless = self._find_first_claim_of_pod(pod, self._classless)
        if classless is None:
            return ""
        key = f"{pod.metadata.namespace}/{classless.metadata.name}"
        return f"claim {key} gets no volume: it sets no StorageClass, and the cluster has no default StorageClass"

    def _find_first_claim_of_pod(
        self, pod: Pod, claims: Mapping[tuple[str, str], PersistentVolumeClaim]
    ) -> PersistentVolumeClaim | None:
        """Return the pod's first claim that is in ``claims``, or None.

        ``claims`` has claims by namespace and name. Claims of ephemeral volumes are considered as well.
        """
        if not claims:
            return None
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
            else:
                continue
            if (pod.metadata.namespace, name) in claims:
                return claims[pod.metadata.namespace, name]
        return None

    def _lacks_storage_class(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the claim has no volume and names a class that does not exist.

        A class without an object counts as existing if volumes name it, since they may have been created by hand.
        """
        name = claim.spec.storage_class_name
        if not name or claim.spec.volume_name:
            return False
        return name not in self._existing and name not in self._classes_of_volumes


class MissingObjects:
    """A lookup of objects that pods name but that do not exist, and without which no node takes the pods.

    kube-scheduler's messages do not name them.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._storage_classes = MissingStorageClasses(cluster)

    def explain(self, pod: Pod) -> str:
        """Explain which StorageClass or ResourceClaimTemplate of the pod is missing, or return "" if none is."""
        return self._storage_classes.explain_missing_class(pod) or _explain_missing_claim_templates(pod, self._cluster)


def find_missing_claim_templates(pod: Pod, cluster: Cluster) -> list[str]:
    """Return the keys of the ResourceClaimTemplates that the pod's missing claims need but that do not exist.

    The list is empty if ResourceClaimTemplates were not read.
    """
    namespace = pod.metadata.namespace
    names = list_awaited_claim_templates(pod)
    if not names or cluster.find_gap("ResourceClaimTemplate", namespace) is not None:
        return []
    existing = {template.metadata.name for template in cluster.list_in_namespace("resource_claim_templates", namespace)}
    return [f"{namespace}/{name}" for name in dict.fromkeys(names) if name not in existing]


def list_awaited_claim_templates(pod: Pod) -> list[str]:
    """Return the names of the ResourceClaimTemplates from which no claim has been created for the pod yet."""
    recorded_names = {status.name for status in pod.status.resource_claim_statuses}
    return [
        reference.resource_claim_template_name
        for reference in pod.spec.resource_claims
        if reference.resource_claim_template_name and reference.name not in recorded_names
    ]


def _explain_missing_claim_templates(pod: Pod, cluster: Cluster) -> str:
    """Explain that ResourceClaimTemplates of the pod do not exist, or return "" if all exist or were not read."""
    names = find_missing_claim_templates(pod, cluster)
    if not names:
        return ""
    do = agreeing(len(names), "does", "do")
    claims = agreeing(len(names), "its ResourceClaim is", "their ResourceClaims are")
    return f"ResourceClaimTemplate {first_few(names)} {do} not exist, so {claims} not created"
