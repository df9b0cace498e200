"""`remedies`: the smallest verified changes that let a pending pod schedule.

Read `pod_fixes` for one pod and `pending_fixes` for all waiting pods. `add_room_plan` adds a plan that moves other
pods. The search is in `kschedctl/fixes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import structs

from kschedctl.api.arrays import Position
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.autoscaling.node_groups.discovery import UserGroups
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import PodReference, find_or_create_target
from kschedctl.commands.explain.report import UNSCHEDULABLE
from kschedctl.commands.make_room import SharedRoom, collect_pods_needing_room, make_room_and_report, start_room_making
from kschedctl.commands.make_room.movable import find_movable_pods
from kschedctl.commands.make_room.room import RoomCriteria
from kschedctl.commands.make_room.search import depends_on_other_nodes
from kschedctl.commands.make_room.sets import SetsOnNodes
from kschedctl.commands.remedies.pending_fixes import find_remedies_of_many
from kschedctl.commands.remedies.pod_fixes import find_pod_remedies
from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.fixes.new_node import (
    NO_USER_GROUPS,
    find_autoscaler_fixes,
    has_any_node_groups,
    predict_new_node_for_pod,
)
from kschedctl.fixes.ranking import insert_autoscaler_fixes
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.fixes.trial.fix_kinds import FixKind, PoolFixKind
from kschedctl.replay.controllers.creation_failures import CreationFailures, find_unread_kinds
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pending_pods import describe_scope, find_pending_pods
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.remedy import Remedy, sort_incomplete_and_costly_fixes_last
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.sources.cluster import get_read_time
from kschedctl.text.counts import counted
from kschedctl.text.deprecation import accept_old_names

ROOM_CRITERIA = RoomCriteria()
"""The limits for planning moves in addition to the search for fixes."""
ProgressCallback = Callable[[int], None]
"""Called with the number of sets of changes that were tried since the last call."""


@accept_old_names(wishes="criteria", tried="advance")
def remedies(
    cluster: Cluster,
    pod: PodReference,
    criteria: RemedyCriteria = RemedyCriteria(),
    *,
    call_extender: CallExtender | None = None,
    advance: ProgressCallback = lambda number: None,
    progress: Progress = NO_PROGRESS,
) -> Remedies:
    """Return all minimal sets of changes that let a pod schedule, each verified by replay.

    `pod` and the errors are as for `explain`. `criteria` limit the number of changes, who makes them and their kinds.
    `call_extender` calls a scheduler extender about the changed pod. `advance` is called after each set of changes that
    was tried. If the user interrupts, the report has the fixes so far.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> cordoned = {**node, "spec": {"unschedulable": True}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> found = remedies(kschedctl.Cluster.from_objects([cordoned, pod]), "default/p")
    >>> found.remedies[0].kinds
    ('Uncordon',)
    """
    return find_remedies_with_room(
        find_or_create_target(cluster, pod, call_extender), criteria, advance, progress=progress
    )


@accept_old_names(wishes="criteria", tried="advance")
def pending_remedies(
    cluster: Cluster,
    namespace: str = "",
    criteria: RemedyCriteria = RemedyCriteria(),
    *,
    selector: str = "",
    now: str = "",
    call_extender: CallExtender | None = None,
    advance: ProgressCallback = lambda number: None,
    progress: Progress = NO_PROGRESS,
) -> RemediesOfMany:
    """Find a small set of changes that lets most waiting pods schedule, verified by simulation.

    The pods are in one `namespace`, or in all namespaces if it is empty, and match the label `selector`, such as
    `app=web`. Without a selector, workloads whose pods cannot be created are listed separately. If no pod waits in the
    namespace, pods that wait in other namespaces are counted. `now` is as for `pending`, and the other arguments are as
    for `remedies`.

    >>> import kschedctl
    >>> str(pending_remedies(kschedctl.Cluster.from_objects([])))
    'Nothing is pending in any namespace'
    """
    keys = {pod.key for pod in find_pending_pods(cluster, namespace or None, selector)}
    scope = describe_scope(namespace or None, selector)
    smallest = replace(criteria, smallest=True)
    report = find_remedies_of_many(
        cluster, keys, scope, smallest, advance, progress=progress, call_extender=call_extender
    )

    # Workloads without pods have no labels of pods by which the selector could choose them.
    if not selector:
        failures = CreationFailures(cluster, now or get_read_time(cluster))
        unknown = merge_unknown_kinds((report.unknown, find_unread_kinds(cluster)))
        report = structs.replace(
            report, not_created=failures.report_current_failures(namespace or None), unknown=unknown
        )
    if namespace and not keys:
        pods_elsewhere = sum(pod.metadata.namespace != namespace for pod in find_pending_pods(cluster, namespace=None))
        report = structs.replace(report, elsewhere=pods_elsewhere)
    return report


def find_manifest_remedies(
    cluster: Cluster,
    manifests: Sequence[JsonObject | Struct],
    criteria: RemedyCriteria = RemedyCriteria(),
    *,
    written: Mapping[Owner, JsonObject] | None = None,
    call_extender: CallExtender | None = None,
    advance: ProgressCallback = lambda number: None,
    progress: Progress = NO_PROGRESS,
) -> RemediesOfMany:
    """Find a small set of changes that lets most of the manifests' pods schedule once the manifests are applied.

    If manifests are given as structs, `written` has their documents, because admission reads more fields than the
    structs have. The other arguments are as for `remedies`. Workloads whose pods cannot be created are listed
    separately. Raises InputError if a manifest is invalid.
    """
    applied = prepare_simulation(cluster, manifests, documents=dict(written or {}))
    scope = f"of {counted(len(applied.changes), 'workload')} in the manifests"
    smallest = replace(criteria, smallest=True)
    report = find_remedies_of_many(
        applied.remove_old_pods(),
        set(applied.workload_by_pod),
        scope,
        smallest,
        advance,
        progress=progress,
        call_extender=call_extender,
        manifest_by_pod=applied.manifest_by_pod,
    )
    return structs.replace(report, not_created=tuple(applied.not_created))


def find_remedies_with_room(
    target: TargetPod,
    criteria: RemedyCriteria = RemedyCriteria(),
    advance: ProgressCallback = lambda _: None,
    *,
    progress: Progress = NO_PROGRESS,
    now: str = "",
    user_groups: UserGroups = NO_USER_GROUPS,
    types: Sequence[JsonObject] | None = None,
    settings: JsonObject | None = None,
) -> Remedies:
    """Return the fixes of a pod, a plan that moves other pods, and changes that make the autoscaler add a node.

    There is no plan if one of the fixes only moves pods. `user_groups` are node groups that the user names. `types` and
    `settings` are Karpenter's instance types and options. `now` is the RFC 3339 time of the autoscaler's loop and
    defaults to the time when the cluster was read. Raises InputError if groups, types or settings are invalid. If the
    user interrupts, the report has the fixes that were found until then.
    """
    report = find_pod_remedies(target, criteria, advance, progress=progress)
    if report.interrupted:
        return report
    try:
        report = add_room_plan(report, target, criteria, progress)
        now = now or get_read_time(target.scheduler.cluster)
        return _add_autoscaler_fixes(
            report, target, criteria, now=now, user_groups=user_groups, types=types, settings=settings
        )
    except KeyboardInterrupt:
        return replace(report, interrupted=True)


def add_room_plan(
    report: Remedies, target: TargetPod, criteria: RemedyCriteria, progress: Progress = NO_PROGRESS
) -> Remedies:
    """Add a plan that moves other pods to the report, or return the report unchanged if there is none.

    No plan is searched if the pod is not unschedulable, if the criteria exclude moves, or if one of the report's fixes
    only moves pods. There is no plan either if moves alone do not let the pod fit. If the user interrupts the search,
    the report says so.
    """
    has_moving_fix = any(set(remedy.kinds) == {FixKind.MOVE_POD} for remedy in report.remedies)
    if report.verdict != UNSCHEDULABLE or has_moving_fix or not criteria.considers(FixKind.MOVE_POD, "operator"):
        return report
    on_planned = progress.begin("trying moves", 0)
    on_planned(0)  # shows the progress at once
    cluster, keys = collect_pods_needing_room([target])
    is_same_cluster = cluster is target.scheduler.cluster
    scheduler = target.scheduler if is_same_cluster else Scheduler(cluster, target.scheduler.call_extender)
    if not _can_moves_help(scheduler, keys[0]):
        return report
    room_making = start_room_making(scheduler, SharedRoom(cluster, tuple(keys), ROOM_CRITERIA, seed=0))
    room_making.advance = on_planned
    room = make_room_and_report(room_making)
    report = replace(report, interrupted=room.interrupted)
    return replace(report, make_room=room) if room.fits and room.moves else report


def _can_moves_help(scheduler: Scheduler, key: str) -> bool:
    """Return whether moving other pods may let the pod with this key fit.

    Moves may help if the pod would fit on some node without the movable pods there, or if pods on other nodes keep it
    away. They do not help if no profile serves the pod.
    """
    simulation = Simulation(scheduler)
    position = Position(simulation.view.pods.index[key])
    if simulation.find_framework(position) is None:
        return False
    everywhere = np.ones(len(simulation.view.nodes), np.bool_)
    movable_pods = find_movable_pods(simulation, everywhere, keep=None, spared=[position])
    cycle = simulation.run_cycle(position)
    if depends_on_other_nodes(cycle):
        return True
    return bool(SetsOnNodes(cycle, movable_pods, movable_pods.pods, everywhere).promising.any())


def _add_autoscaler_fixes(
    report: Remedies,
    target: TargetPod,
    criteria: RemedyCriteria,
    *,
    now: str,
    user_groups: UserGroups,
    types: Sequence[JsonObject] | None,
    settings: JsonObject | None,
) -> Remedies:
    """Add to the report the fixes that would let an autoscaler create a node for the pod.

    The report is returned unchanged if the pod is not unschedulable, if no autoscaler is known, or if the criteria
    exclude such fixes. Raises InputError if the node groups, types or settings are invalid.
    """
    cluster = target.scheduler.cluster
    has_autoscaler = has_any_node_groups(cluster, user_groups) or cluster.karpenter_node_pools
    if report.verdict != UNSCHEDULABLE or not has_autoscaler:
        return report
    if not any(criteria.considers(kind, "operator") for kind in PoolFixKind):
        return report
    answer = predict_new_node_for_pod(target, now, user_groups, types, settings)
    fixes: tuple[Remedy, ...] = ()
    if answer is not None:
        fixes = find_autoscaler_fixes(target, answer, now, user_groups, types=types, settings=settings)
    matching_fixes = [fix for fix in fixes if all(criteria.considers(kind, fix.by) for kind in fix.kinds)]
    all_fixes = insert_autoscaler_fixes(report.remedies, matching_fixes)
    return structs.replace(report, remedies=sort_incomplete_and_costly_fixes_last(all_fixes))
