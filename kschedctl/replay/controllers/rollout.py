"""Rollouts on a simulation: old pods go and new ones come side by side, within what each workload allows.

A pod counts as available as soon as it has a node.
Upstream: pkg/controller/deployment/{rolling,recreate}.go, pkg/controller/statefulset/stateful_set_control.go,
pkg/controller/daemon/update.go (v1.36).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Protocol

from msgspec.structs import replace

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation_failures import refusal
from kschedctl.replay.controllers.creation_fix_steps import Way
from kschedctl.replay.controllers.creation_fixes import around_fix
from kschedctl.replay.controllers.workload_change import Change, Pace, slot
from kschedctl.reports.not_created import CreationFix, NotCreated
from kschedctl.scheduler.simulation.outcome import NOT_TRIED, SCHEDULED, Outcome, Progress
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.text.counts import agreeing, counted


class RolloutCreation:
    """What is said to the pods of a change; each rollout is asked about once.

    ``words``: why the last ones that were refused are.
    """

    def __init__(self, admissions: Admissions, owner: Owner, workload: Struct | None, change: Change) -> None:
        self.admissions, self._owner, self._workload, self._change = admissions, owner, workload, change
        self._refused_object = admissions.of_object(owner, change)
        self.words: Sequence[str] = self._refused_object

    def create(self, pods: Sequence[Pod]) -> int:
        """How many of the pods are created, in order."""
        if not pods or self._refused_object:
            return 0
        number, self.words = self.admissions.room_for(self._owner, self._workload, pods, len(pods))
        return number

    def release(self, pods: Collection[Pod]) -> None:
        """Let go pods that are gone."""
        self.admissions.release(pods)

    def lacking(self, pod: Pod, number: int) -> Way | None:
        """By how much quotas would have to be raised for so many more such pods."""
        return self.admissions.lacking(self._owner, pod, number)

    def not_created(self, missing: int) -> NotCreated | None:
        """What is to be said of so many pods that have not come; None where nobody refuses them."""
        if not missing or not self.words:
            return None
        return refusal(self._owner, self.words, self._change.desired, missing)


NOT_CREATED = "NotCreated"
WAITS = "not created: its controller waits until other pods of the workload run"
OLD = "~old"
"""Behind the name of a pod that gives its name to a new one."""


class Rollout:
    """One workload's change on a simulation. Pods are positions.

    ``old`` are still to go and ``coming`` still to be created; of those that are there to stay, ``present`` many,
    ``waiting`` have no node. ``replaces``: new pod -> the old one in whose place it comes, where there is one.
    ``creation``: who may refuse pods that come; None where all are let in.
    """

    def __init__(
        self,
        change: Change,
        simulation: Simulation,
        position: Callable[[Pod], Position],
        creation: RolloutCreation | None = None,
    ) -> None:
        self.change, self.simulation, self.creation = change, simulation, creation
        self.kept = [position(pod) for pod in change.kept]
        self.old = dict.fromkeys(position(pod) for pod in renamed(change))
        self.coming = [position(pod) for pod in change.new]
        self.present = len(self.kept)
        self.waiting = dict.fromkeys(filter(self._idle, self.kept))
        self.replaces: dict[Position, Position] = {}
        if change.pace is Pace.IN_PLACE:
            places = dict(zip(map(slot, change.removed), self.old, strict=True))
            pairs = zip(self.coming, map(slot, change.new), strict=True)
            self.replaces = {new: places[place] for new, place in pairs if place in places}
        replaced = set(self.replaces.values())
        self._done = [position for position in self.old if position not in replaced]

    def advance(self) -> list[Position]:
        """Take down the old pods that may go; the new pods that may come after that."""
        match self.change.pace:
            case Pace.ROLLING:
                return self._surge() or self._roll()
            case Pace.IN_PLACE:
                return self._in_place()
        self._take_down([*self.old])
        return self._fill()

    def take(self, position: Position) -> None:
        """Something happened to a pod that stays, which may have a node now."""
        if self._idle(position):
            self.waiting[position] = None
        elif position in self.waiting:
            del self.waiting[position]
            if self.replaces.get(position) in self.old:
                self._done.append(self.replaces[position])

    @property
    def refused(self) -> NotCreated | None:
        """The pods that the API server does not create."""
        missing = 0 if self.simulation.interrupted else len(self.coming)
        return self.creation.not_created(missing) if self.creation is not None else None

    @property
    def said(self) -> str:
        """How far a rollout came."""
        change = self.change
        if not (change.rolling and change.removed and change.new):
            return ""
        if not (self.old or self.waiting or self.coming):
            return "complete"
        new = len(change.new)
        running = new - len(self.coming) - len(self.waiting.keys() - {*self.kept})
        return (
            f"stuck: {running:,} of {counted(new, 'new pod')} {agreeing(running, 'runs', 'run')}, "
            f"{counted(len(self.old), 'old one')} {agreeing(len(self.old), 'is', 'are')} left"
        )

    def _idle(self, position: Position) -> bool:
        return bool(self.simulation.view.node[position] < 0)

    def _next(self, count: int) -> list[Position]:
        """The next of the pods that come, so many, which wait for a node from now on."""
        count = max(count, 0)
        if self.creation is not None:
            pods = self.simulation.view.pods.objects
            count = self.creation.create([pods[position] for position in self.coming[:count]])
        now, self.coming = self.coming[:count], self.coming[count:]
        self.present += len(now)
        self.waiting |= dict.fromkeys(now)
        return now

    def _fill(self) -> list[Position]:
        """All, or where pods are made one after the other the next."""
        if self.change.ordered:
            return [] if self.waiting else self._next(1)
        return self._next(len(self.coming))

    # -- Deployments ---------------------------------------------------------------------------------------------

    def _surge(self) -> list[Position]:
        return self._next(self.change.desired + self.change.surge - self.present - len(self.old))

    def _roll(self) -> list[Position]:
        """Old pods without a node go first, then as many of the others as run beyond what must be available."""
        least = self.change.desired - self.change.unavailable
        limit = max(self.present + len(self.old) - least - len(self.waiting), 0)
        idle = [position for position in self.old if self._idle(position)]
        busy = [position for position in self.old if not self._idle(position)]
        available = len(busy) + self.present - len(self.waiting)
        self._take_down(idle[:limit] + (busy[: max(available - least, 0)] if limit else []))
        return self._surge()

    # -- StatefulSets and DaemonSets -----------------------------------------------------------------------------

    def _in_place(self) -> list[Position]:
        """Empty slots are filled first; then pods without a successor go, then each makes way for its own."""
        if self.change.ordered and (
            self.waiting or any(p in self.old and self._idle(p) for p in self.replaces.values())
        ):
            return []
        if self.coming and self.coming[0] not in self.replaces:
            fresh = sum(position not in self.replaces for position in self.coming)
            return self._next(1 if self.change.ordered else fresh)
        self._take_down(self._done)
        self._done = []
        limit = max(self.change.surge, self.change.unavailable) - len(self.waiting)
        idle = next((i for i, new in enumerate(self.coming) if not self._idle(self.replaces[new])), len(self.coming))
        if not self.change.surge:
            next_ones = self.coming[: max(limit, idle, 0)]
            self._take_down([self.replaces[position] for position in next_ones if position in self.replaces])
        return self._next(max(limit, idle))

    def _take_down(self, positions: Iterable[Position]) -> None:
        going = [position for position in positions if position in self.old]
        if self.creation is not None:
            self.creation.release([self.simulation.view.pods.objects[position] for position in going])
        self.simulation.take_down([position for position in going if not self._idle(position)])
        for position in going:
            del self.old[position]


def renamed(change: Change) -> list[Pod]:
    """The pods that go, under names of their own where new ones take their names."""
    taken = {pod.key for pod in change.new}
    return [_under_old_name(pod) if pod.key in taken else pod for pod in change.removed]


def _under_old_name(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, name=pod.metadata.name + OLD))


def roll_out(
    rollouts: Sequence[Rollout],
    simulation: Simulation,
    others: Iterable[Position] = (),
    progress: Progress | None = None,
) -> list[Outcome]:
    """Carry out all changes side by side until nothing moves, with ``others`` in the queue; return all outcomes.

    Evicted pods of the workloads and ``others`` are recreated after each round. If the simulation recreates evicted
    pods itself, the outcomes of all recreated pods are returned, too.
    """
    owners: dict[Position, Rollout | None] = dict.fromkeys(others)
    owners |= {position: rollout for rollout in rollouts for position in rollout.kept}
    waiting = dict.fromkeys([*others, *(position for rollout in rollouts for position in rollout.waiting)])
    outcomes: dict[Position, Outcome] = {}
    view, moving = simulation.view, True
    try:
        while moving and not simulation.interrupted:
            before = simulation.moves
            coming = {position: rollout for rollout in rollouts for position in rollout.advance()}
            owners |= coming
            waiting |= dict.fromkeys(coming)
            latest = _one_round(simulation, waiting, owners.keys(), progress)
            outcomes |= latest
            waiting |= dict.fromkeys(latest)
            for position in waiting:
                if owner := owners.get(position):
                    owner.take(position)
            waiting = {position: None for position in waiting if view.node[position] < 0}
            moving = bool(coming) or simulation.moves > before
        return [*simulation.explained(outcomes.values()), *_not_created(rollouts)]
    except KeyboardInterrupt:
        simulation.interrupted = True
        outcomes = {position: Outcome(position, NOT_TRIED) for position in waiting} | outcomes
    return [*outcomes.values(), *_not_created(rollouts)]


def _one_round(
    simulation: Simulation, waiting: Iterable[Position], own: Collection[Position], progress: Progress | None
) -> dict[Position, Outcome]:
    """Return the outcomes of all that wait, and of the pods that were evicted and recreated meanwhile.

    Evicted ones of our ``own`` that the simulation did not recreate itself are recreated, and wait for the next round.
    """
    nodes = simulation.view.node
    there = [position for position in waiting if nodes[position] >= 0]  # the template names the node
    outcomes_now = {position: Outcome(position, SCHEDULED, Row(int(nodes[position]))) for position in there}
    outcomes = simulation.schedule([position for position in waiting if nodes[position] < 0], progress)
    victims = {victim for outcome in outcomes for victim in outcome.victims if victim in own}
    evicted = victims & simulation.gone
    simulation.gone.difference_update(evicted)
    outcomes_now |= {outcome.position: outcome for outcome in outcomes}
    return outcomes_now | {victim: Outcome(victim, NOT_TRIED) for victim in sorted(evicted)}


def _not_created(rollouts: Sequence[Rollout]) -> Iterator[Outcome]:
    for rollout in rollouts:
        rollout.simulation.gone.update(rollout.coming)
        for position in () if rollout.refused else rollout.coming:
            yield Outcome(position, NOT_TRIED) if rollout.simulation.interrupted else _waits(position)


def _waits(position: Position) -> Outcome:
    return Outcome(position, NOT_CREATED, message=WAITS)


class Replay(Protocol):
    """The rollouts once more, with other changes and quotas."""

    def __call__(self, changes: Sequence[Change], admissions: Admissions) -> Sequence[Rollout]: ...


def rollout_fixes(
    at: int, rollouts: Sequence[Rollout], admissions: Admissions, replay: Replay
) -> Iterator[CreationFix]:
    """For one of the rollouts, which is refused; ``admissions``: the quotas as they were before all."""
    stuck, changes = rollouts[at], [rollout.change for rollout in rollouts]

    def ends(changes: Sequence[Change], quotas: Admissions) -> bool:
        again = replay(changes, quotas)[at]
        return again.refused is None and not (again.old or again.waiting or again.coming)

    yield from _without_surge(
        stuck.change, lambda slower: ends([*changes[:at], slower, *changes[at + 1 :]], admissions)
    )
    creation = stuck.creation
    pods = [stuck.simulation.view.pods.objects[position] for position in stuck.coming]
    for number in sorted({1, max(stuck.change.surge, 1), len(pods)}) if creation and pods else ():
        assert creation is not None
        way = creation.lacking(pods[0], number)
        if way is not None and ends(changes, admissions.after(way)):
            yield around_fix(way)
            return


def _without_surge(change: Change, ends: Callable[[Change], bool]) -> Iterator[CreationFix]:
    """Each old pod goes before a new one comes."""
    if change.pace is not Pace.ROLLING or not change.surge:
        return
    if ends(dataclasses.replace(change, surge=0, unavailable=1)):
        what = f"roll {change.workload} out with maxSurge 0 and maxUnavailable 1"
        weakens = "one pod fewer may run meanwhile"
        yield CreationFix(what, by="author", kinds=("RollOutWithoutSurge",), weakens=weakens)
