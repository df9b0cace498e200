"""Facts about a cluster for rules: which nodes a workload may use, topology domains, free room, and replays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from kschedctl.api.arrays import Amounts, Bools, Position, Row, Rows
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import ObjectMeta, Pod, PodMeta, PodResourceClaim, PodSpec, ResourceClaim, ResourceClaimSpec
from kschedctl.api.ownership import ADDED_LABELS, Owner, find_owner
from kschedctl.api.pod_table import NO_PODS
from kschedctl.api.resource_names import is_counted
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT, is_tolerated
from kschedctl.cluster import Cluster
from kschedctl.lint.objects.owners import group_pods_by_owner
from kschedctl.lint.objects.subject import join_names
from kschedctl.lint.objects.workload import Workload
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.framework.declaration import PluginClass
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_name import NodeName
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.scheduler.simulation.outcome import SCHEDULED, Outcome
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE as NO_NODE
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import match_required_affinity, match_tolerations
from kschedctl.snapshot.pod_info import PodInfo

NODE_PLUGINS = (NodeAffinity, TaintToleration, NodeUnschedulable, NodeName)
"""Plugins that reject a node for its own properties, whatever runs there."""
_encode = msgspec.msgpack.Encoder().encode


class ClusterFacts:
    """Cached facts about a cluster of N nodes in the scheduler's order. Do not write to its masks, which are (N,)."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._masks: dict[bytes, Bools] = {}
        self._requests: dict[Workload, tuple[Amounts, list[str]]] = {}

    @cached_property
    def scheduler(self) -> Scheduler:
        """Return the scheduler of the cluster."""
        return Scheduler(self.cluster)

    @cached_property
    def scheduler_with_fixed_pods(self) -> Scheduler:
        """Return the scheduler of the cluster with only the pods that cannot move: DaemonSet and static pods."""
        fixed = self.cluster.pods.filter_by_template(lambda pod: find_owner(pod).kind in ("DaemonSet", "Node"))
        return Scheduler(replace(self.cluster, pods=fixed))

    @property
    def view(self) -> Fork:
        """Return the cluster's nodes and pods."""
        return self.scheduler.view

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.view.nodes)

    def get_selected_nodes(self, workload: Workload) -> Bools:
        """Return the nodes that the workload's nodeSelector and required node affinity allow."""
        spec = workload.spec
        key = _encode((spec.node_selector, spec.affinity.node_affinity if spec.affinity else None))
        if key not in self._masks:
            self._masks[key] = match_required_affinity(self.view.nodes, compile_required_node_affinity(spec))
        return self._masks[key]

    def get_tolerated_nodes(self, workload: Workload) -> Bools:
        """Return the nodes whose taints and cordon the workload tolerates."""
        key = _encode(("tolerations", workload.spec.tolerations))
        if key not in self._masks:
            columns, tolerations = self.view.nodes, workload.spec.tolerations
            cordon = is_tolerated(tolerations, UNSCHEDULABLE_TAINT)
            self._masks[key] = match_tolerations(columns, tolerations) & (cordon | ~columns.unschedulable)
        return self._masks[key]

    def get_eligible_nodes(self, workload: Workload) -> Bools:
        """Return the nodes that the workload may use by labels, taints and cordons."""
        return self.get_selected_nodes(workload) & self.get_tolerated_nodes(workload)

    def count_domains(self, key: str, nodes: Bools) -> int:
        """Return how many values of a label the nodes have."""
        codes = self.view.nodes.label(key).codes[nodes]
        return len(np.unique(codes[codes >= 0]))

    def format_unusable_domains(self, key: str, nodes: Bools, usable: Bools, limit: int = 3) -> str:
        """Return the label values that some nodes have and no usable node has, as in ``a, b and 12 more``."""
        column = self.view.nodes.label(key)
        codes = np.setdiff1d(column.codes[nodes], column.codes[usable])
        return join_names([column.values[code] for code in codes[codes >= 0].tolist()], limit)

    def get_nodes_with_label(self, key: str) -> Bools:
        """Return the nodes that have a label."""
        return self.view.nodes.label(key).present

    def pick_row_per_domain(self, key: str, nodes: Bools) -> Rows:
        """Return the row of the first node of each domain."""
        codes = self.view.nodes.label(key).codes
        rows = np.flatnonzero(nodes & (codes >= 0))
        return rows[np.unique(codes[rows], return_index=True)[1]]

    def format_node_names(self, mask: Bools, limit: int = 3) -> str:
        """Return the names of the nodes, as in ``a, b, c and 12 more``."""
        return join_names([self.view.nodes.names[row] for row in np.flatnonzero(mask).tolist()], limit)

    # -- room ----------------------------------------------------------------------------------------------------

    @cached_property
    def pods_by_owner(self) -> dict[Owner, list[Pod]]:
        """Return the pods of each controller."""
        return group_pods_by_owner(self.cluster)

    def list_pod_rows(self, workload: Workload) -> list[Row]:
        """Return the node of each of the workload's bound pods that is not terminating."""
        index = self.view.nodes.index
        pods = self.pods_by_owner.get(workload.owner, ())
        staying = (pod.spec.node_name for pod in pods if pod.metadata.deletion_timestamp is None)
        return [index[node] for node in staying if node in index]

    @cached_property
    def offered_resources(self) -> frozenset[str]:
        """Return the resources that some node has."""
        view = self.view
        return frozenset(name for name, column in view.resources.items() if view.allocatable[:, column].any())

    @cached_property
    def free_amounts(self) -> Amounts:
        """Return (N, R) the free amounts on each node."""
        free: Amounts = self.view.allocatable - self.view.requested
        return free

    def get_requests(self, workload: Workload) -> Amounts:
        """Return (R,) the requests of one pod of the workload, with 1 in the column of pods."""
        if workload not in self._requests:
            amounts = self._build_pod_info(workload, self.view).requests
            with_column = {name: amount for name, amount in amounts.items() if name in self.view.resources}
            requests = self.view.build_matrix([with_column])[0]
            requests[self.view.resources["pods"]] = 1
            unoffered = [
                name
                for name, amount in amounts.items()
                if amount and name not in self.offered_resources and is_counted(name)
            ]
            self._requests[workload] = requests, sorted(unoffered)
        return self._requests[workload][0]

    def get_nodes_with_room(self, workload: Workload) -> Bools:
        """Return the nodes with room for the requests of one pod of the workload."""
        requests = self.get_requests(workload)
        if self.list_unoffered_resources(workload):
            return np.zeros(len(self), np.bool_)
        key = b"room" + requests.tobytes()
        if key not in self._masks:
            self._masks[key] = has_room(self.free_amounts, requests)
        return self._masks[key]

    def list_unoffered_resources(self, workload: Workload) -> list[str]:
        """Return the resources that the workload requests and no node offers."""
        self.get_requests(workload)
        return self._requests[workload][1]

    # -- replays -------------------------------------------------------------------------------------------------

    def find_framework(self, workload: Workload) -> Framework | None:
        """Return the profile that schedules the workload, without plugins that lack data.

        Returns None if no profile does, or if missing data could make nodes feasible, so that nothing can be claimed.
        """
        framework, unknown = self.scheduler.find_framework_for(self._build_pod_info(workload, self.view), self.view)
        if any(plugin.dependency.effect in (Effect.EITHER, Effect.ADMITS) for plugin in unknown):
            return None
        return framework

    def replay(self, workload: Workload, view: Fork | None = None) -> Cycle | None:
        """Run a scheduling cycle for one pod of the workload, or return None if no profile schedules it."""
        framework, view = self.find_framework(workload), view or self.view
        return None if framework is None else run_cycle(framework, self._build_pod_info(workload, view), view)

    def get_rejected_nodes(self, workload: Workload, plugin: PluginClass) -> Bools:
        """Return a mask (N,) of the nodes that a plugin rejects for a pod of the workload.

        No node is in it if the replay fails.
        """
        cycle = self.replay(workload)
        verdict = cycle.filter.verdicts.get(plugin.name) if cycle is not None and cycle.error is None else None
        return verdict.rejected if verdict is not None else np.zeros(len(self), np.bool_)

    def can_never_schedule(self, workload: Workload, plugins: Iterable[PluginClass] = ()) -> bool:
        """Return whether no pod of the workload would fit even without movable pods, because of these plugins.

        True only if the replay ends without a feasible node and one of the plugins rejects each node.
        """
        cycle = self.replay(workload, self.scheduler_with_fixed_pods.view)
        if cycle is None or cycle.error is not None or len(cycle.feasible):
            return False
        names = {plugin.name for plugin in plugins}
        rejected = np.zeros(len(self), np.bool_)
        for name in names & cycle.filter.verdicts.keys():
            rejected |= cycle.filter.verdicts[name].rejected
        return cycle.pre_filter.plugin in names or bool(rejected.all())

    def lacks_devices(self, workload: Workload, specs: Mapping[str, ResourceClaimSpec]) -> bool:
        """Return whether no node has the devices that the workload's claims need, even if all devices were free.

        ``specs`` has the claims by their names in the pod. Everything else of the pod is left out.
        """
        framework, namespace = self.find_framework(workload), workload.namespace
        if framework is None:
            return False
        claims = tuple(
            ResourceClaim(ObjectMeta(name, namespace, f"lint-{name}"), specs[name]) for name in sorted(specs)
        )
        cluster = replace(self.cluster, pods=NO_PODS, resource_claims=claims)
        references = tuple(PodResourceClaim(name, name) for name in sorted(specs))
        spec = PodSpec(resource_claims=references, scheduler_name=workload.spec.scheduler_name)
        view = Fork.from_cluster(cluster, self.view.settings)
        pod = Pod(PodMeta(workload.pod.metadata.name, namespace), spec)
        cycle = run_cycle(framework, PodInfo(view.admitted(view.stored(pod)), view.settings.requests), view)
        verdict = cycle.filter.verdicts.get(DynamicResources.name)
        return cycle.error is None and verdict is not None and bool(verdict.rejected.all())

    def is_full_after(self, workload: Workload, rows: Rows) -> bool:
        """Return whether no further pod fits once the workload has a pod on each row, even without movable pods."""
        framework = self.find_framework(workload)
        if framework is None:
            return False
        view, added = self._fork_with_pods(workload, len(rows))
        for position, row in zip(added, map(Row, rows.tolist()), strict=True):
            view.assume(position, row)
        pod = view.admitted(view.stored(strip_references(workload.pod)))
        cycle = run_cycle(framework, PodInfo(pod, view.settings.requests), view)
        return cycle.error is None and not len(cycle.feasible)

    def count_placeable(self, workload: Workload, count: int) -> int:
        """Count how many of ``count`` pods of the workload fit one after the other, without movable pods."""
        framework = self.find_framework(workload)
        if framework is None:
            return count
        view, added = self._fork_with_pods(workload, count)
        for placed, position in enumerate(added):
            cycle = run_cycle(framework, view.pods.infos[view.pods.info[position]], view)
            if not len(cycle.feasible):
                return placed
            view.assume(position, Row(int(cycle.scores.best[0])))
        return count

    def _build_pod_info(self, workload: Workload, view: Fork) -> PodInfo:
        """Build the PodInfo of one pod of the workload.

        Objects that a manifest refers to are left out, as they may be created together with it.
        """
        pod = strip_references(workload.pod) if workload.subject.document else workload.pod
        return PodInfo(view.admitted(view.stored(pod)), view.settings.requests)

    def _fork_with_pods(self, workload: Workload, count: int) -> tuple[Fork, list[Position]]:
        """Return a fork without movable pods but with ``count`` pending pods of the workload, and their positions.

        Volumes, claims and gates are left out, as the objects they refer to may be created together with the workload.
        """
        bare = self.scheduler_with_fixed_pods
        pod = bare.view.admitted(bare.view.stored(strip_references(workload.pod)))
        name = f"{pod.metadata.name}-lint"
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))
        cluster = bare.cluster.with_objects({"Pod": [pod]})
        view = Fork.from_cluster(cluster, bare.view.settings).fork()
        position = view.pods.index[pod.key]
        return view, [position, *view.clone(position, max(count - 1, 0))][:count]


def has_room(amounts: Amounts, requests: Amounts) -> Bools:
    """Return a mask (N,) of the rows of (N, R) that have room for the requests (R,).

    A resource that is not requested may be overcommitted.
    """
    room: Bools = ((amounts >= requests) | (requests == 0)).all(axis=1)
    return room


def strip_references(pod: Pod) -> Pod:
    """Return the pod without volumes, resource claims and scheduling gates."""
    spec = msgspec.structs.replace(pod.spec, volumes=(), resource_claims=(), scheduling_gates=())
    return msgspec.structs.replace(pod, spec=spec)


MAX_PLACED = 1000
"""How many pods of a workload are placed at most. A workload with room for so many counts as placed."""


class PlacementResult(NamedTuple):
    """The number of a workload's pods that found a node, and the reason why the next one did not."""

    number: int
    """The number of pods that found a node."""
    shortage: str = ""
    """What the nodes lack that only requests keep the next pod from, or ""."""
    preempts: bool = False
    """Whether the next pod could be placed by preemption."""


def place_additional_pods(facts: ClusterFacts, wanted: Mapping[Workload, int]) -> dict[Workload, PlacementResult]:
    """Place the wanted number of additional pods of each workload, each workload on its own.

    Volumes, claims and gates are left out, as the objects they refer to may be created together with the workload.
    Workloads without a profile, or whose placement depends on missing data, are not in the result.
    """
    workloads = [workload for workload in wanted if facts.find_framework(workload) is not None]
    if not workloads:
        return {}
    pods = [_build_pod(workload, number) for number, workload in enumerate(workloads)]
    scheduler = Scheduler(facts.cluster.with_objects({"Pod": pods}))
    keys = [pod.key for pod in pods]
    return {w: _place(scheduler, key, min(wanted[w], MAX_PLACED)) for w, key in zip(workloads, keys, strict=True)}


def _build_pod(workload: Workload, number: int) -> Pod:
    """Build a pod as the workload's controller would, under a name that no pod of the cluster has."""
    pod = strip_references(workload.pod)
    labels = {**pod.metadata.labels, **dict.fromkeys(ADDED_LABELS.get(workload.kind, ()), "lint")}
    meta = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}~lint-{number}", labels=labels)
    return msgspec.structs.replace(pod, metadata=meta)


def _place(scheduler: Scheduler, pod_key: str, wanted: int) -> PlacementResult:
    """Place copies of a pending pod until one finds no node."""
    simulation = Simulation(scheduler, preemption=False)
    view = simulation.view
    first = view.pods.index[pod_key]
    for count, position in enumerate([first, *view.clone(first, wanted - 1)]):
        outcome = simulation.attempt(position) or Outcome(position, NO_NODE)
        if outcome.verdict == NO_NODE:
            return _explain_stop(simulation, position, count)
        if outcome.verdict != SCHEDULED:
            break
    return PlacementResult(wanted)


def _explain_stop(simulation: Simulation, position: Position, count: int) -> PlacementResult:
    """Return the result of placing ``count`` pods when the pod at ``position`` finds no node."""
    cycle = simulation.run_cycle(position)
    if cycle.error is not None:
        return PlacementResult(count)
    evicting = Simulation(simulation.scheduler, simulation.view).attempt(position)
    return PlacementResult(count, _describe_shortage(cycle), preempts=evicting is not None and bool(evicting.victims))


def _describe_shortage(cycle: Cycle) -> str:
    """Describe the shortages that alone make nodes reject the pod: ``4 Insufficient cpu, 1 Too many pods``."""
    verdicts = cycle.filter.verdicts
    if NodeResourcesFit.name not in verdicts or cycle.pre_filter.status.rejected:
        return ""
    only_requests = verdicts[NodeResourcesFit.name].rejected & cycle.considered
    for name, verdict in verdicts.items():
        if name != NodeResourcesFit.name:
            only_requests &= ~verdict.rejected
    counts = cycle.filter.count_reasons(only_requests).most_common()
    return ", ".join(f"{nodes:,} {reason}" for reason, nodes in counts)
