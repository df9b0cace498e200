"""Node choices and preemption candidates of a simulation, reusing answers between identical pods.

Upstream: schedulePod in pkg/scheduler/schedule_one.go and prepareCandidate in
pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from random import Random

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.diagnosis import (
    PostFilterOutcome,
    Rejectors,
    build_fit_error,
    find_rejectors,
    run_post_filter,
)
from kschedctl.scheduler.engine.preemption.candidates import Candidate
from kschedctl.scheduler.engine.preemption.evaluator import (
    PreemptionPlugin,
    clears_nomination,
    find_preemption_plugins,
    get_tied_candidates,
)
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.default_preemption import are_victims_evicted_asynchronously
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, Nominations
from kschedctl.scheduler.queueing.scheduling_loop import PREEMPTION_LOOP_FAILURE, Failed, PostFilterEffect
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.gangs import Gangs
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

MAX_RETURNS = 10
"""A pod that was preempted this often preempts no more if quotas, not priorities, choose victims."""


class Preemptors:
    """Decides for which pods of a simulation preemption is worth a try.

    If all victims have a lower priority, preemption always ends. Otherwise, pods could preempt each other forever.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self.preemption_counts: Counter[Position] = Counter()
        """The number of times that each pod was preempted."""
        self.futile: set[Position] = set()
        """The pods whose victims return to the node again and again before the pod gets there."""
        self._lowest = int(view.pods.priority.min(initial=0))
        self._low_priority_pod: Position | None = None

    def may_preempt(self, framework: FrameworkLike, position: Position, info: PodInfo) -> bool:
        """Return whether the pod may preempt at all, no matter which pods are on nodes.

        A pod may not preempt if its preemptionPolicy is Never, or if it evicted the same pods in vain (`futile`). If
        all plugins preempt only by priority, it may preempt if any pod of the cluster has a lower priority. Otherwise,
        it may preempt until it has itself been preempted MAX_RETURNS times.
        """
        if info.spec.preemption_policy == "Never" or position in self.futile:
            return False
        if preempts_only_lower_priority(framework):
            return info.priority > self._lowest
        return self.preemption_counts[position] < MAX_RETURNS

    def may_find_victim(self, framework: FrameworkLike, priority: int) -> bool:
        """Return whether a pod is on a node that a preemptor of this priority might be allowed to evict."""
        if preempts_only_lower_priority(framework):
            return self.has_placed_pod_of_lower_priority(priority)
        return bool((self.view.node >= 0).any())

    def has_placed_pod_of_lower_priority(self, priority: int) -> bool:
        """Return whether a pod with a priority below this one has a node."""
        view, pods = self.view, self.view.pods

        # Usually, the pod that was found last still has a node.
        example = self._low_priority_pod
        if example is not None:
            is_placed = view.node[example] >= 0
            if is_placed and pods.get_priority(example) < priority:
                return True

        placed = np.flatnonzero(view.node >= 0)
        priorities = pods.get_priorities(placed)
        if not len(placed) or priorities.min() >= priority:
            return False
        self._low_priority_pod = Position(int(placed[priorities.argmin()]))
        return True


def preempts_only_lower_priority(framework: FrameworkLike) -> bool:
    """Return whether all victims of preemption in this profile have a lower priority."""
    return all(plugin.by_priority for plugin in find_preemption_plugins(framework))


def choose_candidate(outcome: PostFilterOutcome, random: Random) -> Candidate | None:
    """Return a preemption candidate of the first plugin that has any, or None if PostFilter did not succeed.

    If several candidates are equally good, one is chosen at random.
    """
    if outcome.status.code is not Code.SUCCESS:
        return None
    for result in outcome.results.values():
        tied = get_tied_candidates(result)
        if len(tied) == 1:  # draws no random number
            return tied[0]
        if tied:
            return tied[random.randrange(len(tied))]
    return None


class KnownFailures:
    """The pods that fit nowhere in the current state, and the reasons, shared by identical pods until a pod moves."""

    def __init__(self, placements: Placements, gangs: Gangs, framework: Callable[[Position], Framework]) -> None:
        self.view, self._placements, self._gangs = placements.view, placements, gangs
        self._get_framework = framework
        self.permit_failures: dict[Position, Failed] = {}
        """Pods that Permit rejected or made leave their nodes, with the reason."""
        self._rejectors_by_key: dict[Hashable, Rejectors | None] = {}
        self._seen = -1

    def is_known(self, position: Position) -> bool:
        """Return whether an identical pod is known to fit nowhere in the current state."""
        failures = self._current_failures
        return bool(failures) and self._get_failure_key(position) in failures

    def add(self, position: Position, rejectors: Rejectors | None = None) -> None:
        """Record that the pod, like all identical pods, fits nowhere now.

        `rejectors` are the plugins that reject the pod. With None, rejectors that are already recorded are kept.
        """
        failures = self._current_failures
        key = self._get_failure_key(position)
        failures[key] = failures.get(key) if rejectors is None else rejectors

    def forget(self) -> None:
        """Forget all failures because nominations changed."""
        self._rejectors_by_key = {}

    def find_rejectors(self, position: Position) -> Rejectors:
        """Return the plugins that reject a pod which fits nowhere now.

        If these plugins are unknown, the pod's cycle is run to find them, and they are recorded for identical pods.
        """
        failures = self._current_failures
        key = self._get_failure_key(position)
        rejectors = failures.get(key)
        if rejectors is None:
            cycle = self._placements.run_cycle(self._get_framework(position), position)
            rejectors = failures[key] = find_rejectors(cycle)
        return rejectors

    def record_rejectors(self, position: Position) -> None:
        """Find the plugins that reject a pod which fits nowhere now, and record them for identical pods."""
        self.find_rejectors(position)

    def build_message(self, position: Position) -> str:
        """Return kube-scheduler's message for a pod that fits nowhere now, running its cycle and PostFilter."""
        cycle = self._placements.run_cycle(self._get_framework(position), position)
        self.add(position, find_rejectors(cycle))
        return cycle.error or build_fit_error(cycle, run_post_filter(cycle).message)

    def explain_outcomes(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """Return the outcomes, with a message for each Unschedulable pod whose outcome has none.

        The message explains why the pod fits nowhere in the current state.
        """
        outcomes = list(outcomes)
        unexplained = [o.position for o in outcomes if o.verdict == UNSCHEDULABLE and not o.message]
        messages = self._explain_unplaced_pods(unexplained)
        return [
            outcome._replace(message=messages[outcome.position]) if outcome.position in messages else outcome
            for outcome in outcomes
        ]

    def _explain_unplaced_pods(self, positions: Sequence[Position]) -> dict[Position, str]:
        """Return the message for each pod that fits nowhere.

        The message comes from the pod's group, from Permit, or from the pod's cycle.
        """
        # A pod in a preemption loop keeps the message about the loop.
        positions_outside_loops = [position for position in positions if not self._is_in_preemption_loop(position)]
        group_messages = self._gangs.build_messages_for_groups(positions_outside_loops, self._get_framework)

        # Pods with equal keys have the same message from their cycle.
        messages_by_key: dict[Hashable, str] = {}
        messages = {}
        for position in positions:
            if group_messages.get(position):
                messages[position] = group_messages[position]
            elif position in self.permit_failures:
                messages[position] = self.permit_failures[position].message
            else:
                key = self._get_failure_key(position)
                if key not in messages_by_key:
                    messages_by_key[key] = self.build_message(position)
                messages[position] = messages_by_key[key]
        return messages

    def _is_in_preemption_loop(self, position: Position) -> bool:
        """Return whether the pod left its node because the pods of its gang preempt each other forever."""
        return self.permit_failures.get(position) is PREEMPTION_LOOP_FAILURE

    @property
    def _current_failures(self) -> dict[Hashable, Rejectors | None]:
        """The rejectors of pods that fit nowhere, by failure key, or None if they are unknown.

        Entries are dropped when a pod has moved.
        """
        if self._seen != len(self.view.trail):
            self._seen = len(self.view.trail)
            self._rejectors_by_key = {}
        return self._rejectors_by_key

    def _get_failure_key(self, position: Position) -> Hashable:
        """Return a key that is equal for pods that fail for the same reasons.

        For a pod of a gang, the key includes the current state of the gang.
        """
        key = self._placements.get_equivalence_key(self._get_framework(position), position)
        history = self.view.gang_history
        if not history:
            return key
        gang = self._gangs.find_group_key(position)
        return (key, history.get_state(gang)) if isinstance(gang, GangKey) else key


class ReusedAnswers:
    """Finds nodes and preemption candidates for pods, reusing answers for identical pods.

    Without `preemption`, no pod is evicted. `gang_pods` are the pods of gangs that are tried one by one. While they
    wait on their nodes for each other, the plugins that reject other pods may change.
    """

    def __init__(self, placements: Placements, gangs: Gangs, nominations: Nominations, failures: KnownFailures) -> None:
        self.placements, self.gangs, self.nominations, self.failures = placements, gangs, nominations, failures
        self.preemption = True
        self.preemptors = Preemptors(placements.view)
        self.gang_pods: Collection[Position] = frozenset()
        self._is_known_failure = False

    def build_info(self, position: Position) -> PodInfo:
        """Build the PodInfo of this very pod, instead of the one that identical pods share."""
        return self.gangs.build_own_info(position)

    def find_node(self, position: Position, framework: Framework) -> Choice | None:
        """Return the node for a pod, or None if no node is feasible. Raises PluginError if a plugin fails.

        If an identical pod is known to fit nowhere, no node is searched, and `run_post_filter` uses this knowledge.
        Pods of gangs are always searched.
        """
        self._is_known_failure = position not in self.gang_pods and self.failures.is_known(position)
        return None if self._is_known_failure else self.placements.choose_node(framework, position)

    def run_post_filter(self, position: Position, framework: Framework) -> PostFilterEffect:
        """Run PostFilter for a pod for which `find_node` just returned None, and return the effect without applying it.

        With a candidate for preemption, the effect has its victims and nominates its node. Otherwise, the failure is
        recorded so that identical pods need not be tried. Raises PluginError if a plugin fails.
        """
        in_gang = position in self.gang_pods
        if in_gang:
            self.failures.record_rejectors(position)  # now, since preemption may change them
        candidate, outcome = self.find_preemption_candidate(position, framework)

        # With a candidate, its victims are to be evicted, and the pod is to be nominated for its node.
        if candidate is not None and outcome is not None:
            failure = Failed(
                Code.UNSCHEDULABLE, rejectors=self.failures.find_rejectors(position), nominated=candidate.row
            )
            evicts_later = in_gang and are_victims_evicted_asynchronously(outcome, self.gangs.scheduler.gates)
            return PostFilterEffect(failure, candidate.victims, plugins_run=outcome.results, evicts_later=evicts_later)

        # Without a candidate, the pod keeps failing until something moves.
        if not in_gang and not self._is_known_failure:
            self.failures.add(position)
        return self._build_effect_without_candidate(position, framework, outcome)

    def _build_effect_without_candidate(
        self, position: Position, framework: Framework, outcome: PostFilterOutcome | None
    ) -> PostFilterEffect:
        """Build the effect on a pod that finds no node by preemption.

        The failure has the pod's rejectors only if these may change before an event needs them. `outcome` is None if
        PostFilter was not run. The effect then names the plugins that upstream would run. Raises PluginError if a
        plugin fails.
        """
        # Pods placed later may change the rejectors, so these are determined now.
        may_change = bool(self.gang_pods) or self.placements.depends_on_other_nodes(framework, position)
        rejectors = self.failures.find_rejectors(position) if may_change else None
        failure = Failed(Code.UNSCHEDULABLE, rejectors=rejectors, nominated=None)
        plugins_run: Collection[str]
        if outcome is not None:
            plugins_run = outcome.results
        elif len(self.placements.view.nodes):
            plugins_run = [plugin.name for plugin in framework.plugins_at("postFilter")]
        else:  # upstream runs no plugin without nodes
            plugins_run = ()
        return PostFilterEffect(failure, plugins_run=plugins_run)

    def find_preemption_candidate(
        self, position: Position, framework: Framework
    ) -> tuple[Candidate | None, PostFilterOutcome | None]:
        """Return the preemption candidate, if there is one, and the outcome of PostFilter, if it was run.

        PostFilter is not run if an identical pod is known to fit nowhere, if preemption is off, or if the pod's
        preemptionPolicy is Never. If the pod may not preempt now or can find no victim, PostFilter is not run either,
        and the pod loses its nomination.

        If PostFilter runs, the plugins that reject the pod are recorded, and the pod loses its nomination if PostFilter
        clears it. Raises PluginError if a plugin fails.
        """
        info = self.placements.get_incoming_info(self.placements.view.pods.get_info_number(position))
        if self._is_known_failure or not self.preemption or info.spec.preemption_policy == "Never":
            return None, None
        may_preempt = self.preemptors.may_preempt(framework, position, info)
        if not may_preempt or not self.preemptors.may_find_victim(framework, info.priority):
            self.nominations.clear(position)
            return None, None
        cycle = self._run_cycle_for_preemption(position, framework)
        outcome = run_post_filter(cycle)
        self.failures.add(position, find_rejectors(cycle))
        candidate = choose_candidate(outcome, self.placements.random)
        if candidate is None and clears_nomination(outcome):
            self.nominations.clear(position)
        return candidate, outcome

    def _run_cycle_for_preemption(self, position: Position, framework: Framework) -> Cycle:
        """Run the pod's cycle, and restrict what its preemption computes to what is needed here.

        Only the best candidates are needed, unless extenders choose among all candidates. The reason for a failure of
        preemption is needed by a nominated pod, which keeps its nomination after an error. The reason is also needed if
        another PostFilter plugin follows, because that plugin does not run after an error.
        """
        cycle = self.placements.run_cycle(framework, position)
        is_nominated = self.placements.view.get_nominated_row(position) != NO_ROW
        all_but_last = framework.plugins_at("postFilter")[:-1]
        is_preemption_followed = any(isinstance(plugin, PreemptionPlugin) for plugin in all_but_last)
        return replace(
            cycle,
            only_best_candidates=not cycle.consultation.extenders,
            explains_failed_preemption=is_nominated or is_preemption_followed,
        )
