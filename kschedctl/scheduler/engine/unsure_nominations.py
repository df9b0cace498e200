"""Nodes that gated pods are nominated for: whether others yield to these hangs on what the scheduler saw.

See ``Fork.unsure_nominations``.
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.arrays import Position, Row
from kschedctl.api.kube_version import ByVersion
from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

KIND = "Nomination"
SEEN = "only if kube-scheduler saw the pod change since it started"
COUNTED = ByVersion(
    "the nominations of gated pods that count",
    (("", SEEN), ("1.37", "all")),
    "#139057",
)


def in_cycle(cycle: Cycle, framework: FrameworkLike) -> Iterator[Unknown]:
    """Doubts whether they count, where another answer would follow; ``framework`` asks no extender."""
    if not len(cycle.view.unsure_nominations[0]) or not cycle.schedulable:
        return
    counted = run_cycle(framework, cycle.info, _with_all(cycle.view))
    if counted.error is not None or not counted.schedulable:
        yield _unknown(cycle.view, Effect.NARROWS)
    elif counted.scores.best.tolist() != cycle.scores.best.tolist():
        yield _unknown(cycle.view, Effect.SCORES)


def in_choice(info: PodInfo, row: Row, framework: FrameworkLike, view: Fork) -> Iterator[Unknown]:
    """What is unknown of nominations on a row that was chosen for a pod."""
    if row in view.unsure_nominations[0].tolist():
        counted = run_cycle(framework, info, _with_all(view))
        if row not in counted.feasible.tolist():
            yield _unknown(view, Effect.EITHER)


def _with_all(view: Fork) -> Fork:
    """The answer if the scheduler knew of all of them."""
    fork = view.fork()
    for row, position in zip(*(column.tolist() for column in view.unsure_nominations), strict=True):
        fork.nominate(Position(position), Row(row))
    return fork


def _unknown(view: Fork, effect: Effect) -> Unknown:
    rows, positions = view.unsure_nominations
    first = f"{view.pods.objects[int(positions[0])].key} on {view.nodes.names[int(rows[0])]}"
    more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    why = f"of gated pods count {SEEN} ({first}{more})"
    return Unknown(Dependency(KIND, effect), Gap(why))
