"""Whom preemption in a simulation evicts, and who then waits for the node.

Upstream: prepareCandidate in pkg/scheduler/framework/preemption/executor.go (v1.36).
"""

from __future__ import annotations

from random import Random

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.default_preemption import tied_candidates
from kschedctl.scheduler.post_filter import PostFilterOutcome
from kschedctl.scheduler.preemption.candidates import Candidate
from kschedctl.snapshot.fork import Fork


def chosen_candidate(outcome: PostFilterOutcome, random: Random) -> Candidate | None:
    """One of the equally good candidates, by the seed."""
    if outcome.status.code is not Code.SUCCESS:
        return None
    for result in outcome.results.values():
        if tied := tied_candidates(result):
            return tied[random.randrange(len(tied))] if len(tied) > 1 else tied[0]
    return None


def nominate(view: Fork, position: Position, row: Row) -> None:
    """The pod waits for the node; pods of lower priority do so no longer."""
    rows, positions = view.nominations
    priority = view.pods.priority
    for other in positions[rows == row].tolist():
        if priority[view.pods.info[other]] < priority[view.pods.info[position]]:
            view.nominate(other, NO_ROW)
    view.nominate(position, row)


def give_up(view: Fork, position: Position) -> None:
    """The pod waits for no node any more."""
    if view.nominated_row(position) != NO_ROW:
        view.nominate(position, NO_ROW)
