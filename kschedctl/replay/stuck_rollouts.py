"""What lets rollouts go on that a quota stops: each fix is replayed as the whole rollout."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation_fixes import around_fix
from kschedctl.replay.controllers.rollout import Rollout
from kschedctl.replay.controllers.rollout_limits import Change, Pace
from kschedctl.reports.not_created import CreationFix


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
