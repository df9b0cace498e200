"""The dry run of preemption on all nodes at once: which pods would have to go, node by node, and which node is best.

Upstream: pkg/scheduler/framework/plugins/defaultpreemption and pkg/scheduler/framework/preemption (v1.36). Upstream
clones a node, removes its lower-priority pods and puts them back one by one; here step k puts back the k-th victim
of every node, and one vectorised pass over the plugins judges them all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kschedctl.api.labels import SelectorError, from_label_selector
from kschedctl.api.objects import Pod, PodDisruptionBudget
from kschedctl.api.times import nanoseconds
from kschedctl.scheduler.cycle import Cycle, Filtering, FilterOutcome
from kschedctl.scheduler.framework import Bools
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.snapshot import Snapshot

Positions = npt.NDArray[np.int64]

PRIORITY_OFFSET = 2**31
"""Added to each priority before summing, so that many pods of negative priority do not look cheap."""


@dataclass(frozen=True)
class Candidate:
    """A node where evicting ``victims``, the most important first, makes room; ``violating`` break a budget by it.

    Pods are positions into view.pods.
    """

    row: int
    victims: tuple[int, ...]
    violating: frozenset[int]

    @property
    def pdb_violations(self) -> int:
        return len(self.violating)


@dataclass(frozen=True)
class DryRun:
    """What the dry run found: candidates in node order, and why the other rows that were tried do not help.

    ``empty`` (N,): no pod there has a lower priority. ``hopeless`` (N,): refused even without those pods, as
    ``without`` says.
    """

    candidates: tuple[Candidate, ...]
    empty: Bools
    hopeless: Bools
    without: FilterOutcome

    def reason_counts(self) -> Counter[str]:
        """How many nodes preemption does not help, by reason; the nodes that were not tried share one."""
        counts = self.without.reason_counts(self.hopeless)
        counts[NO_VICTIMS] += int(self.empty.sum())
        counts[NOT_HELPFUL] += int((~self.empty & ~self.hopeless).sum()) - len(self.candidates)
        return +counts


NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"


def dry_run(cycle: Cycle, potential: Bools) -> DryRun:
    """Try to make room on each of the nodes (N,). Raises PluginError."""
    victims = _Victims.of(cycle, potential)
    occupied = np.zeros(len(potential), np.bool_)
    occupied[victims.node] = True
    filtering = Filtering.of(cycle.framework, cycle.pre_filter, cycle.info, cycle.view)
    without = filtering.judge(victims.delta(), cycle.filter.verdicts)
    promising = potential & occupied & without.passing
    victims = victims.on(promising)
    for step in range(int(victims.rank.max(initial=-1)) + 1):
        back = np.flatnonzero(victims.rank == step)
        victims.put_back(back)
        refused = ~filtering.judge(victims.delta(), cycle.filter.verdicts).passing
        victims.remove(back[refused[victims.node[back]]])
    found = victims.candidates(np.flatnonzero(promising))
    return DryRun(found, potential & ~occupied, potential & occupied & ~without.passing, without)


class _Victims:
    """The V pods that could be evicted. Per victim: ``pod`` position, ``node`` row, ``rank`` in which it is put back.

    Sorted by node. ``removed`` and ``time`` are the state of the dry run: who is gone now, and when each last came or
    went. ``holds_port``: a host port that the incoming pod wants.
    """

    def __init__(self, view: Snapshot, pod: Positions, violating: Bools, holds_port: Bools) -> None:
        self.view, self.pod, self.violating, self.holds_port = view, pod, violating, holds_port
        self.node = view.pods.node[pod]
        self.info = view.pods.info[pod]
        self.rank = _turn(self.node)
        self.removed = np.ones(len(pod), np.bool_)
        self.time = np.arange(len(pod))

    @classmethod
    def of(cls, cycle: Cycle, nodes: Bools) -> _Victims:
        """The pods of lower priority on the nodes: those that violate a PDB before others, each group by importance."""
        view = cycle.view
        pods = view.pods
        lower = pods.priority[pods.info] < cycle.info.priority
        pod = _by_importance(view, np.flatnonzero(lower & (pods.node >= 0) & nodes[pods.node]))
        violating = pdb_violations(view, pod)
        turn = np.lexsort((~violating, pods.node[pod]))
        pod, violating = pod[turn], violating[turn]
        return cls(view, pod, violating, _holders(cycle)[pods.info[pod]])

    def on(self, nodes: Bools) -> _Victims:
        """Those on the nodes (N,) alone, all of them gone."""
        here = nodes[self.node]
        return _Victims(self.view, self.pod[here], self.violating[here], self.holds_port[here])

    def put_back(self, which: Positions) -> None:
        self.removed[which] = False
        self._touch(which)

    def remove(self, which: Positions) -> None:
        self.removed[which] = True
        self._touch(which)

    def delta(self) -> Delta:
        """The pods that are gone, and in the order in which it happened all that became of the ports."""
        gone = np.flatnonzero(self.removed & ~self.holds_port)
        ports = np.flatnonzero(self.holds_port)
        ports = ports[np.argsort(self.time[ports])]
        back = ports[~self.removed[ports]]
        which = np.concatenate((gone, back, ports))
        sign = np.full(len(which), -1, np.int64)
        sign[len(gone) + len(back) :][~self.removed[ports]] = 1
        return Delta.of(self.node[which], self.info[which], sign)

    def candidates(self, rows: Positions) -> tuple[Candidate, ...]:
        """What is left to evict on each of the nodes, the most important first."""
        nodes = len(self.view.nodes)
        violating = np.bincount(self.node, self.violating, nodes)
        mixed = (violating > 0) & (violating < np.bincount(self.node, minlength=nodes))
        anew = np.flatnonzero(self.removed & mixed[self.node])
        pod = self.pod.copy()
        pod[anew] = _by_importance(self.view, pod[anew])
        breaking = frozenset(self.pod[self.removed & self.violating].tolist())
        victims = pod[self.removed].tolist()
        node = self.node[self.removed]
        starts, ends = np.searchsorted(node, rows), np.searchsorted(node, rows, side="right")
        return tuple(
            Candidate(row, tuple(mine := victims[start:end]), breaking.intersection(mine))
            for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True)
        )

    def _touch(self, which: Positions) -> None:
        self.time[which] = self.time.max() + 1 + np.arange(len(which))


def _turn(node: npt.NDArray[np.int32]) -> Positions:
    """For sorted rows: how many of the same row come before each."""
    return np.arange(len(node)) - np.searchsorted(node, node)


def _holders(cycle: Cycle) -> Bools:
    """(T,): the pods that hold a host port which the cycle's pod wants."""
    wanted = cycle.info.host_ports
    return cycle.view.pods.where(lambda info: any(p.conflicts(mine) for p in info.host_ports for mine in wanted))


def _by_importance(view: Snapshot, pods: Positions) -> Positions:
    """Within each node: higher priority first, then the longer running; those that did not start yet come last.

    Upstream takes the present for the start of a pod without one, anew at each comparison, so that such pods end up
    in reverse order.
    """
    texts = [view.pods.objects[p].status.start_time for p in pods.tolist()]
    moments = {text: nanoseconds(text) for text in set(texts) if text}
    late = np.array([not text for text in texts], np.bool_)
    start = np.array([moments.get(text, 0) for text in texts], np.int64)
    order = np.arange(len(pods))
    priority = view.pods.priority[view.pods.info[pods]]
    return pods[np.lexsort((np.where(late, -order, order), start, late, -priority, view.pods.node[pods]))]


def _start(pod: Pod) -> int | None:
    return nanoseconds(pod.status.start_time) if pod.status.start_time else None


def pdb_violations(view: Snapshot, pods: Positions) -> Bools:
    """For pods sorted by node, each node's in the order of eviction: whether evicting it would break a budget.

    Each node starts with every budget's status.disruptionsAllowed; pods whose disruption the API server has recorded
    already are free.
    """
    violating = np.zeros(len(pods), np.bool_)
    node = view.pods.node[pods]
    for pdb in view.cluster.pod_disruption_budgets:
        matched = _protected(view, pdb)[view.pods.info[pods]]
        for name in pdb.status.disrupted_pods:
            position = view.pods.index.get(f"{pdb.metadata.namespace}/{name}")
            matched &= pods != (-1 if position is None else position)
        evicted = np.flatnonzero(matched)
        violating[evicted[_turn(node[evicted]) >= pdb.status.disruptions_allowed]] = True
    return violating


def budgets_of(view: Snapshot, position: int) -> tuple[str, ...]:
    """The PodDisruptionBudgets that select a pod, as ``namespace/name``."""
    kind = view.pods.info[position]
    found = (pdb for pdb in view.cluster.pod_disruption_budgets if _protected(view, pdb)[kind])
    return tuple(f"{pdb.metadata.namespace}/{pdb.metadata.name}" for pdb in found)


def _protected(view: Snapshot, pdb: PodDisruptionBudget) -> Bools:
    """(T,): the pods that a budget selects. An empty or unreadable selector, and pods without labels, match nothing."""
    try:
        selector = from_label_selector(pdb.spec.selector)
    except SelectorError:
        return np.zeros(len(view.pods.infos), np.bool_)
    if selector.empty:
        return np.zeros(len(view.pods.infos), np.bool_)
    return view.pods.matching(selector, frozenset((pdb.metadata.namespace,))) & view.pods.labelled


# -- the choice ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Choice:
    """The candidates that are left equal by all criteria, and the criterion that came last in deciding."""

    tied: tuple[Candidate, ...]
    decided_by: str


class _Costs:
    """What upstream weighs of a candidate; smaller is better."""

    def __init__(self, view: Snapshot, candidate: Candidate) -> None:
        self.candidate = candidate
        self.pods = [view.pods.objects[position] for position in candidate.victims]
        self.priorities = [view.pods.infos[view.pods.info[position]].priority for position in candidate.victims]

    @cached_property
    def latest_start(self) -> float:
        """The earliest start among the victims of the highest priority, negated: the latest of them wins."""
        top = max(self.priorities)
        starts = [_start(pod) for pod, priority in zip(self.pods, self.priorities, strict=True) if priority == top]
        return -min(float("inf") if start is None else start for start in starts)


CRITERIA: tuple[tuple[str, Callable[[_Costs], float]], ...] = (
    ("fewest PodDisruptionBudget violations", lambda costs: costs.candidate.pdb_violations),
    ("lowest priority of the most important victim", lambda costs: costs.priorities[0]),
    ("lowest sum of the victims' priorities", lambda costs: sum(p + PRIORITY_OFFSET for p in costs.priorities)),
    ("fewest victims", lambda costs: len(costs.priorities)),
    ("latest start of the most important victims", lambda costs: costs.latest_start),
)
"""In this order, each among those that the ones before left equal."""


def choose(view: Snapshot, candidates: Sequence[Candidate]) -> Choice:
    """The candidates that upstream would pick from; where several are left, it takes any."""
    left = [_Costs(view, candidate) for candidate in candidates]
    decided_by = "the only candidate"
    for name, cost in CRITERIA:
        if len(left) < 2:
            break
        costs = [cost(each) for each in left]
        least = min(costs)
        best = [each for each, amount in zip(left, costs, strict=True) if amount == least]
        if len(best) < len(left):
            left, decided_by = best, name
    if len(left) > 1:
        decided_by = "a tie: any of them"
    return Choice(tuple(each.candidate for each in left), decided_by)
