"""What fits nowhere in a simulation as things are, and why; pods alike share it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from kschedctl.api.arrays import Position
from kschedctl.api.gangs import GangKey
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.engine.permit import PermitOutcome
from kschedctl.scheduler.engine.post_filter import run_post_filter
from kschedctl.scheduler.engine.rejectors import NONE, Rejectors, rejectors_of
from kschedctl.scheduler.queueing.waiting_pods import PREEMPTION_LOOP
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.gangs import Gangs
from kschedctl.scheduler.simulation.outcome import UNSCHEDULABLE, Outcome
from kschedctl.scheduler.simulation.placement import Placements


class KnownFailures:
    """Kept until a pod moves. ``framework`` finds the profile that serves a pod.

    ``left_for``: why pods of gangs left the nodes on which they waited for each other.
    """

    def __init__(self, placements: Placements, gangs: Gangs, framework: Callable[[Position], Framework]) -> None:
        self.view, self._placements, self._gangs, self._framework = placements.view, placements, gangs, framework
        self.left_for: dict[Position, PermitOutcome] = {}
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
            known[like] = rejectors_of(self._placements.cycle(self._framework(position), position))
        return known[like] or NONE

    def message(self, position: Position) -> str:
        """Why a pod fits nowhere now, as kube-scheduler says it."""
        cycle = self._placements.cycle(self._framework(position), position)
        self.add(position, rejectors_of(cycle))
        return cycle.error or fit_error(cycle, run_post_filter(cycle).message)

    def explained(self, outcomes: Iterable[Outcome]) -> list[Outcome]:
        """The outcomes, with why pods fit nowhere as things are now, where it is not said."""
        messages: dict[Hashable, str] = {}
        outcomes, found = list(outcomes), []
        silent = [o.position for o in outcomes if o.verdict == UNSCHEDULABLE and not o.message]
        in_groups = [position for position in silent if self.left_for.get(position) != PREEMPTION_LOOP]
        of_groups = self._gangs.messages(in_groups, self._framework)
        for outcome in outcomes:
            position = outcome.position
            if outcome.verdict != UNSCHEDULABLE or outcome.message:
                found.append(outcome)
                continue
            if position in of_groups or position in self.left_for:
                said = of_groups.get(position) or self.left_for[position].message
                found.append(outcome._replace(message=said))
                continue
            like = self._likeness(position)
            if like not in messages:
                messages[like] = self.message(position)
            found.append(outcome._replace(message=messages[like]))
        return found

    @property
    def _known(self) -> dict[Hashable, Rejectors | None]:
        if self._seen != len(self.view.trail):
            self._seen, self._found = len(self.view.trail), {}
        return self._found

    def _likeness(self, position: Position) -> Hashable:
        like, history = self._placements.likeness(self._framework(position), position), self.view.gang_history
        gang = self._gangs.key(position) if history else None
        return (like, history.state(gang)) if history and isinstance(gang, GangKey) else like
