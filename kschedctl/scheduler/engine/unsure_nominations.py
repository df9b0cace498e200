"""Nominations of gated pods, which count only if the scheduler saw the pod change. See `Fork.unsure_nominations`."""

from __future__ import annotations

from kschedctl.api.arrays import Position, Row
from kschedctl.api.kube_version import ByVersion
from kschedctl.cluster import Gap
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework.dependencies import Dependency, Effect, Unknown
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

KIND = "Nomination"
SEEN = "only pods that changed since kube-scheduler started"
ALL_COUNT = "all"
COUNTED = ByVersion(
    "gated pods whose nominatedNodeName reserves room on the node",
    (("", SEEN), ("1.37", ALL_COUNT)),
    "#139057",
)


def find_cycle_unknown(cycle: Cycle, framework: FrameworkLike) -> Unknown | None:
    """Return an unknown if the pod's answer depends on the unsure nominations, otherwise None.

    The answer depends on these nominations if counting them leaves the pod without a node or changes the best nodes.
    Return None as well for a pod that fits nowhere even without the nominations. The framework must not have extenders.
    """
    unsure_rows, _ = cycle.view.unsure_nominations
    if not len(unsure_rows) or not cycle.schedulable:
        return None
    cycle_with_nominations = run_cycle(framework, cycle.info, _nominate_unsure_pods(cycle.view))
    if cycle_with_nominations.error is not None or not cycle_with_nominations.schedulable:
        return _build_nominations_unknown(cycle.view, Effect.NARROWS)
    if cycle_with_nominations.scores.best.tolist() != cycle.scores.best.tolist():
        return _build_nominations_unknown(cycle.view, Effect.SCORES)
    return None


def find_choice_unknown(info: PodInfo, row: Row, framework: FrameworkLike, view: Fork) -> Unknown | None:
    """Return an unknown if the pod fits on `row` only while unsure nominations are not counted, otherwise None.

    Return None as well if no unsure nomination is for this row.
    """
    rows_with_unsure_nominations, _ = view.unsure_nominations
    if row not in rows_with_unsure_nominations.tolist():
        return None
    cycle = run_cycle(framework, info, _nominate_unsure_pods(view))
    return None if row in cycle.feasible.tolist() else _build_nominations_unknown(view, Effect.EITHER)


def _nominate_unsure_pods(view: Fork) -> Fork:
    """Return a fork in which all unsure nominations count like other nominations."""
    fork = view.fork()
    for row, position in zip(*(column.tolist() for column in view.unsure_nominations), strict=True):
        fork.nominate(Position(position), Row(row))
    return fork


def _build_nominations_unknown(view: Fork, effect: Effect) -> Unknown:
    """Build an unknown that names the first unsure nomination in its reason."""
    rows, positions = view.unsure_nominations
    first_pod = view.pods.objects.get_key(int(positions[0]))
    first_node = view.nodes.names[int(rows[0])]
    others = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
    # The reason continues a sentence that starts with the plural of KIND.
    condition = "the pod changed since kube-scheduler started"
    reason = f"of gated pods count only if {condition} ({first_pod} on {first_node}{others})"
    return Unknown(Dependency(KIND, effect), Gap(reason))
