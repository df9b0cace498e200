"""Replays of all pods of a cluster on a set of nodes.

Preemption is off: if all pods get a node none of them would preempt, and otherwise more nodes are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Position, Row
from kschedctl.api.copying import replace
from kschedctl.api.node_pools import find_node_pool_name
from kschedctl.api.objects import CSINode, Node, Pod
from kschedctl.autoscaling.karpenter.labels import INSTANCE_TYPE
from kschedctl.cluster import Cluster
from kschedctl.commands.size.program import Counts
from kschedctl.commands.size.shapes import NodeShape
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.replay.parallel import report_parts
from kschedctl.replay.pools import Pools, PoolState, compute_pool_states
from kschedctl.replay.settling import find_pods_still_pending, get_waiting_outcomes
from kschedctl.replay.unknown import find_simulation_unknowns
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork

FrozenCounts = tuple[tuple[str, int], ...]
"""The hashable form of a set."""
Replay = tuple[Simulation, list[Outcome]]
"""The simulation of a set and the outcomes in order."""
WaitingPods = dict[str, tuple[str, ...]]
"""The pods without a node, each with the shapes of which one more node would take it now."""


@dataclass(eq=False)
class NodeSets:
    """Replays of node sets for one cluster, which are cached."""

    cluster: Cluster
    """The cluster without nodes, with all pods to place."""
    shapes: Mapping[str, NodeShape]
    zone_loss: bool = False
    """True if sets are also replayed after the loss of each zone."""
    unknown: Sequence[UnknownKind] = ()
    """Unread kinds that the latest replay depends on."""
    replay_count: int = 0
    """The replays since `reset_replay_count`, where cached replays count as well, so that all processes count alike."""
    _counted: set[FrozenCounts] = field(default_factory=set)
    """The sets that are counted in `replay_count`."""
    _replayed: dict[FrozenCounts, WaitingPods] = field(default_factory=dict)
    _pools: dict[FrozenCounts, dict[str, PoolState]] = field(default_factory=dict)
    _latest: tuple[tuple[FrozenCounts, str], Replay] | None = None

    def __post_init__(self) -> None:
        # The zones of shapes for which there are parts that are limited to one zone.
        self._zones_with_part = {
            (shape.base_name, zone) for shape in self.shapes.values() if shape.base_name for zone in shape.zones
        }

    def build_cluster(self, counts: Counts, lost_zone: str = "", cluster: Cluster | None = None) -> Cluster:
        """Build the cluster with the nodes of a set and their daemon pods, and with all pods to place.

        Nodes in `lost_zone` are left out, unless it is empty. If `cluster` is given, its pods are placed instead.
        """
        nodes: list[Node] = []
        csi_nodes: list[CSINode] = []
        daemon_pods: list[Pod] = []
        lost_nodes: set[str] = set()
        for name, number in counts.items():
            shape = self.shapes[name]
            nodes += shape.iter_nodes(number)
            csi_nodes += shape.iter_csi_nodes(number)
            daemon_pods += shape.iter_daemon_pods(number)
            if lost_zone:
                lost_indexes = (index for index in range(number) if shape.get_zone(index) == lost_zone)
                lost_nodes.update(map(shape.get_node_name, lost_indexes))
        nodes = [node for node in nodes if node.metadata.name not in lost_nodes]
        daemon_pods = [pod for pod in daemon_pods if pod.spec.node_name not in lost_nodes]
        changed = replace(cluster or self.cluster, nodes=tuple(nodes), csi_nodes=tuple(csi_nodes))
        return add_or_replace_pods(changed, daemon_pods)

    def reset_replay_count(self) -> None:
        """Start to count the replays of another search."""
        self.replay_count = 0
        self._counted = set()

    def _count_replays(self, counts: Counts) -> None:
        """Add the replays of a set to `replay_count`, unless the set was counted already."""
        frozen_counts = freeze_counts(counts)
        if frozen_counts not in self._counted:
            self._counted.add(frozen_counts)
            self.replay_count += len(self._list_zone_loss_scenarios(counts))

    def find_pods_without_node(self, counts: Counts) -> WaitingPods:
        """Return the pods that get no node in this set, or would get none after the loss of one zone.

        Zones are lost only if the sets have to survive this. Each pod is returned with its takers, which are the shapes
        that would take the pod if the set had one more empty node. Results are cached. Raises KeyboardInterrupt if the
        user interrupts a replay.
        """
        self._count_replays(counts)
        frozen_counts = freeze_counts(counts)
        if frozen_counts not in self._replayed:
            waiting: WaitingPods = {}
            for zone in self._list_zone_loss_scenarios(counts):
                simulation, positions = self._replay_and_record(counts, zone)
                for pod_key, takers in self._iter_takers(simulation, positions, counts, zone):
                    takers_after_other_losses = waiting.get(pod_key, ())
                    waiting[pod_key] = tuple(dict.fromkeys((*takers_after_other_losses, *takers)))
            self._replayed[frozen_counts] = waiting
        return self._replayed[frozen_counts]

    def iter_replayed_sets(self) -> Iterator[tuple[Counts, WaitingPods]]:
        """Yield the sets replayed so far with their waiting pods."""
        for frozen_counts, waiting in self._replayed.items():
            yield dict(frozen_counts), waiting

    def get_pool_states(self, counts: Counts, *, replay_if_needed: bool) -> dict[str, PoolState]:
        """Return the state of each pool of a set with all pods placed.

        If this process has not replayed the set yet, the set is replayed now if `replay_if_needed` is true, and
        otherwise the result is empty. Raises KeyboardInterrupt if the user interrupts.
        """
        if freeze_counts(counts) not in self._pools and replay_if_needed:
            self._replay_and_record(counts, lost_zone="")
        return self._pools.get(freeze_counts(counts), {})

    def takes_all(self, counts: Counts, homeless: Set[str]) -> bool:
        """Return whether all pods except the `homeless` get a node of the set.

        If the sets have to survive the loss of a zone, the pods must also get a node after the loss of each zone.
        Unlike in `find_pods_without_node`, the first failing replay ends the check, and results are not cached. Raises
        KeyboardInterrupt if the user interrupts.
        """
        waiting = self._replayed.get(freeze_counts(counts))
        if waiting is not None:
            return waiting.keys() <= homeless
        for zone in self._list_zone_loss_scenarios(counts):
            simulation, positions = self._replay_and_record(counts, zone)
            if any(simulation.view.pods.objects[position].key not in homeless for position in positions):
                return False
        return True

    def replay_with_outcomes(
        self, counts: Counts
    ) -> tuple[Simulation, list[Outcome], dict[str, npt.NDArray[np.int64]]]:
        """Replay a set, and return the simulation, the outcomes in order, and the rows of the nodes of each used shape.

        Raises KeyboardInterrupt if the user interrupts.
        """
        self._count_replays(counts)
        simulation, outcomes = self._schedule_on_nodes(counts, lost_zone="")
        index = simulation.view.nodes.index
        rows = {
            name: np.array([index[node] for node in map(self.shapes[name].get_node_name, range(number))], np.int64)
            for name, number in counts.items()
            if number
        }
        return simulation, outcomes, rows

    def _replay_and_record(self, counts: Counts, lost_zone: str) -> tuple[Simulation, list[Position]]:
        """Replay all pods on a set's nodes, and return the simulation with the positions of the pods still waiting.

        The set's nodes in `lost_zone` are missing from the replay, unless `lost_zone` is empty. Also records the unread
        kinds that the replay depends on and, if no zone is lost, the state of the pools.
        """
        simulation, outcomes = self._schedule_on_nodes(counts, lost_zone)
        self.unknown = find_simulation_unknowns(simulation)
        if not lost_zone:
            self._pools[freeze_counts(counts)] = compute_pools(simulation.view)
        return simulation, [outcome.position for outcome in get_waiting_outcomes(simulation, outcomes)]

    def _schedule_on_nodes(self, counts: Counts, lost_zone: str) -> Replay:
        """Schedule all pods on the nodes of a set, leaving out the nodes in `lost_zone` unless it is "".

        Only the latest replay is cached. Raises KeyboardInterrupt if the user interrupts.
        """
        key = (freeze_counts(counts), lost_zone)
        if self._latest is not None:
            latest_key, latest_replay = self._latest
            if latest_key == key:
                return latest_replay
        replay = _schedule_all_pods(self.build_cluster(counts, lost_zone))
        self._latest = (key, replay)
        return replay

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_latest": None}  # large, and no other process needs it

    def _iter_takers(
        self, simulation: Simulation, waiting: Sequence[Position], counts: Counts, lost_zone: str
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the key of each waiting pod with its takers, which are names of shapes.

        A shape takes the pod if the pod fits once the set has one more empty node of the shape. That node may be in any
        zone except the lost one. A pod without takers gets (). If the set has no nodes yet, each pod gets all shapes.
        """
        if not waiting:
            return
        view = simulation.view
        next_nodes = list(self._iter_candidate_nodes(counts, lost_zone))
        shape_names = [name for name, _ in next_nodes]
        if not len(view.nodes):
            all_shapes = tuple(dict.fromkeys(shape_names))
            for position in waiting:
                yield view.pods.objects[position].key, all_shapes
            return

        # Run the cycle of each distinct pod with the next nodes added after the existing ones.
        view_with_next_nodes = view.with_changes(view.cluster, added=[(Row(0), node) for _, node in next_nodes])
        trial = Simulation(simulation.scheduler, view_with_next_nodes, preemption=False)
        first_next_row = len(view.nodes)
        takers_by_info: dict[int, tuple[str, ...]] = {}
        for position in waiting:
            number = int(view.pods.info[position])
            if number not in takers_by_info:
                feasible_rows = _find_feasible_rows(trial, position)
                takers = [shape_names[row - first_next_row] for row in feasible_rows if row >= first_next_row]
                takers_by_info[number] = tuple(dict.fromkeys(takers))
            yield view.pods.objects[position].key, takers_by_info[number]

    def _iter_candidate_nodes(self, counts: Counts, lost_zone: str) -> Iterator[tuple[str, Node]]:
        """Yield the next node of each shape after the nodes of the set, once for each of the shape's zones.

        Each node comes with the name of its shape, and the lost zone is left out. A shape may be split into parts that
        are limited to a zone. Such a part yields the node of its zone. The shape then leaves out that zone, unless the
        zone is the next one in its order.
        """
        for name, shape in self.shapes.items():
            number = counts.get(name, 0)
            nodes = islice(shape.iter_nodes(number + len(shape.zones)), number, None)
            for index, node in enumerate(nodes, number):
                zone = shape.get_zone(index)
                is_next = index == number  # only the very next node stays with the shape in any case
                has_part_for_zone = not is_next and (name, zone) in self._zones_with_part
                is_lost = bool(lost_zone) and zone == lost_zone
                if not has_part_for_zone and not is_lost:
                    yield name, node

    def explain_waiting_pods(self, counts: Counts, keys: Iterable[str]) -> dict[str, str]:
        """Return kube-scheduler's message for each of these pods that gets no node of the set, by pod key.

        If a pod only waits after the loss of a zone, its message names the first such zone.
        """
        messages: dict[str, str] = {}
        for zone in self._list_zone_loss_scenarios(counts):
            prefix = f"after the loss of zone {zone}: " if zone else ""
            for key, message in _collect_messages(*self._schedule_on_nodes(counts, zone)).items():
                messages.setdefault(key, f"{prefix}{message}")
        return {key: messages[key] for key in keys if key in messages}

    def _list_zone_loss_scenarios(self, counts: Counts) -> list[str]:
        """Return the zones whose loss is replayed, starting with "" for no loss.

        Without the requirement to survive zone losses, only "" is returned.
        """
        if not self.zone_loss:
            return [""]
        used_shapes = [self.shapes[name] for name, number in counts.items() if number]
        return ["", *sorted({zone for shape in used_shapes for zone in shape.zones if zone})]


def compute_pools(view: Fork) -> dict[str, PoolState]:
    """Return the state of each node pool, by name. Nodes without a pool label are grouped by instance type."""

    def get_pool_name(node: Node) -> str:
        """Return the node's pool, or its instance type if no label names the pool."""
        return find_node_pool_name(node) or node.metadata.labels.get(INSTANCE_TYPE, "")

    return compute_pool_states(view, Pools.from_view(view, get_pool_name))


def freeze_counts(counts: Counts) -> FrozenCounts:
    """Return a hashable form of a set that is equal for equal sets, whatever their order and shapes without nodes."""
    return tuple(sorted((name, number) for name, number in counts.items() if number))


def _schedule_all_pods(cluster: Cluster) -> Replay:
    """Schedule all pending pods in the queue's order, without preemption, and return the replay.

    Every placed pod counts as progress of the running task. Raises KeyboardInterrupt if the user interrupts.
    """
    simulation = Simulation(Scheduler(cluster))
    simulation.preemption = False
    outcomes = simulation.schedule_or_raise_interrupt(find_pods_still_pending(simulation), report_parts)
    return simulation, outcomes


def explain_unplaced_pods(cluster: Cluster) -> dict[str, str]:
    """Schedule all pending pods of the cluster, and map those without a node to kube-scheduler's message."""
    return _collect_messages(*_schedule_all_pods(cluster))


def _collect_messages(simulation: Simulation, outcomes: list[Outcome]) -> dict[str, str]:
    """Map each pod that still waits to kube-scheduler's message or, without one, to the verdict."""
    pods = simulation.view.pods.objects
    waiting = get_waiting_outcomes(simulation, simulation.explain(outcomes))
    return {pods[outcome.position].key: outcome.message or outcome.verdict for outcome in waiting}


def _find_feasible_rows(simulation: Simulation, position: Position) -> list[int]:
    """Return the rows of the nodes on which a pod fits. There are none for a gated pod or without a profile."""
    if simulation.find_framework(position) is None:
        return []
    cycle = simulation.run_cycle(position)
    return cycle.passed.rows.tolist() if cycle.schedulable and not cycle.gated else []
