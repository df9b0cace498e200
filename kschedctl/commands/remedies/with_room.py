"""Add a plan that moves other pods to the fixes of a pod."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.commands.make_room.movable import find_movable
from kschedctl.commands.make_room.plan import SharedRoom, _finish, _start, collect_waiting
from kschedctl.commands.make_room.room import RoomWishes
from kschedctl.commands.make_room.search import depends_on_other_nodes
from kschedctl.commands.make_room.sets import SetsOnNodes
from kschedctl.commands.remedies.report import Remedies
from kschedctl.fixes.search import RemedyWishes
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

MOVE = "MovePod"
"""The kind of fix that moves pods."""


BESIDE_REMEDIES = RoomWishes(seconds=10)
"""The limits for planning moves in addition to the search for fixes."""


def add_room_plan(report: Remedies, asked: TargetPod, wishes: RemedyWishes) -> Remedies:
    """Return the report with a plan that moves other pods, if one is wished for and no fix only moves pods."""
    moved = any(set(remedy.kinds) == {MOVE} for remedy in report.remedies)
    if report.verdict != "Unschedulable" or moved or not wishes.considers(MOVE, "operator"):
        return report
    cluster, keys = collect_waiting([asked])
    known = cluster is asked.scheduler.cluster
    scheduler = asked.scheduler if known else Scheduler(cluster, asked.scheduler.call_extender)
    if not _may_moves_help(scheduler, keys[0]):
        return report
    room = _finish(_start(scheduler, SharedRoom(cluster, tuple(keys), BESIDE_REMEDIES, seed=0)))
    return replace(report, make_room=room) if room.fits and room.moves else report


def _may_moves_help(scheduler: Scheduler, key: str) -> bool:
    """Return whether the pod fits somewhere without the movable pods, or depends on pods of other nodes."""
    simulation = Simulation(scheduler)
    position = Position(simulation.view.pods.index[key])
    if simulation.framework(position) is None:
        return False
    everywhere = np.ones(len(simulation.view.nodes), np.bool_)
    movable_pods, cycle = find_movable(simulation, everywhere, None, [position]), simulation.run_cycle(position)
    return depends_on_other_nodes(cycle) or bool(
        SetsOnNodes(cycle, movable_pods, movable_pods.pods, everywhere).promising.any()
    )
