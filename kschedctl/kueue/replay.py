"""Cycles of Kueue's admission on a cluster, and the report on them.

Upstream: the parts of pkg/scheduler, pkg/cache and pkg/controller/core that other modules name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import LimitRange
from kschedctl.api.queueing import KueueRelease, KueueWorkload
from kschedctl.api.times import parse_microseconds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.kueue.amounts import FlavorResource, format_amount, subtract_amounts
from kschedctl.kueue.cluster_queues import CachedQueue, QueueCache, ReferencedObjects, build_empty_queue_cache
from kschedctl.kueue.fair_preemption import DEFAULT_STRATEGIES, FINAL_SHARE, INITIAL_SHARE
from kschedctl.kueue.feature_gates import FeatureGates, Gate, build_feature_gates
from kschedctl.kueue.pod_requests import add_admission_defaults, compute_requests, read_resource_settings
from kschedctl.kueue.queues import Events, KueueEvent, Queues, ReplaySettings, WorkloadStore
from kschedctl.kueue.quota_tree import QuotaNode, compute_dominant_share
from kschedctl.kueue.scheduler import AdmissionScheduler, CycleResult
from kschedctl.kueue.topology.snapshot import TopologySnapshot
from kschedctl.kueue.topology.tree import Counts, PodsOutside, TopologyTree, build_topology_tree
from kschedctl.kueue.workload_controller import WorkloadController
from kschedctl.kueue.workloads import PodSetAdmission, WorkloadState, read_workload
from kschedctl.reports.document import Document
from kschedctl.reports.report import PlainReport
from kschedctl.text.counts import counted

_SECOND = 10**6
_WORKLOAD_PRIORITY_CLASS = "WorkloadPriorityClass"


class KueueCycle(Document, frozen=True):
    """The events and state changes of one cycle."""

    cycle: int
    order: list[str]
    """The Workloads in the order in which they were processed."""
    requeued: dict[str, dict[str, Any]]
    """The reason with which each Workload that was not admitted went back into its queue."""
    workloads: dict[str, dict[str, Any]]
    """The state of each Workload that the scheduler changed."""
    events: dict[str, list[dict[str, str]]]
    """The events that the scheduler recorded."""
    controller_events: dict[str, list[dict[str, str]]]
    """The events that the Workload controller recorded afterwards."""
    heap: dict[str, list[str]]
    """The Workloads that will be tried, by ClusterQueue."""
    inadmissible: dict[str, list[str]]
    """The Workloads that wait for a change, by ClusterQueue."""


class KueueStart(Document, frozen=True):
    """The state before the first cycle."""

    workloads: dict[str, dict[str, Any]]
    events: dict[str, list[dict[str, str]]]


class KueueFinal(Document, frozen=True):
    """The state after the last cycle."""

    workloads: dict[str, dict[str, Any]]
    cluster_queues: dict[str, dict[str, Any]]
    cohort_shares: dict[str, str]
    """The weighted share of each cohort, with fair sharing."""
    heap: dict[str, list[str]]
    inadmissible: dict[str, list[str]]
    more_heads: bool
    """True if Workloads are left that further cycles would try."""


class KueueAdmissionReport(PlainReport, frozen=True):
    """Cycles of Kueue's admission on a cluster."""

    start: KueueStart
    cycles: list[KueueCycle]
    final: KueueFinal
    problems: list[str]
    """Objects that Kueue would refuse, and why."""

    @property
    def kind(self) -> str:
        """The kind of the document, for summaries."""
        return "KueueAdmission"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return the line that says how many Workloads got quota in how many cycles."""
        admitted = sum("admission" in state for cycle in self.cycles for state in cycle.workloads.values())
        return (f"{counted(admitted, 'Workload')} got quota in {counted(len(self.cycles), 'cycle')}",)


def kueue_admission(
    cluster: Cluster,
    cycles: int = 6,
    now: str = "",
    configuration: JsonObject | None = None,
    *,
    release: str = KueueRelease.V0_20,
    keeps_former_admission: bool = True,
) -> KueueAdmissionReport:
    """Run cycles of Kueue's admission on the Workloads of a cluster.

    ``now`` is the RFC 3339 time of the first cycle, and each cycle takes a second. ``configuration`` has keys of
    Kueue's Configuration: ``featureGates``, ``fairSharing`` and ``resources``. No Workload ends meanwhile.
    ``keeps_former_admission`` lets evicted Workloads keep their former admission, as in upstream's own tests. A real
    API server removes it. Raises InputError for malformed objects or configuration.

    >>> str(kueue_admission(Cluster.from_objects([]), now="2026-01-01T00:00:00Z"))
    '0 Workloads got quota in 0 cycles'
    """
    start = parse_microseconds(now) if now else int(datetime.now(UTC).timestamp()) * _SECOND
    replay = KueueReplay(
        cluster, start, configuration or {}, _parse_release(release), keeps_former_admission=keeps_former_admission
    )
    return replay.run_cycles(cycles)


def _parse_release(text: str) -> KueueRelease:
    """Parse a minor version of Kueue such as 0.20. Raises InputError if it cannot be replayed."""
    try:
        return KueueRelease(text)
    except ValueError:
        known = ", ".join(KueueRelease)
        raise InputError(f"Kueue {text} cannot be replayed", hint=f"releases: {known}") from None


class KueueReplay:
    """Kueue with the objects of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        now: int,
        configuration: JsonObject,
        release: KueueRelease,
        *,
        keeps_former_admission: bool,
    ) -> None:
        gates = build_feature_gates(release, object_at(configuration, "featureGates"))
        self._settings = ReplaySettings(
            gates,
            read_resource_settings(object_at(configuration, "resources")),
            _read_fair_strategies(configuration),
            keeps_former_admission,
        )
        self.now = now
        inventory = ReferencedObjects(
            {flavor.metadata.name: flavor for flavor in cluster.resource_flavors},
            {check.metadata.name: check for check in cluster.admission_checks},
            frozenset(topology.metadata.name for topology in cluster.topologies),
        )
        self._named_cohorts = frozenset(cohort.metadata.name for cohort in cluster.cohorts)
        self.cache = build_empty_queue_cache(cluster.cluster_queues, cluster.cohorts, inventory, gates)
        limit_ranges = _group_limit_ranges_by_namespace(cluster.limit_ranges)
        store = WorkloadStore(_read_workloads(cluster, limit_ranges), keeps_former_admission)
        self.queues = Queues(
            store,
            self.cache,
            self._settings,
            {f"{queue.metadata.namespace}/{queue.metadata.name}": queue for queue in cluster.local_queues},
            {namespace.metadata.name: namespace.metadata.labels for namespace in cluster.namespaces},
            limit_ranges,
        )
        cluster_queues = {queue.metadata.name: queue for queue in cluster.cluster_queues}
        self.controller = WorkloadController(self.queues, cluster_queues, now)
        self._scheduler = AdmissionScheduler(self.queues)
        self._topologies = _Topologies(cluster, self.cache, store.workloads.values(), gates)

    @property
    def has_fair_sharing(self) -> bool:
        """True if fair sharing is on, which compares ClusterQueues by their weighted shares."""
        return self._settings.fair_strategies is not None

    def start(self) -> Events:
        """Let the controllers process all objects before the first cycle. Return the Events that they recorded."""
        self.controller.load_workloads()
        return self.controller.events

    def run_cycle(self) -> CycleResult | None:
        """Run one cycle of the scheduler, without the controllers. Return None if no Workload is left to be tried."""
        return self._scheduler.run_cycle(self._topologies.build_snapshots(self.cache), self.now)

    def settle(self) -> Events:
        """Let the controllers react to a cycle, advance the time by a second, and return the controllers' Events."""
        events = self.controller.settle(self.now)
        self.now += _SECOND
        return events

    def run_cycles(self, max_cycles: int) -> KueueAdmissionReport:
        """Start the replay, run up to ``max_cycles`` cycles, and report on them.

        The replay stops early if no Workload is waiting to be tried.
        """
        start_events = self.start()
        start = KueueStart(self._render_workloads(), _render_events(start_events))

        reports: list[KueueCycle] = []
        while len(reports) < max_cycles:
            report = self._run_reported_cycle(len(reports) + 1)
            if report is None:
                break
            reports.append(report)

        active = self._list_active_workloads()
        final = KueueFinal(
            workloads=self._render_workloads(),
            cluster_queues={name: self._build_queue_state(queue) for name, queue in sorted(self.cache.queues.items())},
            cohort_shares=self._render_cohort_shares(),
            heap=active,
            inadmissible=self._list_inadmissible_workloads(),
            more_heads=any(self.cache.is_queue_active(name) for name in active),
        )
        return KueueAdmissionReport(start, reports, final, self.cache.problems)

    def _run_reported_cycle(self, number: int) -> KueueCycle | None:
        """Run a cycle of the scheduler, let the controllers react, and report on both.

        Return None if no Workload is waiting to be tried.
        """
        states_before = self._render_workloads()
        result = self.run_cycle()
        if result is None:
            return None

        # Queues and states are reported as the scheduler leaves them, before the controllers change them
        active = self._list_active_workloads()
        inadmissible = self._list_inadmissible_workloads()
        states = self._render_workloads()
        changed_states = {key: state for key, state in states.items() if states_before.get(key) != state}

        controller_events = self.settle()
        return KueueCycle(
            cycle=number,
            order=result.order,
            requeued=_render_requeued_workloads(result),
            workloads=changed_states,
            events=_render_events(result.events),
            controller_events=_render_events(controller_events),
            heap=active,
            inadmissible=inadmissible,
        )

    def _list_active_workloads(self) -> dict[str, list[str]]:
        """Return the sorted keys of the active Workloads by ClusterQueue, without empty queues."""
        return {name: sorted(queue.active) for name, queue in sorted(self.queues.pending.items()) if queue.active}

    def _list_inadmissible_workloads(self) -> dict[str, list[str]]:
        """Return the sorted keys of the inadmissible Workloads by ClusterQueue, without empty queues."""
        pending = sorted(self.queues.pending.items())
        return {name: sorted(queue.inadmissible) for name, queue in pending if queue.inadmissible}

    def _render_workloads(self) -> dict[str, dict[str, Any]]:
        """Return the state of each Workload as JSON values, by namespace and name."""
        return {key: _render_workload(workload) for key, workload in sorted(self.queues.store.workloads.items())}

    def _build_queue_state(self, queue: CachedQueue) -> dict[str, Any]:
        """Build the state of a ClusterQueue as JSON values: its condition, usage and numbers of Workloads.

        With fair sharing, its weighted share is included.
        """
        readiness = queue.readiness
        active = {
            "status": "True" if readiness.status else "False",
            "reason": readiness.reason,
            "message": readiness.message,
        }
        state: dict[str, Any] = {
            "active": active,
            "usage": {},
            "reserving": len(queue.workloads),
            "admitted": queue.admitted_count,
        }
        for group in queue.settings.groups:
            for flavor in group.flavors:
                state["usage"][flavor] = {
                    resource: _render_usage(queue, FlavorResource(flavor, resource))
                    for resource in sorted(group.resources)
                }
        if self.has_fair_sharing:
            state["weightedShare"] = render_share(queue.node)
        return state

    def _render_cohort_shares(self) -> dict[str, str]:
        """Return the weighted share of each Cohort object by name, or {} without fair sharing.

        Cohorts whose parents form a cycle and cohorts without an object are left out.
        """
        if not self.has_fair_sharing:
            return {}
        return {
            name: render_share(cohort)
            for name, cohort in sorted(self.cache.cohorts.items())
            if name in self._named_cohorts and name not in self.cache.cohorts_with_cyclic_parents
        }


class _Topologies:
    """The topologies of the flavors, with what pods and Workloads use of them."""

    def __init__(
        self, cluster: Cluster, cache: QueueCache, workloads: Iterable[WorkloadState], gates: FeatureGates
    ) -> None:
        self._gates = gates
        self._trees: dict[str, TopologyTree] = {}
        self._flavors = cache.inventory.flavors
        self._free: dict[str, Counts] = {}
        """The capacity that pods outside Kueue leave, by flavor. Shape of each: resources x leaves."""
        if Gate.TOPOLOGY_AWARE_SCHEDULING not in gates:
            return

        # A tree has a row for each resource that a Workload requests, even if no node has the resource
        topologies = {topology.metadata.name: topology for topology in cluster.topologies}
        requested = {
            name
            for workload in workloads
            for pod_set in workload.adjusted_pod_sets
            for name in compute_requests(pod_set.template.spec)
        }
        for name, flavor in self._flavors.items():
            if flavor.spec.topology_name in topologies:
                topology = topologies[flavor.spec.topology_name]
                self._trees[name] = build_topology_tree(flavor, topology, cluster.nodes, (*sorted(requested), "pods"))
        if self._trees:
            pods_outside = PodsOutside(cluster.pods)
            self._free = {name: pods_outside.compute_free_capacity(tree) for name, tree in self._trees.items()}

    def build_snapshots(self, cache: QueueCache) -> dict[str, TopologySnapshot]:
        """Build a snapshot of each flavor's topology, with the usage of the Workloads that hold quota."""
        snapshots = {}
        for name, tree in self._trees.items():
            tolerations = self._flavors[name].spec.tolerations
            snapshots[name] = TopologySnapshot(tree, self._free[name], tolerations, self._gates)
        for queue in cache.queues.values():
            for info in queue.workloads.values():
                for flavor, domains in info.compute_usage(self._gates).topology.items():
                    # Flavors may share nodes, so usage may count in several topologies
                    for snapshot in self._list_overlapping_topologies(snapshots, flavor):
                        snapshot.change_usage(domains, sign=1)
        return snapshots

    def _list_overlapping_topologies(
        self, snapshots: Mapping[str, TopologySnapshot], flavor: str
    ) -> list[TopologySnapshot]:
        """Return the topologies in which a flavor's pods take room, or none if the flavor has no topology.

        Usually, this is only the flavor's topology. With the gate TASHandleOverlappingFlavors, all topologies whose
        lowest level is nodes are included, because flavors may share nodes.
        """
        flavor_topology = snapshots.get(flavor)
        if flavor_topology is None:
            return []
        if Gate.TAS_HANDLE_OVERLAPPING_FLAVORS not in self._gates or not flavor_topology.tree.has_node_level:
            return [flavor_topology]
        return [snapshot for snapshot in snapshots.values() if snapshot.tree.has_node_level]


def _read_fair_strategies(configuration: JsonObject) -> tuple[str, ...] | None:
    """Read the preemption strategies of fair sharing from Kueue's Configuration.

    Return None if fair sharing is off. Raises InputError for an unknown strategy.
    """
    if configuration.get("fairSharing") is None:
        return None
    strategies = object_at(configuration, "fairSharing").get("preemptionStrategies") or DEFAULT_STRATEGIES
    if not isinstance(strategies, list | tuple):
        raise InputError("fairSharing.preemptionStrategies of Kueue's configuration must be a list")
    for strategy in strategies:
        if strategy not in (FINAL_SHARE, INITIAL_SHARE):
            hint = f"strategies: {FINAL_SHARE}, {INITIAL_SHARE}"
            raise InputError(f"fairSharing.preemptionStrategies: unknown strategy {strategy!r}", hint=hint)
    return tuple(strategies)


def _group_limit_ranges_by_namespace(limit_ranges: Iterable[LimitRange]) -> dict[str, list[LimitRange]]:
    """Return the LimitRanges of each namespace."""
    by_namespace: dict[str, list[LimitRange]] = {}
    for limit_range in limit_ranges:
        by_namespace.setdefault(limit_range.metadata.namespace, []).append(limit_range)
    return by_namespace


def _read_workloads(cluster: Cluster, limit_ranges: Mapping[str, list[LimitRange]]) -> dict[str, WorkloadState]:
    """Return the cluster's Workloads by key, with admission defaults, RuntimeClass overhead and priority resolved.

    Raises InputError if a Workload is malformed.
    """
    priorities = {
        priority_class.metadata.name: priority_class.value for priority_class in cluster.workload_priority_classes
    }
    overheads = {
        runtime_class.metadata.name: runtime_class.overhead.pod_fixed
        for runtime_class in cluster.runtime_classes
        if runtime_class.overhead is not None
    }
    workloads = {}
    for stored in cluster.kueue_workloads:
        ranges = limit_ranges.get(stored.metadata.namespace, ())
        adjusted = add_admission_defaults(stored.spec.pod_sets, ranges, overheads)
        workload = read_workload(stored, adjusted, _resolve_priority(stored, priorities))
        workloads[workload.key] = workload
    return workloads


def _resolve_priority(workload: KueueWorkload, priorities: Mapping[str, int]) -> int:
    """Return a Workload's priority: from its spec, otherwise from its WorkloadPriorityClass, otherwise 0.

    ``priorities`` maps each WorkloadPriorityClass to its priority.
    """
    spec = workload.spec
    if spec.priority is not None:
        return spec.priority
    reference = spec.priority_class_ref
    if reference is not None and reference.kind == _WORKLOAD_PRIORITY_CLASS:
        return priorities.get(reference.name, 0)
    return priorities.get(spec.priority_class_name, 0)


def _render_requeued_workloads(result: CycleResult) -> dict[str, dict[str, Any]]:
    """Return why each Workload was requeued, whether it was added to its queue, and its status, as JSON values.

    The keys are namespace/name.
    """
    return {
        key: {"reason": entry.reason.value, "added": entry.added, "status": entry.status.value}
        for key, entry in sorted(result.requeued.items())
    }


def _render_events(events: Events) -> dict[str, list[dict[str, str]]]:
    """Return the sorted Events of each Workload as JSON values, by namespace and name."""
    return {key: [_render_event(event) for event in sorted(by_key)] for key, by_key in sorted(events.items())}


def _render_event(event: KueueEvent) -> dict[str, str]:
    """Return an Event as JSON values."""
    return {"type": event.type, "reason": event.reason, "message": event.message}


def _render_workload(workload: WorkloadState) -> dict[str, Any]:
    """Return the state of a Workload as JSON values, without empty fields.

    The resource requests are included only if the Workload has no admission.
    """
    conditions = {}
    for kind, condition in sorted(workload.conditions.items()):
        status = "True" if condition.status else "False"
        conditions[kind] = {"status": status, "reason": condition.reason, "message": condition.message}
    state: dict[str, Any] = {"conditions": conditions}
    if not workload.active:
        state["active"] = False
    if workload.admission is not None:
        state["admission"] = {
            "clusterQueue": workload.admission.cluster_queue,
            "podSets": [_render_admitted_pod_set(pod_set) for pod_set in workload.admission.pod_sets],
        }
    elif workload.resource_requests:
        state["resourceRequests"] = {
            name: _render_amounts(requests) for name, requests in workload.resource_requests.items()
        }
    if workload.checks:
        state["admissionChecks"] = {
            name: {"state": check.state, "message": check.message} for name, check in sorted(workload.checks.items())
        }
    return state


def _render_admitted_pod_set(assigned: PodSetAdmission) -> dict[str, Any]:
    """Return the admission of a pod set as JSON values: its flavors, usage, number of pods and topology."""
    pod_set: dict[str, Any] = {
        "name": assigned.name,
        "count": assigned.count,
        "flavors": dict(assigned.flavors),
        "usage": _render_amounts(assigned.usage),
    }
    if assigned.topology is not None:
        pod_set["topology"] = {
            "levels": list(assigned.topology.levels),
            "domains": [{"values": list(domain.values), "count": domain.count} for domain in assigned.topology.domains],
        }
    if assigned.delayed_topology:
        pod_set["delayedTopologyRequest"] = assigned.delayed_topology
    return pod_set


def _render_amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as canonical quantities by resource, sorted by name."""
    return {resource: format_amount(resource, amount) for resource, amount in sorted(amounts.items())}


def _render_usage(queue: CachedQueue, key: FlavorResource) -> dict[str, str]:
    """Return the amount of a resource that a ClusterQueue uses and, if it borrows, the borrowed amount."""
    used = queue.node.get_usage(key)
    usage = {"total": format_amount(key.resource, used)}
    borrowed = subtract_amounts(used, queue.node.get_quota(key).nominal)
    if queue.node.parent is not None and borrowed > 0:
        usage["borrowed"] = format_amount(key.resource, borrowed)
    return usage


def render_share(node: QuotaNode) -> str:
    """Return a node's weighted share with six significant digits, or ``+Inf``."""
    share = compute_dominant_share(node).weighted
    return "+Inf" if share == float("inf") else f"{share:.6g}"
