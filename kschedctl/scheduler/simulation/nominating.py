"""Whom preemption in a simulation evicts, and who then waits for the node.

Upstream: prepareCandidate in pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from random import Random

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.scheduler.engine.pod_groups.submission import MemberFailure
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome
from kschedctl.scheduler.engine.preemption.candidates import Candidate
from kschedctl.scheduler.engine.preemption.evaluator import preemption_plugins, tied_candidates
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import Code
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
        self._lowest = int(view.pods.priority.min(initial=0))

    def eligible(self, framework: FrameworkLike, position: Position, info: PodInfo) -> bool:
        """Whether the pod may preempt others, as far as that does not depend on where pods are."""
        if info.spec.preemption_policy == "Never":
            return False
        return info.priority > self._lowest if by_priority(framework) else self.driven_away[position] < MOST_RETURNS

    def any_victim(self, framework: FrameworkLike, priority: int) -> bool:
        """Whether a pod of this priority might find somebody to evict."""
        return self.any_below(priority) if by_priority(framework) else bool((self.view.node >= 0).any())

    def any_below(self, priority: int) -> bool:
        """Whether some pod of lower priority has a node."""
        pods = self.view.pods
        return bool(((pods.priority[pods.info] < priority) & (self.view.node >= 0)).any())


def by_priority(framework: FrameworkLike) -> bool:
    """Whether all that preemption evicts by this profile has a lower priority."""
    return all(plugin.by_priority for plugin in preemption_plugins(framework))


def chosen_candidate(outcome: PostFilterOutcome, random: Random) -> Candidate | None:
    """One of the equally good candidates, by the seed."""
    if outcome.status.code is not Code.SUCCESS:
        return None
    for result in outcome.results.values():
        if tied := tied_candidates(result):
            return tied[random.randrange(len(tied))] if len(tied) > 1 else tied[0]
    return None


class Promises:
    """Which nodes pods of a fork wait for.

    ``lost``: the pods that do so no longer though they came to none, since it was emptied; ``before_loss``: told of
    each before that.
    """

    def __init__(self, view: Fork) -> None:
        self.view = view
        self.lost: list[Position] = []
        self.before_loss: Callable[[Position], None] | None = None

    def make(self, position: Position, row: Row) -> None:
        """The pod, which preempted others there, waits for the node; pods of lower priority do so no longer."""
        self._clear_less_urgent(position, row)
        self._set(position, row)

    def of_group(self, failed: Mapping[Position, MemberFailure], preempting: Container[Position]) -> None:
        """What each pod of a group waits for now; some of them are ``preempting`` others there."""
        rows = {position: failure.nominated for position, failure in failed.items() if failure.nominated is not None}
        for position, row in rows.items():
            if position in preempting and row != NO_ROW:
                self._clear_less_urgent(position, row)
        for position, row in rows.items():
            self._set(position, row)

    def give_up(self, position: Position) -> None:
        """The pod waits for no node any more."""
        self._set(position, NO_ROW)

    def keep(self, position: Position) -> None:
        """The pod comes to a node."""
        if self.view.nominated_row(position) != NO_ROW:
            self.view.nominate(position, NO_ROW)

    def lose(self, position: Position) -> None:
        """The pod left the node that it had been promised and came to."""
        if self.before_loss:
            self.before_loss(position)
        self.lost.append(position)

    def _clear_less_urgent(self, position: Position, row: Row) -> None:
        rows, positions = self.view.nominations
        priority, info = self.view.pods.priority, self.view.pods.info
        for other in positions[rows == row].tolist():
            if priority[info[other]] < priority[info[position]]:
                self.give_up(other)

    def _set(self, position: Position, row: Row) -> None:
        before = self.view.nominated_row(position)
        if before not in (row, NO_ROW):
            self.lose(position)
        if before != row:
            self.view.nominate(position, row)
