"""What rules ask of a cluster: which nodes a workload may use, how many domains there are, what a replay says."""

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
from kschedctl.lint.objects.owners import pods_by_owner
from kschedctl.lint.objects.subject import listed
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
from kschedctl.snapshot import node_masks
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

OF_NODES = (NodeAffinity, TaintToleration, NodeUnschedulable, NodeName)
"""The plugins that refuse a node for what it is, whatever runs there."""
_encode = msgspec.msgpack.Encoder().encode


class ClusterFacts:
    """N nodes in the scheduler's order; masks are (N,) and not to be written to."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._masks: dict[bytes, Bools] = {}
        self._requests: dict[Workload, tuple[Amounts, list[str]]] = {}

    @cached_property
    def scheduler(self) -> Scheduler:
        return Scheduler(self.cluster)

    @cached_property
    def bare(self) -> Scheduler:
        """The cluster with only those pods that cannot move away: of DaemonSets, and static ones."""
        fixed = self.cluster.pods.filter_by_template(lambda pod: find_owner(pod).kind in ("DaemonSet", "Node"))
        return Scheduler(replace(self.cluster, pods=fixed))

    @property
    def view(self) -> Fork:
        return self.scheduler.view

    def __len__(self) -> int:
        return len(self.view.nodes)

    def selected(self, workload: Workload) -> Bools:
        """The nodes that its nodeSelector and required node affinity allow."""
        spec = workload.spec
        key = _encode((spec.node_selector, spec.affinity.node_affinity if spec.affinity else None))
        if key not in self._masks:
            self._masks[key] = node_masks.allowed(self.view.nodes, compile_required_node_affinity(spec))
        return self._masks[key]

    def tolerated(self, workload: Workload) -> Bools:
        """The nodes whose taints it tolerates, cordons included."""
        key = _encode(("tolerations", workload.spec.tolerations))
        if key not in self._masks:
            nodes, tolerations = self.view.nodes, workload.spec.tolerations
            cordon = is_tolerated(tolerations, UNSCHEDULABLE_TAINT)
            self._masks[key] = node_masks.tolerated(nodes, tolerations) & (cordon | ~nodes.unschedulable)
        return self._masks[key]

    def eligible(self, workload: Workload) -> Bools:
        """The nodes that it may use by labels and taints."""
        return self.selected(workload) & self.tolerated(workload)

    def domains(self, key: str, among: Bools) -> int:
        """How many values of a label these nodes have."""
        codes = self.view.nodes.label(key).codes[among]
        return len(np.unique(codes[codes >= 0]))

    def domains_without(self, key: str, among: Bools, usable: Bools, limit: int = 3) -> str:
        """Return the values of a label that some nodes have and no usable node has, as ``a, b and 12 more``."""
        column = self.view.nodes.label(key)
        codes = np.setdiff1d(column.codes[among], column.codes[usable])
        return listed([column.values[code] for code in codes[codes >= 0].tolist()], limit)

    def has_label(self, key: str) -> Bools:
        return self.view.nodes.label(key).present

    def one_a_domain(self, key: str, among: Bools) -> Rows:
        """The first row of each domain."""
        codes = self.view.nodes.label(key).codes
        rows = np.flatnonzero(among & (codes >= 0))
        return rows[np.unique(codes[rows], return_index=True)[1]]

    def names(self, mask: Bools, limit: int = 3) -> str:
        """``a, b, c and 12 more``."""
        return listed([self.view.nodes.names[row] for row in np.flatnonzero(mask).tolist()], limit)

    # -- room ----------------------------------------------------------------------------------------------------

    @cached_property
    def owners(self) -> dict[Owner, list[Pod]]:
        """The pods of each controller."""
        return pods_by_owner(self.cluster)

    def rows_of(self, workload: Workload) -> list[Row]:
        """The nodes on which the workload has pods that stay, one entry a pod."""
        index = self.view.nodes.index
        pods = self.owners.get(workload.owner, ())
        staying = (pod.spec.node_name for pod in pods if pod.metadata.deletion_timestamp is None)
        return [index[node] for node in staying if node in index]

    @cached_property
    def offered(self) -> frozenset[str]:
        """The resources that some node has."""
        view = self.view
        return frozenset(name for name, column in view.resources.items() if view.allocatable[:, column].any())

    @cached_property
    def free(self) -> Amounts:
        """(N, R): what is left on each node."""
        left: Amounts = self.view.allocatable - self.view.requested
        return left

    def requests(self, workload: Workload) -> Amounts:
        """(R,): what one of its pods requests, itself counted in the column of pods."""
        if workload not in self._requests:
            amounts = self._info(workload, self.view).requests
            known = {name: amount for name, amount in amounts.items() if name in self.view.resources}
            wanted = self.view.matrix([known])[0]
            wanted[self.view.resources["pods"]] = 1
            missing = [n for n, amount in amounts.items() if amount and n not in self.offered and is_counted(n)]
            self._requests[workload] = wanted, sorted(missing)
        return self._requests[workload][0]

    def room(self, workload: Workload) -> Bools:
        """The nodes on which as much is left as one of its pods requests."""
        wanted = self.requests(workload)
        if self.unknown_resources(workload):
            return np.zeros(len(self), np.bool_)
        key = b"room" + wanted.tobytes()
        if key not in self._masks:
            self._masks[key] = holds(self.free, wanted)
        return self._masks[key]

    def unknown_resources(self, workload: Workload) -> list[str]:
        """The resources that it requests and that no node offers."""
        self.requests(workload)
        return self._requests[workload][1]

    # -- replays -------------------------------------------------------------------------------------------------

    def framework(self, workload: Workload) -> Framework | None:
        """The profile that serves it, without plugins that lack what they would need.

        None when no profile does, and where what was not read could make nodes fit: then nothing can be claimed.
        """
        framework, unknown = self.scheduler.framework_for(self._info(workload, self.view), self.view)
        return (
            None if any(plugin.dependency.effect in (Effect.EITHER, Effect.ADMITS) for plugin in unknown) else framework
        )

    def replay(self, workload: Workload, view: Fork | None = None) -> Cycle | None:
        """A scheduling cycle for one of its pods, in the cluster as it is or another; None: nobody serves it."""
        framework, view = self.framework(workload), view or self.view
        return None if framework is None else run_cycle(framework, self._info(workload, view), view)

    def refused(self, workload: Workload, plugin: PluginClass) -> Bools:
        """The nodes that a plugin refuses one of its pods in the cluster as it is; none where the replay fails."""
        cycle = self.replay(workload)
        verdict = cycle.filter.verdicts.get(plugin.name) if cycle is not None and cycle.error is None else None
        return verdict.rejected if verdict is not None else np.zeros(len(self), np.bool_)

    def never(self, workload: Workload, plugins: Iterable[PluginClass] = ()) -> bool:
        """Whether not one of its pods would fit even if every pod that can move went away, by these plugins' word.

        True only when the replay ends without a feasible node and each node is refused by one of the plugins.
        """
        cycle = self.replay(workload, self.bare.view)
        if cycle is None or cycle.error is not None or len(cycle.feasible):
            return False
        names = {plugin.name for plugin in plugins}
        by_these = np.zeros(len(self), np.bool_)
        for name in names & cycle.filter.verdicts.keys():
            by_these |= cycle.filter.verdicts[name].rejected
        return cycle.pre_filter.plugin in names or bool(by_these.all())

    def no_devices(self, workload: Workload, specs: Mapping[str, ResourceClaimSpec]) -> bool:
        """Whether no node has the devices that the workload's claims (by their names in the pod) ask for.

        All devices are taken as free, and everything else of the pod is left out.
        """
        framework, namespace = self.framework(workload), workload.namespace
        if framework is None:
            return False
        claims = tuple(
            ResourceClaim(ObjectMeta(name, namespace, f"lint-{name}"), specs[name]) for name in sorted(specs)
        )
        cluster = replace(self.cluster, pods=NO_PODS, resource_claims=claims)
        references = tuple(PodResourceClaim(name, name) for name in sorted(specs))
        spec = PodSpec(resource_claims=references, scheduler_name=workload.spec.scheduler_name)
        view = Fork.of(cluster, self.view.settings)
        pod = Pod(PodMeta(workload.pod.metadata.name, namespace), spec)
        cycle = run_cycle(framework, PodInfo(view.admitted(view.stored(pod)), view.settings.requests), view)
        verdict = cycle.filter.verdicts.get(DynamicResources.name)
        return cycle.error is None and verdict is not None and bool(verdict.rejected.all())

    def full_after(self, workload: Workload, rows: Rows) -> bool:
        """Whether none more fits, even without movable pods, once one of its pods runs on each of the rows."""
        framework = self.framework(workload)
        if framework is None:
            return False
        view, added = self._populated(workload, len(rows))
        for position, row in zip(added, map(Row, rows.tolist()), strict=True):
            view.assume(position, row)
        pod = view.admitted(view.stored(unencumbered(workload.pod)))
        cycle = run_cycle(framework, PodInfo(pod, view.settings.requests), view)
        return cycle.error is None and not len(cycle.feasible)

    def placeable(self, workload: Workload, count: int) -> int:
        """How many of so many pods of it find a node, one after the other, where only fixed pods are."""
        framework = self.framework(workload)
        if framework is None:
            return count
        view, added = self._populated(workload, count)
        for placed, position in enumerate(added):
            cycle = run_cycle(framework, view.pods.infos[view.pods.info[position]], view)
            if not len(cycle.feasible):
                return placed
            view.assume(position, Row(int(cycle.scores.best[0])))
        return count

    def _info(self, workload: Workload, view: Fork) -> PodInfo:
        """What manifests refer to may be created together with them: it is left out."""
        pod = unencumbered(workload.pod) if workload.subject.document else workload.pod
        return PodInfo(view.admitted(view.stored(pod)), view.settings.requests)

    def _populated(self, workload: Workload, count: int) -> tuple[Fork, list[Position]]:
        """A fork of the bare cluster with so many pods of the workload pending, and their positions.

        Their volumes, claims and gates are left out: what those refer to may be created together with the workload.
        """
        bare = self.bare
        pod = bare.view.admitted(bare.view.stored(unencumbered(workload.pod)))
        name = f"{pod.metadata.name}-lint"
        pod = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, name=name))
        cluster = bare.cluster.with_objects({"Pod": [pod]})
        view = Fork.of(cluster, bare.view.settings).fork()
        position = view.pods.index[pod.key]
        return view, [position, *view.clone(position, max(count - 1, 0))][:count]


def holds(amounts: Amounts, wanted: Amounts) -> Bools:
    """(N, R) offered -> (N,): room for what is wanted, (R,); what is not wanted may be overdrawn."""
    room: Bools = ((amounts >= wanted) | (wanted == 0)).all(axis=1)
    return room


def unencumbered(pod: Pod) -> Pod:
    """The pod without volumes, claims and gates."""
    spec = msgspec.structs.replace(pod.spec, volumes=(), resource_claims=(), scheduling_gates=())
    return msgspec.structs.replace(pod, spec=spec)


MOST_PLACED = 1000
"""The most pods of a workload that are placed; one that has room for so many has room."""


class Placed(NamedTuple):
    """``number``: of the pods that found a node; where one found none, ``lacking``: what nodes lack that would do else.

    ``evicts``: it could go where others would have to leave.
    """

    number: int
    lacking: str = ""
    evicts: bool = False


def placed_now(facts: ClusterFacts, wanted: Mapping[Workload, int]) -> dict[Workload, Placed]:
    """How many of so many more pods of each workload find a node, each workload by itself.

    Their volumes, claims and gates are left out: what those refer to may be created together with the workload. What no
    profile serves, and what leans on something that was not read, is not there.
    """
    asked = [workload for workload in wanted if facts.framework(workload) is not None]
    if not asked:
        return {}
    pods = [_pod(workload, number) for number, workload in enumerate(asked)]
    scheduler = Scheduler(facts.cluster.with_objects({"Pod": pods}))
    keys = [pod.key for pod in pods]
    return {w: _placed(scheduler, key, min(wanted[w], MOST_PLACED)) for w, key in zip(asked, keys, strict=True)}


def _pod(workload: Workload, number: int) -> Pod:
    """One that its controller would make, under a name that no pod of the cluster has."""
    pod = unencumbered(workload.pod)
    labels = {**pod.metadata.labels, **dict.fromkeys(ADDED_LABELS.get(workload.kind, ()), "lint")}
    meta = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}~lint-{number}", labels=labels)
    return msgspec.structs.replace(pod, metadata=meta)


def _placed(scheduler: Scheduler, key: str, wanted: int) -> Placed:
    simulation = Simulation(scheduler, preemption=False)
    view = simulation.view
    first = view.pods.index[key]
    for count, position in enumerate([first, *view.clone(first, wanted - 1)]):
        outcome = simulation.attempt(position) or Outcome(position, NO_NODE)
        if outcome.verdict == NO_NODE:
            return _stopped(simulation, position, count)
        if outcome.verdict != SCHEDULED:
            break
    return Placed(wanted)


def _stopped(simulation: Simulation, position: Position, count: int) -> Placed:
    cycle = simulation.cycle(position)
    if cycle.error is not None:
        return Placed(count)
    evicting = Simulation(simulation.scheduler, simulation.view).attempt(position)
    return Placed(count, _lacking(cycle), evicts=evicting is not None and bool(evicting.victims))


def _lacking(cycle: Cycle) -> str:
    """``4 Insufficient cpu, 1 Too many pods``: of the nodes that have nothing but requests against the pod."""
    verdicts = cycle.filter.verdicts
    if NodeResourcesFit.name not in verdicts or cycle.pre_filter.status.rejected:
        return ""
    near = verdicts[NodeResourcesFit.name].rejected & cycle.considered
    for name, verdict in verdicts.items():
        near = near if name == NodeResourcesFit.name else near & ~verdict.rejected
    counts = cycle.filter.reason_counts(near).most_common()
    return ", ".join(f"{nodes:,} {reason}" for reason, nodes in counts)
