"""Changes of workloads carried out side by side: old pods go and new ones come, within what each workload allows.

Upstream: pkg/controller/deployment/rolling.go, pkg/controller/statefulset, pkg/controller/daemon/update.go (v1.36).
A pod counts as available as soon as it has a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.scheduler.simulation import Outcome, Progress, Simulation
from kschedctl.studies.updates import Change, slot

NOT_CREATED = "NotCreated"
OLD = "~old"
"""Behind the name of a pod that gives its name to a new one."""


class Rollout:
    """One workload's change on a simulation. Pods are positions; ``running`` are the new ones that have a node."""

    def __init__(self, change: Change, simulation: Simulation, position: Callable[[Pod], int]) -> None:
        self.change, self.simulation = change, simulation
        self.old = [position(pod) for pod in renamed(change)]
        self.coming = [position(pod) for pod in change.new]
        self.waiting: list[int] = []
        self.running = 0

    def advance(self) -> list[int]:
        """Take down the old pods that may go; the new pods that may come after that."""
        if self.change.ordered:
            return self._one_by_one()
        self._take_down(self._superfluous())
        present = len(self.change.kept) + len(self.old) + len(self.waiting) + self.running
        return self._next(max(self.change.desired + self.change.surge - present, 0))

    def take(self, outcome: Outcome) -> None:
        """What became of a new pod."""
        if outcome.row >= 0:
            self.running += 1
        else:
            self.waiting.append(outcome.position)

    @property
    def said(self) -> str:
        """How far a rollout came."""
        if not (self.change.rolling and self.change.removed and self.change.new):
            return ""
        if not self.old and self.running == len(self.change.new):
            return "complete"
        return f"stuck: {self.running} of {len(self.change.new)} new pods run, {len(self.old)} old ones are left"

    def _one_by_one(self) -> list[int]:
        if self.waiting or not self.coming:
            return []
        pods = self.simulation.view.pods.objects
        place = slot(pods[self.coming[0]])
        self._take_down([p for p in self.old if slot(pods[p]).removesuffix(OLD) == place])
        return self._next(1)

    def _next(self, count: int) -> list[int]:
        now, self.coming = self.coming[:count], self.coming[count:]
        return now

    def _superfluous(self) -> list[int]:
        """The old pods without a node, and as many of the others as run beyond what must be available."""
        bound = self.simulation.view.pods.node
        idle = [position for position in self.old if bound[position] < 0]
        busy = [position for position in self.old if bound[position] >= 0]
        running = len(self.change.kept) + len(busy) + self.running
        return idle + busy[: max(running - (self.change.desired - self.change.unavailable), 0)]

    def _take_down(self, positions: list[int]) -> None:
        bound = [position for position in positions if self.simulation.view.pods.node[position] >= 0]
        self.simulation.take_down(bound)
        self.old = [position for position in self.old if position not in set(positions)]


def renamed(change: Change) -> list[Pod]:
    """The pods that go, under names of their own where new ones take their names."""
    taken = {pod.key for pod in change.new}
    return [_under_old_name(pod) if pod.key in taken else pod for pod in change.removed]


def _under_old_name(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, name=pod.metadata.name + OLD))


def roll_out(
    rollouts: Sequence[Rollout], simulation: Simulation, others: Sequence[int] = (), progress: Progress | None = None
) -> list[Outcome]:
    """All changes side by side until nothing moves, with ``others`` in the queue; the outcomes of all that came."""
    found: dict[int, Outcome] = {}
    waiting: dict[int, Rollout | None] = dict.fromkeys(others)
    moving = True
    while moving and not simulation.interrupted:
        moved = len(simulation.view.trail)
        coming = {position: rollout for rollout in rollouts for position in rollout.advance()}
        waiting |= coming
        for rollout in rollouts:
            rollout.waiting = []
        outcomes = simulation.run(waiting, progress)
        for outcome in outcomes:
            owner = waiting[outcome.position]
            if owner is not None:
                owner.take(outcome)
        found |= {outcome.position: outcome for outcome in outcomes}
        waiting = {o.position: waiting[o.position] for o in outcomes if o.row < 0}
        moving = bool(coming) or len(simulation.view.trail) > moved
    return [*found.values(), *_not_created(rollouts)]


def _not_created(rollouts: Sequence[Rollout]) -> Iterator[Outcome]:
    for rollout in rollouts:
        rollout.simulation.gone.update(rollout.coming)
        for position in rollout.coming:
            yield Outcome(position, NOT_CREATED, message="not created: the rollout waits for other pods")
