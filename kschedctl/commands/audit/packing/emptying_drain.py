"""A drain that stops at the first pod that keeps its node from being emptied.

While a node is drained, the others only get fuller: whatever rejects a pod because of node data, or independently of
other pods, rejects it to the end. A budget allows no more than at first if none of its pods on the node can be evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kschedctl.api.arrays import Position
from kschedctl.replay.edits import is_recreated
from kschedctl.replay.node_drain import NodeDrain
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import build_fit_error
from kschedctl.scheduler.engine.pre_filter import PreFilterOutcome
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Reads, get_reads
from kschedctl.scheduler.simulation.outcome import Outcome


class _NodeBlockedError(Exception):
    """Raised when a pod keeps the node from being emptied."""

    def __init__(self, pod: str, why: str) -> None:
        self.pod, self.why = pod, why


@dataclass
class EmptyingDrain(NodeDrain):
    """A drain that succeeds only if no pod is lost, preempted or left without a node."""

    def run_until_blocked(self) -> tuple[str, str]:
        """Drain the node until a pod keeps it from being emptied.

        Return that pod and the reason, or two empty strings if the node was emptied.
        """
        for pod, reason in self._iter_immediate_blockers():
            return pod, reason
        try:
            self.run()
        except _NodeBlockedError as kept:
            return kept.pod, kept.why
        return self._find_remaining_blocker()

    def _iter_immediate_blockers(self) -> Iterator[tuple[str, str]]:
        """Yield the pods that keep the node in any case, with the reasons."""
        yield from self._iter_pods_held_by_budgets()
        yield from self._iter_unmanaged_pods()

    def _iter_pods_held_by_budgets(self) -> Iterator[tuple[str, str]]:
        """Yield the pods that their PDBs protect, if no pod of these PDBs can be evicted from this node."""
        denials = {position: self._evictions.find_denial(position) for position in self.evictable}
        used_budgets = {
            budget
            for position, denial in denials.items()
            for budget in self._evictions.find_budgets(position)
            if not denial
        }
        for position, denial in denials.items():
            if denial and used_budgets.isdisjoint(self._evictions.find_budgets(position)):
                yield self._get_pod_key(position), f"{self._get_pod_key(position)}: {denial}"

    def _iter_unmanaged_pods(self) -> Iterator[tuple[str, str]]:
        """Yield the pods that no controller would recreate."""
        for position in self.evictable:
            pod = self.simulation.view.pods.objects[position]
            if not is_recreated(pod) and pod.metadata.deletion_timestamp is None:
                yield pod.key, f"{pod.key} would be lost: nothing recreates it"

    def _try_to_place(self, position: Position) -> Outcome:
        """Attempt to place an evicted pod, and raise _NodeBlockedError if it returns to the node."""
        outcome = self._attempt_preemption_last(position)
        if outcome.row >= 0 and self.simulation.view.nodes.names[outcome.row] in self.nodes:
            key = self._get_pod_key(position)
            raise _NodeBlockedError(key, f"{key} would come back: it tolerates that the node is cordoned")
        return outcome

    def _attempt_preemption_last(self, position: Position) -> Outcome:
        """Attempt to place a pod, trying preemption only if it could still make room."""
        simulation = self.simulation
        if simulation.gangs.find_group_key(position) is not None:
            return super()._try_to_place(position)
        simulation.preemption = False
        outcome = simulation.attempt(position)
        simulation.preemption = True
        if outcome is not None:
            return outcome
        if reason := self._find_lasting_rejection(position):
            raise _NodeBlockedError(self._get_pod_key(position), reason)
        return self._attempt_with_preemption(position)

    def _attempt_with_preemption(self, position: Position) -> Outcome:
        """Attempt to place a pod with preemption, and raise _NodeBlockedError if it has victims."""
        # The attempt without preemption was remembered as a failure, which would be reused instead of preempting
        self.simulation.failures.forget()
        outcome = super()._try_to_place(position)
        if outcome.victims:
            key = self._get_pod_key(position)
            raise _NodeBlockedError(key, f"{key} would evict others")
        return outcome

    def _find_lasting_rejection(self, position: Position) -> str:
        """Return why no node can ever take the pod, or an empty string if that is not certain."""
        cycle = self.simulation.run_cycle(position)
        if not _is_rejected_for_good(cycle):
            return ""
        return f"{self._get_pod_key(position)}: {_format_fit_error(cycle)}"

    def _find_remaining_blocker(self) -> tuple[str, str]:
        """Return the pod that still blocks the node after the whole drain, and why, or two empty strings."""
        if blocked_pods := self.report_blocked():
            blocked = blocked_pods[0]
            return blocked.pod, f"{blocked.pod}: {blocked.why}"
        if self.lost:
            key = self._get_pod_key(self.lost[0])
            return key, f"{key} would be lost: nothing recreates it"
        for outcome in self.simulation.explain(self.outcomes.values()):
            if outcome.row < 0:
                key = self._get_pod_key(outcome.position)
                message = outcome.message or outcome.verdict
                rejection, _, _ = message.partition(". ")  # without what preemption could do
                return key, f"{key}: {rejection}"
        if self.preemptions:
            key = self._get_pod_key(self.preemptions[0].position)
            return key, f"{key} would evict others"
        return "", ""

    def _get_pod_key(self, position: Position) -> str:
        """Return the key of the pod at a position, `namespace/name`."""
        return self.simulation.view.pods.objects[position].key


def _is_rejected_for_good(cycle: Cycle) -> bool:
    """Return whether every node rejects the pod for reasons that only get worse as pods arrive."""
    if cycle.error is not None or cycle.info.spec.resource_claims:  # devices come free
        return False
    if cycle.pre_filter.status.rejected:
        return is_pre_filter_rejection_lasting(cycle.pre_filter, cycle.framework)
    plugins = {plugin.name: plugin for point in ("preFilter", "filter") for plugin in cycle.framework.plugins_at(point)}
    results = cycle.pre_filter.results
    if any(get_reads(plugins[name], results.get(name)) is not Reads.NODES for name in cycle.pre_filter.narrowed_by):
        return False
    remaining = cycle.considered.copy()
    for name, verdict in cycle.filter.verdicts.items():
        if name in plugins and get_reads(plugins[name], results.get(name)) is not Reads.PODS:
            remaining &= ~verdict.rejected
    return not remaining.any()


def is_pre_filter_rejection_lasting(outcome: PreFilterOutcome, framework: FrameworkLike) -> bool:
    """Return whether a PreFilter rejects the pod on all nodes for a reason that no other pod can change."""
    rejecting_plugin = next(
        (plugin for plugin in framework.plugins_at("preFilter") if plugin.name == outcome.plugin), None
    )
    return (
        rejecting_plugin is not None
        and get_reads(rejecting_plugin, outcome.results.get(rejecting_plugin.name)) is Reads.NODES
    )


def _format_fit_error(cycle: Cycle) -> str:
    """Return the scheduler's message that the pod fits nowhere."""
    return build_fit_error(cycle).removesuffix(".")
