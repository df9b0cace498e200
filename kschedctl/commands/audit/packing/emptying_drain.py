"""The drain of a node that ends with the first pod that keeps the node, where nothing that follows could change that.

While the node is drained, others only get fuller: what refuses a pod by their own rows, or whatever pods there are,
refuses them to the end. A budget allows no more than at first where none of its pods on the node can be evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kschedctl.api.arrays import Position
from kschedctl.replay.edits import is_recreated
from kschedctl.replay.node_drain import NodeDrain
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.engine.pre_filter import PreFilterOutcome
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Reads, reads_of
from kschedctl.scheduler.simulation.outcome import Outcome


class _KeptError(Exception):
    """A pod keeps the node; ``why``: with the pod."""

    def __init__(self, pod: str, why: str) -> None:
        self.pod, self.why = pod, why


@dataclass
class EmptyingDrain(NodeDrain):
    """Nobody may be lost, evicted or left without a node."""

    def keeping(self) -> tuple[str, str]:
        """Drain the node; a pod that keeps it, and why, both empty where none does."""
        for pod, why in self._at_once():
            return pod, why
        try:
            self.run()
        except _KeptError as kept:
            return kept.pod, kept.why
        return self._left()

    def _at_once(self) -> Iterator[tuple[str, str]]:
        """Pods that keep the node whatever is tried, and why."""
        yield from self._held()
        yield from self._bare()

    def _held(self) -> Iterator[tuple[str, str]]:
        """Pods that their budgets hold, none of which goes from this node, so that they stay as they are."""
        refusals = {position: self._evictions.find_denial(position) for position in self.evictable}
        going = {
            budget
            for position, refusal in refusals.items()
            for budget in self._evictions.find_budgets(position)
            if not refusal
        }
        for position, refusal in refusals.items():
            if refusal and going.isdisjoint(self._evictions.find_budgets(position)):
                yield self._key(position), f"{self._key(position)}: {refusal}"

    def _bare(self) -> Iterator[tuple[str, str]]:
        """Pods that nobody makes again."""
        for position in self.evictable:
            pod = self.simulation.view.pods.objects[position]
            if not is_recreated(pod) and pod.metadata.deletion_timestamp is None:
                yield pod.key, f"{pod.key} would be lost: nothing recreates it"

    def _attempt(self, position: Position) -> Outcome:
        """A pod that comes back keeps the node."""
        outcome = self._attempted(position)
        if outcome.row >= 0 and self.simulation.view.nodes.names[outcome.row] in self.nodes:
            key = self._key(position)
            raise _KeptError(key, f"{key} would come back: it tolerates that the node is cordoned")
        return outcome

    def _attempted(self, position: Position) -> Outcome:
        """Whom preemption would evict is only asked where it may still matter."""
        simulation = self.simulation
        if simulation.gangs.find_group_key(position) is not None:
            return super()._attempt(position)
        simulation.preemption = False
        outcome = simulation.attempt(position)
        simulation.preemption = True
        if outcome is not None:
            return outcome
        if why := self._for_good(position):
            raise _KeptError(self._key(position), why)
        return self._preempting(position)

    def _preempting(self, position: Position) -> Outcome:
        """What comes of it where preemption may make room; who is evicted keeps the node, too."""
        self.simulation.failures.forget()
        outcome = super()._attempt(position)
        if outcome.victims:
            raise _KeptError(self._key(position), f"{self._key(position)} would evict others")
        return outcome

    def _for_good(self, position: Position) -> str:
        """Why no node ever takes the pod, empty where that is not certain."""
        cycle = self.simulation.run_cycle(position)
        return f"{self._key(position)}: {_said(cycle)}" if _for_good(cycle) else ""

    def _left(self) -> tuple[str, str]:
        """What keeps the node when all was tried."""
        if blocked := self.report_blocked():
            return blocked[0].pod, f"{blocked[0].pod}: {blocked[0].why}"
        if self.lost:
            lost = self._key(self.lost[0])
            return lost, f"{lost} would be lost: nothing recreates it"
        for outcome in self.simulation.explain(self.outcomes.values()):
            if outcome.row < 0:
                first, _, _ = (outcome.message or outcome.verdict).partition(". ")  # without what preemption could do
                return self._key(outcome.position), f"{self._key(outcome.position)}: {first}"
        if self.preemptions:
            key = self._key(self.preemptions[0].position)
            return key, f"{key} would evict others"
        return "", ""

    def _key(self, position: Position) -> str:
        return self.simulation.view.pods.objects[position].key


def _for_good(cycle: Cycle) -> bool:
    """Whether every node refuses the pod for what can only get worse as pods come."""
    if cycle.error is not None or cycle.info.spec.resource_claims:  # devices come free
        return False
    if cycle.pre_filter.status.rejected:
        return refused_for_good(cycle.pre_filter, cycle.framework)
    plugins = {plugin.name: plugin for point in ("preFilter", "filter") for plugin in cycle.framework.plugins_at(point)}
    results = cycle.pre_filter.results
    if any(reads_of(plugins[name], results.get(name)) is not Reads.NODES for name in cycle.pre_filter.narrowed_by):
        return False
    left = cycle.considered.copy()
    for name, verdict in cycle.filter.verdicts.items():
        if name in plugins and reads_of(plugins[name], results.get(name)) is not Reads.PODS:
            left &= ~verdict.rejected
    return not left.any()


def refused_for_good(before: PreFilterOutcome, framework: FrameworkLike) -> bool:
    """Whether a PreFilter refuses the pod everywhere for what no pod changes."""
    by = next((plugin for plugin in framework.plugins_at("preFilter") if plugin.name == before.plugin), None)
    return by is not None and reads_of(by, before.results.get(by.name)) is Reads.NODES


def _said(cycle: Cycle) -> str:
    return fit_error(cycle).removesuffix(".")
