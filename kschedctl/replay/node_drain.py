"""The drain of cordoned nodes, whose pods are evicted and placed elsewhere unless a volume pins them to the nodes.

Evictions run in parallel, controllers recreate pods in any order, and a Job waits at least ten seconds before it
recreates one. Upstream: pkg/controller/job/backoff_utils.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_controller, find_owner
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated_taint
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.eviction import Evictions
from kschedctl.replay.eviction_harms import KINDS_NOT_EVICTED, list_pods_with_local_data
from kschedctl.replay.kubectl import render_command
from kschedctl.replay.parallel import compute_spreads
from kschedctl.replay.settling import recreate_gone_pods, remove_pods_of_failed_jobs
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import BlockedPod, MovedPod, Spread, UnplacedPods
from kschedctl.scheduler.engine.cycle import Cycle, mask_allowed_nodes
from kschedctl.scheduler.engine.diagnosis import run_post_filter
from kschedctl.scheduler.framework import can_more_pods_help, looks_at_cordons
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation


def iter_moved_pods(drain: NodeDrain) -> Iterator[MovedPod]:
    """Yield the evicted pods that now have another node."""
    pods, names = drain.simulation.view.pods.objects, drain.simulation.view.nodes.names
    returned = set(drain.find_returned_pods())
    for position, outcome in drain.outcomes.items():
        if outcome.is_placed and position not in returned:
            pod = pods[position]
            yield MovedPod(
                pod.key,
                workload=str(find_owner(pod)),
                source=pod.spec.node_name,
                target=names[outcome.row],
                tied=outcome.tied,
            )


@dataclass
class NodeDrain:
    """A drain of nodes that are already cordoned in the simulation. Pods are positions."""

    simulation: Simulation
    nodes: Sequence[str]
    """Names of the drained nodes."""
    random: Random | None = None
    """Decides the order of evictions and returns if they go on side by side; without it pods go one by one."""
    admissions: Admissions | None = None
    """Admission of successors; None to admit all."""
    denied: dict[Position, Sequence[str]] = field(default_factory=dict)
    """Pods whose successors are denied, and the messages."""
    evictable: dict[Position, None] = field(default_factory=dict)
    """Pods that are still to be evicted."""
    lost: list[Position] = field(default_factory=list)
    """Evicted pods that no controller recreates."""
    staying_count: int = 0
    """The number of DaemonSet and static pods that stay."""
    evictions_by_node: Counter[str] = field(default_factory=Counter)
    """The number of evicted pods by node, apart from pods that were being deleted anyway."""
    outcomes: dict[Position, Outcome] = field(default_factory=dict)
    """Outcomes of the successors, also of pods that preemption displaced."""
    preemptions: list[Outcome] = field(default_factory=list)
    """Outcomes of successors that preempted other pods."""
    delayed: dict[Position, str] = field(default_factory=dict)
    """Pods whose eviction was denied at first -> the reason."""
    evictions: Evictions | None = None
    """The budgets, if the caller has them already."""

    def __post_init__(self) -> None:
        """Divide the pods on the drained nodes into pods to evict and pods that stay."""
        view = self.simulation.view
        self._evictions = self.evictions or Evictions(self.simulation)
        for name in self.nodes:
            for position in view.pods_on(view.nodes.index[name]):
                if find_owner(view.pods.objects[position]).kind in KINDS_NOT_EVICTED:
                    self.staying_count += 1
                else:
                    self.evictable[position] = None

    @property
    def dependencies(self) -> tuple[Dependency, ...]:
        """The dependency on PodDisruptionBudgets, or () if there is nothing to evict."""
        has_evictions = self.evictable or self.outcomes or self.lost
        return (Dependency("PodDisruptionBudget", Effect.EITHER),) if has_evictions else ()

    def run(self, on_evicted: Callable[[int], None] = lambda number: None) -> None:
        """Evict pods and place their successors until neither is possible, then run the queue once.

        ``on_evicted`` is called with 1 for each evicted pod. An interrupt is recorded in the simulation.
        """
        try:
            while self._evict_allowed_pods(on_evicted) or self._place_pods(self._find_waiting_pods()):
                pass
        except KeyboardInterrupt:
            self.simulation.interrupted = True
        else:
            self._run_queue()

    def _run_queue(self) -> None:
        """Let the pods that still wait pass the scheduling queue."""
        self.outcomes |= {outcome.position: outcome for outcome in self.simulation.run(self._find_waiting_pods())}

    def _find_waiting_pods(self) -> list[Position]:
        """Return the evicted pods without a node."""
        return [position for position, outcome in self.outcomes.items() if not outcome.is_placed]

    def _evict_allowed_pods(self, on_evicted: Callable[[int], None]) -> bool:
        """Evict all pods whose budgets allow it, and place their successors. Return whether any pod was evicted.

        The first denial of every pod that stays is recorded in `self.delayed`. In a run in random order, successors are
        placed after all evictions. Otherwise, each successor is placed right after the eviction of its predecessor.
        """
        count_before = len(self.evictable)
        unplaced_successors = list[Position]()
        for position in self._order_pods(self.evictable):
            # Placing a successor may have preempted the pod
            if position not in self.evictable:
                continue
            if denial := self._evictions.find_denial(position):
                self.delayed.setdefault(position, denial)
                continue
            successors = self._evict_pod(position)
            if self.random is None:  # place them at once, so that budgets recover early
                self._place_pods(successors)
            else:
                unplaced_successors += successors
            on_evicted(1)
        if unplaced_successors:
            self._place_pods(unplaced_successors)
        return len(self.evictable) < count_before

    def _order_pods(self, positions: Iterable[Position]) -> list[Position]:
        """Return the pods in the given order or, if the drain is random, in a random order."""
        if self.random is None:
            return list(positions)
        return shuffle_returning_pods(self.simulation, positions, self.random)

    def report_blocked_pods(self) -> list[BlockedPod]:
        """Return the pods whose eviction is denied, each with the reason."""
        blocked = []
        for position in self.evictable:
            if reason := self._evictions.find_denial(position):
                blocked.append(self._report_denied_eviction(position, reason))
        return blocked

    def report_delayed_pods(self) -> list[BlockedPod]:
        """Report the pods that were evicted at last but whose eviction was denied at first, with the first reason."""
        evicted = self.outcomes.keys() | self.denied.keys() | set(self.lost)
        return [
            self._report_denied_eviction(position, reason)
            for position, reason in self.delayed.items()
            if position in evicted
        ]

    def _report_denied_eviction(self, position: Position, reason: str) -> BlockedPod:
        """Build the report on a pod whose eviction is denied for this reason."""
        pod = self.simulation.view.pods.objects[position]
        return BlockedPod(
            pod=pod.key,
            workload=str(find_owner(pod)),
            node=pod.spec.node_name,
            why=reason,
            budgets=self._evictions.find_budgets(position),
            unhealthy=self._evictions.find_unhealthy_pods(position),
        )

    def find_returned_pods(self) -> list[Position]:
        """Return the evicted pods whose successors are on a drained node again, since they tolerate the cordon."""
        drained_rows = {self.simulation.view.nodes.index[name] for name in self.nodes}
        return [position for position, outcome in self.outcomes.items() if outcome.row in drained_rows]

    def _evict_pod(self, position: Position) -> list[Position]:
        """Evict one pod, and return its successor in a list. The list is empty if there is no successor.

        A pod that nothing recreates is recorded as lost, unless it was terminating already. If its Job fails, all other
        pods of the Job are recorded as lost as well.
        """
        pod = self.simulation.view.pods.objects[position]
        is_terminating = pod.metadata.deletion_timestamp is not None
        del self.evictable[position]
        if not is_terminating:
            self.evictions_by_node[pod.spec.node_name] += 1
        self._evictions.evict(position)
        successors = self._recreate_admitted_pods([position])
        if not successors and position not in self.denied and not is_terminating:
            self.lost.append(position)
            self._end_failed_jobs()
        return successors

    def _end_failed_jobs(self) -> None:
        """Remove the pods of Jobs that failed because of evictions, and record them as lost."""
        for position in remove_pods_of_failed_jobs(self.simulation):
            self.evictable.pop(position, None)
            self.outcomes.pop(position, None)
            self.lost.append(position)

    def _recreate_admitted_pods(self, positions: Iterable[Position]) -> list[Position]:
        """Recreate pods as controllers do, and return the admitted ones.

        A pod whose replacement is denied is recorded as denied with the messages, stays gone, and loses its outcome. If
        admission is not replayed, all pods are admitted.
        """
        admitted = []
        for position in recreate_gone_pods(self.simulation, positions):
            pod = self.simulation.view.pods.objects[position]
            denials = list(self.admissions.replay_replacements([pod])) if self.admissions else []
            if not denials:
                admitted.append(position)
                continue
            [(_denied_pod, messages)] = denials
            self.simulation.gone.add(position)
            self.denied[position] = messages
            self.outcomes.pop(position, None)
        return admitted

    def report_workloads_lacking_pods(self) -> list[NotCreated]:
        """Report the workloads that lack pods because successors are denied. Return [] if admission is not replayed."""
        if self.admissions is None:
            return []
        pods = self.simulation.view.pods.objects
        recreated = [pods[position] for position in self.outcomes]
        denied = [(pods[position], messages) for position, messages in self.denied.items()]
        return self.admissions.report_denied_replacements(recreated, denied)

    def _place_pods(self, positions: Sequence[Position]) -> bool:
        """Try to place the pods in the order of the queue, and return whether any got a node.

        All outcomes are recorded. If a pod gets a node, the budgets of its predecessor recover, and the pods that it
        preempted are recorded.
        """
        is_any_placed = False
        remaining = [position for position in positions if position not in self.simulation.gone]
        for position in self.simulation.sort_for_queue(self._order_pods(remaining)):
            outcome = self._try_to_place(position)
            self.outcomes[position] = outcome
            if outcome.is_placed:
                is_any_placed = True
                self._evictions.record_recovery(position)
                self._record_preemption(outcome)
        return is_any_placed

    def _try_to_place(self, position: Position) -> Outcome:
        """Try to place one pod, and return the outcome. The outcome is Unschedulable if the pod fits nowhere."""
        return self.simulation.attempt_pod(position) or Outcome(position, UNSCHEDULABLE)

    def _record_preemption(self, outcome: Outcome) -> None:
        """Record the pods that a successor preempted, if any. If they are recreated, they wait for another node.

        The victims count against their budgets and are no longer evicted by the drain.
        """
        if not outcome.victims:
            return
        self.preemptions.append(outcome)
        self._evictions.change_allowed_disruptions(outcome.victims, by=-1)
        for victim in outcome.victims:
            self.evictable.pop(victim, None)
        for victim in self._recreate_admitted_pods(outcome.victims):
            self.outcomes[victim] = Outcome(victim, UNSCHEDULABLE)
        self._end_failed_jobs()


def shuffle_returning_pods(simulation: Simulation, positions: Iterable[Position], random: Random) -> list[Position]:
    """Return the pods in a random order in which controllers may recreate them.

    Pods of Jobs come last, because a Job waits for some time before it recreates a pod.
    """
    pods = simulation.view.pods.objects
    order = list(positions)
    random.shuffle(order)
    return sorted(order, key=lambda position: find_owner(pods[position]).kind == "Job")


def compute_unplaced_spreads(unplaced_by_run: Sequence[Iterable[UnplacedPods]]) -> dict[str, Spread]:
    """Return, by workload, the lowest and highest number of pods without a node over all runs.

    Return {} for a single run.
    """
    counts_by_run = []
    for groups in unplaced_by_run:
        counts: Counter[str] = Counter()
        for group in groups:
            counts[group.workload] += len(group.pods)
        counts_by_run.append(counts)
    return compute_spreads(counts_by_run)


def count_always_unplaced_pods(simulation: Simulation, outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Count, by workload, the unplaced pods that fit nowhere even if no other pod comes back.

    In the simulation, all pods have left their nodes and none is placed yet. Pods that come back only take room away,
    unless a plugin such as PodTopologySpread counts them. Rejections by such a plugin therefore prove nothing.
    """
    pods = simulation.view.pods
    unplaced = Counter[str]()
    rejected_by_info: dict[int, bool] = {}
    for outcome in outcomes:
        position = outcome.position
        if outcome.is_placed or simulation.view.has_node(position):
            continue
        info_code = int(pods.info[position])  # equal for pods that look the same to the scheduler
        if info_code not in rejected_by_info:
            rejected_by_info[info_code] = _is_always_rejected(simulation.run_cycle(position))
        if rejected_by_info[info_code]:
            unplaced[str(find_owner(pods.objects[position]))] += 1
    return dict(unplaced)


def _is_always_rejected(cycle: Cycle) -> bool:
    """Return whether every node is rejected by a plugin whose rejection additional pods cannot lift.

    Return False if the pod could preempt others, is gated, or its cycle ends with an error.
    """
    if cycle.gated or cycle.error is not None or cycle.schedulable or run_post_filter(cycle).nominated_node:
        return False
    filters = cycle.framework.plugins_at("filter")
    satisfiable_by_pods = {plugin.name for plugin in filters if can_more_pods_help(plugin, cycle.info)}
    if cycle.pre_filter.status.rejected:
        return cycle.pre_filter.plugin not in satisfiable_by_pods
    rejected = ~mask_allowed_nodes(cycle.pre_filter, cycle.view)
    for name, verdict in cycle.filter.verdicts.items():
        if name not in satisfiable_by_pods:
            rejected |= verdict.rejected
    return bool(rejected.all())


def merge_proven_unplaced_counts(runs: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the highest count of each workload over all runs.

    If one run proves that pods fit nowhere, this holds for all runs.
    """
    highest: dict[str, int] = {}
    for run in runs:
        for workload, count in run.items():
            highest[workload] = max(count, highest.get(workload, 0))
    return highest


def render_drain(nodes: Sequence[str], pods: Iterable[Pod]) -> str:
    """Return the command that drains the nodes, with only the options without which kubectl would refuse.

    `pods` are all pods on the nodes, including those that are terminating already.

    Upstream: staging/src/k8s.io/kubectl/pkg/drain/filters.go (v1.36).
    """
    kinds_and_pods = [(find_owner(pod).kind, pod) for pod in pods]
    leaving_pods = [pod for kind, pod in kinds_and_pods if kind not in KINDS_NOT_EVICTED]
    options = []
    if any(kind == "DaemonSet" for kind, _ in kinds_and_pods):
        options.append("--ignore-daemonsets")
    if list_pods_with_local_data(leaving_pods):
        options.append("--delete-emptydir-data")
    if any(find_controller(pod.metadata) is None for pod in leaving_pods):
        options.append("--force")
    return render_command("drain", *nodes, *options)


class PodHomes(NamedTuple):
    """The nodes where a pending pod can run, even if room is missing there now."""

    pod: str
    """The pod (`namespace/name`)."""
    open: Bools
    """The nodes that take the pod as soon as there is room, shape (N,)."""
    cordoned: Bools
    """The nodes that only their cordon closes to the pod, shape (N,)."""

    def are_lost_without(self, removed: Bools) -> bool:
        """Return whether the pod can run nowhere once the nodes in the mask `removed` (N,) are gone.

        Return False if it could not run on any of them either. A cordoned node that remains is of no use to the pod.
        """
        return bool((self.open | self.cordoned)[removed].any()) and not self.open[~removed].any()


def iter_pod_homes(simulation: Simulation, positions: Iterable[Position]) -> Iterator[PodHomes]:
    """Yield, for each pending pod at these positions, the nodes where it can run as soon as there is room.

    Pods of DaemonSets are left out, as well as pods that no filter looks at because they are gated, wait for a claim,
    or have another scheduler.
    """
    # Pods with the same spec share a PodInfo, and so the answer
    homes_by_kind: dict[tuple[int, str], PodHomes | None] = {}
    view = simulation.view
    for position in positions:
        pod = view.pods.objects[position]
        if find_owner(pod).kind == "DaemonSet":
            continue
        kind = int(view.pods.info[position]), pod.spec.scheduler_name
        if kind not in homes_by_kind:
            homes_by_kind[kind] = _find_pod_homes(simulation, position, pod)
        homes = homes_by_kind[kind]
        if homes is not None:
            yield homes._replace(pod=pod.key)


def _find_pod_homes(simulation: Simulation, position: Position, pod: Pod) -> PodHomes | None:
    """Return the nodes that could run the pod if they had room, and those that are closed to it only by a cordon.

    Return None if no filter runs for the pod: no profile serves it, it is gated, PreFilter rejects it, or the cycle
    fails.
    """
    if simulation.find_framework(position) is None:
        return None
    cycle = simulation.run_cycle(position)
    if cycle.error is not None or cycle.gated or cycle.pre_filter.status.rejected:
        return None
    is_open = cycle.considered & ~cycle.filter.unresolvable

    # Cordoned nodes that no filter rejects for another reason than the cordon
    only_cordon_closes = cycle.considered & cycle.filter.unresolvable & simulation.view.nodes.unschedulable
    for plugin in cycle.framework.plugins_at("filter"):
        verdict = cycle.filter.verdicts.get(plugin.name)
        if verdict is not None and not looks_at_cordons(plugin):
            only_cordon_closes &= ~verdict.unresolvable
    for row in np.flatnonzero(only_cordon_closes).tolist():
        only_cordon_closes[row] = _tolerates_other_taints(simulation, pod, row)
    return PodHomes(pod.key, open=is_open, cordoned=only_cordon_closes)


def _tolerates_other_taints(simulation: Simulation, pod: Pod, row: int) -> bool:
    """Return whether the pod tolerates all taints of the node at `row` except the one of the cordon."""
    taints = [taint for taint in simulation.view.nodes.objects[row].spec.taints if taint.key != UNSCHEDULABLE_TAINT.key]
    return find_untolerated_taint(taints, pod.spec.tolerations, HARD_EFFECTS) is None
