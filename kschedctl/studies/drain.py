"""Nodes drained as ``kubectl drain`` does it: cordoned, their pods evicted as far as budgets allow, and placed anew.

Upstream: staging/src/k8s.io/kubectl/pkg/drain and pkg/registry/core/pod/storage/eviction.go (v1.36). An evicted pod's
successor counts as healthy as soon as it has a node. Pods of DaemonSets and static pods stay; pods that nobody makes
anew are lost, as with --force.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kschedctl.api.objects import Pod, PodDisruptionBudget
from kschedctl.cluster import Cluster
from kschedctl.reports.drain import BlockedPod, Drain, MovedPod
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation import UNSCHEDULABLE, Outcome, Simulation
from kschedctl.studies.edits import owner_of, returns, workload_of
from kschedctl.studies.nodes import cordoned
from kschedctl.studies.parallel import UNSEEN, Progress
from kschedctl.studies.placements import evictions, headroom, pending_groups
from kschedctl.studies.scene import left_out

STAYING = ("DaemonSet", "Node")


def drain(
    cluster: Cluster, nodes: Sequence[str], *, seed: int = 0, sampling: bool = False, progress: Progress = UNSEEN
) -> Drain:
    """What draining the nodes, one after the other, would do. Raises InputError, ConfigurationError."""
    simulation = Simulation(Scheduler(cordoned(cluster, nodes)), seed=seed, sampling=sampling)
    before = simulation.view.requested.copy()
    draining = Draining(simulation, nodes)
    draining.run(progress.begin("Draining", len(draining.evictable)))
    pods, names = simulation.view.pods.objects, simulation.view.nodes.names
    unplaced = [outcome for outcome in draining.outcomes.values() if outcome.row < 0]
    evicted = evictions(simulation, list(draining.outcomes.values()))
    blocked = tuple(draining.blocked())
    return Drain(
        nodes=tuple(nodes),
        seed=seed,
        drained=not blocked and not simulation.interrupted,
        safe=not (blocked or unplaced or evicted or simulation.interrupted),
        moved=tuple(
            MovedPod(pods[p].key, workload_of(pods[p]), pods[p].spec.node_name, names[o.row], o.tied)
            for p, o in draining.outcomes.items()
            if o.row >= 0
        ),
        unplaced=pending_groups(simulation, unplaced, {}),
        blocked=blocked,
        evicted=evicted,
        lost=tuple(pods[position].key for position in draining.lost),
        staying=draining.staying,
        headroom=headroom(simulation.view, before),
        not_replayed=left_out(simulation.scheduler),
        interrupted=simulation.interrupted,
    )


@dataclass
class Draining:
    """The eviction of what is on some nodes of a simulation in which they are cordoned. Pods are positions.

    ``outcomes``: what became of the successors of the pods that were evicted.
    """

    simulation: Simulation
    nodes: Sequence[str]
    evictable: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    staying: int = 0
    outcomes: dict[int, Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        view = self.simulation.view
        self._budgets = {_key(pdb): pdb for pdb in view.cluster.pod_disruption_budgets}
        for name in self.nodes:
            for position in view.pods_on(view.nodes.index[name]):
                if owner_of(view.pods.objects[position])[0] in STAYING:
                    self.staying += 1
                else:
                    self.evictable.append(position)

    def run(self, done: Callable[[int], None] = lambda number: None) -> None:
        """Evict what may be evicted and place it, again and again until nothing moves."""
        try:
            while self._evict_all(done) or self._place(self._waiting()):
                pass
        except KeyboardInterrupt:
            self.simulation.interrupted = True
        else:
            self.outcomes |= {outcome.position: outcome for outcome in self.simulation.run(self._waiting())}

    def _waiting(self) -> list[int]:
        return [position for position, outcome in self.outcomes.items() if outcome.row < 0]

    def _evict_all(self, done: Callable[[int], None]) -> bool:
        """Whether one of them could be evicted."""
        going = [position for position in list(self.evictable) if not self.refusal(position)]
        for position in going:
            if not self.refusal(position):
                self._evict(position)
                done(1)
        return bool(going)

    def blocked(self) -> list[BlockedPod]:
        """The pods that could not be evicted."""
        pods = self.simulation.view.pods.objects
        return [
            BlockedPod(
                pod=pods[position].key,
                workload=workload_of(pods[position]),
                node=pods[position].spec.node_name,
                why=self.refusal(position) or "interrupted",
                budgets=self.simulation.budgets.of(position),
            )
            for position in self.evictable
        ]

    def refusal(self, position: int) -> str:
        """Why the API server refuses to evict a pod, empty if it does not."""
        pod = self.simulation.view.pods.objects[position]
        if pod.metadata.deletion_timestamp is not None or pod.status.phase == "Pending":
            return ""
        budgets = self.simulation.budgets.of(position)
        if len(budgets) > 1:
            return "more than one PodDisruptionBudget selects it, which evictions do not support"
        if not budgets or (_not_ready(pod) and _evicts_unhealthy(self._budgets[budgets[0]])):
            return ""
        allowed = self.simulation.budgets.allowed(budgets[0])
        return "" if allowed else f"PodDisruptionBudget {budgets[0]} allows no disruption now"

    def _evict(self, position: int) -> None:
        """One pod goes; its successor passes the queue at once, so that budgets recover as soon as they can."""
        pod = self.simulation.view.pods.objects[position]
        self.evictable.remove(position)
        self.simulation.evict([position])
        if returns(pod):
            self.simulation.gone.remove(position)
            self._place([position])
        elif pod.metadata.deletion_timestamp is None:
            self.lost.append(position)

    def _place(self, positions: Sequence[int]) -> bool:
        """Whether one of them got a node."""
        moved = False
        for position in self.simulation.queue(positions):
            outcome = self.simulation.attempt(position) or Outcome(position, UNSCHEDULABLE)
            self.outcomes[position] = outcome
            if outcome.row >= 0:
                moved = True
                self.simulation.budgets.back([position])
        return moved


def _not_ready(pod: Pod) -> bool:
    return any(c.type == "Ready" and c.status != "True" for c in pod.status.conditions)


def _evicts_unhealthy(pdb: PodDisruptionBudget) -> bool:
    return pdb.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"


def _key(pdb: PodDisruptionBudget) -> str:
    return f"{pdb.metadata.namespace}/{pdb.metadata.name}"
