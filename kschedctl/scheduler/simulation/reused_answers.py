"""Where pods of a simulation go, and what could be done for those that fit nowhere, from answers that pods alike share.

Upstream: schedulePod in pkg/scheduler/schedule_one.go and prepareCandidate in
pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from random import Random

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.preemption.candidates import Candidate
from kschedctl.scheduler.engine.preemption.evaluator import clears_nomination, find_preemption_plugins, tied_candidates
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.rejectors import NO_REJECTORS, Rejectors, find_rejectors
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.default_preemption import are_victims_evicted_asynchronously
from kschedctl.scheduler.queueing.nominations import Nominations
from kschedctl.scheduler.queueing.pods_on_nodes import Choice
from kschedctl.scheduler.queueing.scheduling_loop import Failed, PostFilterEffect
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTION_LOOP
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.gangs import Gangs
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

MOST_RETURNS = 10
"""A pod that was driven away so often drives nobody away again where quotas, not priorities, decide who has to go."""


class Preemptors:
    """For which pods preemption is worth a try in a simulation. ``driven_away``: how often a pod was preempted.

    Where victims have a lower priority it ends by itself; otherwise pods could drive each other away in turn.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self.driven_away: Counter[Position] = Counter()
        self.futile: set[Position] = set()
        """The pods whose victims return to the node before them again and again."""
        self._lowest = int(view.pods.priority.min(initial=0))
        self._example: Position | None = None

    def eligible(self, framework: FrameworkLike, position: Position, info: PodInfo) -> bool:
        """Whether the pod may preempt others, as far as that does not depend on where pods are."""
        if info.spec.preemption_policy == "Never" or position in self.futile:
            return False
        return info.priority > self._lowest if by_priority(framework) else self.driven_away[position] < MOST_RETURNS

    def any_victim(self, framework: FrameworkLike, priority: int) -> bool:
        """Whether a pod of this priority might find somebody to evict."""
        return self.any_below(priority) if by_priority(framework) else bool((self.view.node >= 0).any())

    def any_below(self, priority: int) -> bool:
        """Whether some pod of lower priority has a node."""
        view, pods = self.view, self.view.pods
        example = self._example
        if example is not None and view.node[example] >= 0 and pods.priority[pods.info[example]] < priority:
            return True
        placed = np.flatnonzero(view.node >= 0)
        priorities = pods.priority[pods.info[placed]]
        if not len(placed) or priorities.min() >= priority:
            return False
        self._example = Position(int(placed[priorities.argmin()]))
        return True


def by_priority(framework: FrameworkLike) -> bool:
    """Whether all that preemption evicts by this profile has a lower priority."""
    return all(plugin.by_priority for plugin in find_preemption_plugins(framework))


def chosen_candidate(outcome: PostFilterOutcome, random: Random) -> Candidate | None:
    """One of the equally good candidates, by the seed."""
    if outcome.status.code is not Code.SUCCESS:
        return None
    for result in outcome.results.values():
        if tied := tied_candidates(result):
            return tied[random.randrange(len(tied))] if len(tied) > 1 else tied[0]
    return None


class KnownFailures:
    """What fits nowhere as things are, and why; pods alike share it, until a pod moves.

    ``framework`` finds the profile that serves a pod. ``said``: why Permit refused pods, or had them leave their nodes.
    """

    def __init__(self, placements: Placements, gangs: Gangs, framework: Callable[[Position], Framework]) -> None:
        self.view, self._placements, self._gangs, self._framework = placements.view, placements, gangs, framework
        self.said: dict[Position, Failed] = {}
        self._found: dict[Hashable, Rejectors | None] = {}
        self._seen = -1

    def known(self, position: Position) -> bool:
        """Whether a pod like this one was found to fit nowhere as things are."""
        known = self._known
        return bool(known) and self._likeness(position) in known

    def add(self, position: Position, rejectors: Rejectors | None = None) -> None:
        """The pod fits nowhere; ``rejectors``: the plugins that refuse it, where they are known."""
        known, like = self._known, self._likeness(position)
        known[like] = known.get(like) if rejectors is None else rejectors

    def forget(self) -> None:
        """Pods wait for other nodes now."""
        self._found = {}

    def rejectors(self, position: Position) -> Rejectors:
        """The plugins that refuse a pod that fits nowhere now."""
        known, like = self._known, self._likeness(position)
        if known.get(like) is None:
            known[like] = find_rejectors(self._placements.cycle(self._framework(position), position))
        return known[like] or NO_REJECTORS

    def message(self, position: Position) -> str:
        """Why a pod fits nowhere now, as kube-scheduler says it."""
        cycle = self._placements.cycle(self._framework(position), position)
        self.add(position, find_rejectors(cycle))
        return cycle.error or fit_error(cycle, run_post_filter(cycle).message)

    def explained(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes, with why pods fit nowhere as things are now, where it is not said."""
        messages: dict[Hashable, str] = {}
        outcomes, explained = list(outcomes), []
        silent = [o.position for o in outcomes if o.verdict == UNSCHEDULABLE and not o.message]
        in_groups = [p for p in silent if p not in self.said or self.said[p].message != PREEMPTION_LOOP.message]
        of_groups = self._gangs.messages(in_groups, self._framework)
        for outcome in outcomes:
            position = outcome.position
            if outcome.verdict != UNSCHEDULABLE or outcome.message:
                explained.append(outcome)
                continue
            if position in of_groups or position in self.said:
                explained.append(outcome._replace(message=of_groups.get(position) or self.said[position].message))
                continue
            like = self._likeness(position)
            if like not in messages:
                messages[like] = self.message(position)
            explained.append(outcome._replace(message=messages[like]))
        return explained

    @property
    def _known(self) -> dict[Hashable, Rejectors | None]:
        if self._seen != len(self.view.trail):
            self._seen, self._found = len(self.view.trail), {}
        return self._found

    def _likeness(self, position: Position) -> Hashable:
        like, history = self._placements.likeness(self._framework(position), position), self.view.gang_history
        gang = self._gangs.key(position) if history else None
        return (like, history.state(gang)) if history and isinstance(gang, GangKey) else like


class ReusedAnswers:
    """Finds nodes for pods from what is kept of pods alike; whom preemption evicts is one of the equally good choices.

    Without ``preemption`` nobody has to go. ``members``: the pods of gangs that are tried one by one, and wait on their
    nodes for each other: what refuses others may change meanwhile.
    """

    def __init__(self, placements: Placements, gangs: Gangs, nominations: Nominations, failures: KnownFailures) -> None:
        self.placements, self.gangs, self.nominations, self.failures = placements, gangs, nominations, failures
        self.preemption = True
        self.preemptors = Preemptors(placements.view)
        self.members: Collection[Position] = frozenset()
        self._known = False

    def info(self, position: Position) -> PodInfo:
        """What is asked for by the very pod, which pods alike share else."""
        return self.gangs.info(position)

    def find(self, position: Position, framework: Framework) -> Choice | None:
        """The node for a pod; None when it fits nowhere. Raises PluginError."""
        self._known = position not in self.members and self.failures.known(position)
        return None if self._known else self.placements.choose(framework, position)

    def run_post_filter(self, position: Position, framework: Framework) -> PostFilterEffect:
        """What could be done for a pod for which no node was found just now. Raises PluginError."""
        in_gang = position in self.members
        rejectors = self.failures.rejectors(position) if in_gang else None
        candidate, outcome = self.candidate(position, framework)
        if outcome is not None:
            asked: Collection[str] = outcome.results
        else:
            asked = (
                [plugin.name for plugin in framework.plugins_at("postFilter")]
                if len(self.placements.view.nodes)
                else ()
            )
        if candidate is not None and outcome is not None:
            failure = Failed(Code.UNSCHEDULABLE, "", self.failures.rejectors(position), candidate.row)
            later = in_gang and are_victims_evicted_asynchronously(outcome, self.gangs.scheduler.gates)
            return PostFilterEffect(failure, candidate.victims, asked, later)
        if not in_gang and not self._known:
            self.failures.add(position)
        if self.members or self.placements.looks_at_others(framework, position):  # pods that come may hide it
            rejectors = self.failures.rejectors(position)
        return PostFilterEffect(Failed(Code.UNSCHEDULABLE, "", rejectors, None), asked=asked)

    def candidate(self, position: Position, framework: Framework) -> tuple[Candidate | None, PostFilterOutcome | None]:
        """Whom evicting makes room, and what PostFilter said, None where it could not help. Raises PluginError."""
        info = self.placements.find_incoming(int(self.placements.view.pods.info[position]))
        if self._known or not self.preemption or info.spec.preemption_policy == "Never":
            return None, None
        eligible = self.preemptors.eligible(framework, position, info)
        if not eligible or not self.preemptors.any_victim(framework, info.priority):
            self.nominations.give_up(position)
            return None, None
        cycle = self.placements.cycle(framework, position)
        cycle = replace(
            cycle, only_best_candidates=not cycle.consultation.extenders
        )  # these choose among all candidates
        outcome = run_post_filter(cycle)
        self.failures.add(position, find_rejectors(cycle))
        candidate = chosen_candidate(outcome, self.placements.random)
        if candidate is None and clears_nomination(outcome):
            self.nominations.give_up(position)
        return candidate, outcome
