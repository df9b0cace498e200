"""Where each running pod would go if it alone were made anew: under one scheduler, and under another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Position
from kschedctl.api.ownership import owner_of
from kschedctl.reports.whatif import PodsElsewhere, Replacement
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.placement import Placements
from kschedctl.snapshot.fork import Fork
from kschedctl.studies.edits.cluster_edits import returns

Nodes = tuple[str, ...]


def replacement(before: Scheduler, after: Scheduler) -> Replacement:
    """The running pods for which the equally good nodes are not the same; both look at the same cluster."""
    first, second = _Asked(before), _Asked(after)
    answers: dict[tuple[int, int, int], tuple[Nodes | None, Nodes | None]] = {}
    groups: dict[tuple[str, Nodes, Nodes], list[str]] = {}
    asked = failed = 0
    for position in _running(before.view):
        asked += 1
        pod = before.view.pods.objects[position]
        alike = (first.kind(position), second.kind(position), int(before.view.node[position]))
        if alike not in answers:
            answers[alike] = first.nodes(position), second.nodes(position)
        then, now = answers[alike]
        if then is None or now is None:
            failed += 1
        elif then != now:
            groups.setdefault((str(owner_of(pod)), then, now), []).append(pod.key)
    elsewhere = (PodsElsewhere(who, tuple(pods), *nodes) for (who, *nodes), pods in groups.items())
    return Replacement(asked, tuple(elsewhere), failed)


def _running(view: Fork) -> Iterator[Position]:
    """The pods on nodes whom somebody makes anew, and not for that very node."""
    bound = (Position(position) for position in np.flatnonzero(view.node >= 0).tolist())
    return (position for position in bound if returns(view.pods.objects[position]))


class _Asked:
    """A scheduler that is asked about pods which leave their nodes for as long as that takes."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.view = scheduler.view.fork()
        self.placements = Placements(self.view, 0, None)

    def kind(self, position: Position) -> int:
        """Pods of one number ask for the same."""
        return int(self.view.pods.info[position])

    def nodes(self, position: Position) -> Nodes | None:
        """The best nodes for the pod; none where none fits, or no profile serves it; None where a plugin fails."""
        framework, _ = self.scheduler.framework_for(self.placements.incoming(self.kind(position)), self.view)
        if framework is None:
            return ()
        row = self.view.node[position]
        self.view.forget(position)
        try:
            choice = self.placements.choose(framework, position)
        except PluginError:
            return None
        finally:
            self.view.assume(position, row)
        return () if choice is None else tuple(sorted(self.view.nodes.names[row] for row in choice.tied))
