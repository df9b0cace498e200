"""``remedies``: which changes would let this pod schedule?

Read ``pod_fixes`` for one pod and ``pending_fixes`` for all that wait. ``creation_fixes`` has the fixes of pods that
are not created, ``with_room`` adds plans that move pods. The search is in ``kschedctl/fixes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from msgspec import structs

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.autoscaling.node_groups.found import UserGroups
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import PodReference, find_target
from kschedctl.commands.explain.report import UNSCHEDULABLE
from kschedctl.commands.remedies.pending_fixes import remedies_of_many
from kschedctl.commands.remedies.pod_fixes import remedies_of
from kschedctl.commands.remedies.report import Remedies, RemediesOfMany
from kschedctl.commands.remedies.with_room import with_room
from kschedctl.commands.simulate import prepare
from kschedctl.fixes.new_node import NOBODY, autoscaler_fixes, has_groups, new_node_alone
from kschedctl.fixes.node_pools import AUTOSCALER_KINDS
from kschedctl.fixes.ranking import with_autoscaler_fixes
from kschedctl.fixes.search import RemedyWishes
from kschedctl.replay.controllers.creation_failures import CreationFailures, find_unread_kinds
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_pods import describe_scope, find_pending_pods
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.reports.remedy import complete_first
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.sources.cluster import get_read_time
from kschedctl.text.counts import counted

Tried = Callable[[int], None]
"""Is told of each set of changes that is tried."""


def remedies(
    cluster: Cluster,
    pod: PodReference,
    wishes: RemedyWishes = RemedyWishes(),
    *,
    call_extender: CallExtender | None = None,
    tried: Tried = lambda number: None,
) -> Remedies:
    """All minimal sets of changes that let a pod schedule; the pod as ``explain`` takes it, and its errors.

    ``wishes``: how many changes, whose, of which kinds. ``call_extender``: as for explain; the changed pod is asked
    about. ``tried`` is told of each set of changes that is tried.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> cordoned = {**node, "spec": {"unschedulable": True}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> found = remedies(kschedctl.Cluster.from_objects([cordoned, pod]), "default/p")
    >>> found.remedies[0].kinds
    ('Uncordon',)
    """
    return remedies_with_room(find_target(cluster, pod, call_extender), wishes, tried)


def remedies_with_room(
    asked: TargetPod,
    wishes: RemedyWishes = RemedyWishes(),
    tried: Tried = lambda _: None,
    *,
    now: str = "",
    given: UserGroups = NOBODY,
) -> Remedies:
    """Fixes of a pod, with a plan that moves others where no fix is that.

    ``given``: node groups that people name; ``now``: the RFC 3339 time of the autoscaler's loop. Raises InputError.
    """
    report = with_room(remedies_of(asked, wishes, tried), asked, wishes)
    return _with_autoscaler(report, asked, wishes, now or get_read_time(asked.scheduler.cluster), given)


def _with_autoscaler(report: Remedies, asked: TargetPod, wishes: RemedyWishes, now: str, given: UserGroups) -> Remedies:
    """Return the fixes with those that let an autoscaler make a node for the pod."""
    cluster = asked.scheduler.cluster
    if report.verdict != UNSCHEDULABLE or not (has_groups(cluster, given) or cluster.karpenter_node_pools):
        return report
    if not any(wishes.considers(kind, "operator") for kind in AUTOSCALER_KINDS):
        return report
    verdict = new_node_alone(asked, now, given)
    fixes = autoscaler_fixes(asked, verdict, now, given) if verdict else ()
    wished = [fix for fix in fixes if all(wishes.considers(kind, fix.by) for kind in fix.kinds)]
    return structs.replace(report, remedies=complete_first(with_autoscaler_fixes(report.remedies, wished)))


def pending_remedies(
    cluster: Cluster,
    namespace: str = "",
    wishes: RemedyWishes = RemedyWishes(),
    *,
    selector: str = "",
    now: str = "",
    call_extender: CallExtender | None = None,
    tried: Tried = lambda number: None,
) -> RemediesOfMany:
    """The few changes that clear most of the pods that wait, chosen greedily by simulation.

    Of one ``namespace``, or of all; ``selector``: of these labels alone, as ``app=web``; ``now``: as for ``pending``;
    the others as for ``remedies``. Workloads whose pods cannot be created are named: those do not wait.

    >>> import kschedctl
    >>> str(pending_remedies(kschedctl.Cluster.from_objects([])))
    'No pod waits in all namespaces'
    """
    keys = {pod.key for pod in find_pending_pods(cluster, namespace or None, selector)}
    scope, smallest = describe_scope(namespace or None, selector), replace(wishes, smallest=True)
    report = remedies_of_many(cluster, keys, scope, smallest, tried, call_extender=call_extender)
    lacking = (
        () if selector else CreationFailures(cluster, now or get_read_time(cluster)).report_current(namespace or None)
    )
    unknown = merge_unknown_kinds((report.unknown, () if selector else find_unread_kinds(cluster)))
    others = 0 if keys else sum(pod.metadata.namespace != namespace for pod in find_pending_pods(cluster, None))
    return structs.replace(report, not_created=lacking, unknown=unknown, elsewhere=others if namespace else 0)


def manifest_remedies(
    cluster: Cluster,
    manifests: Sequence[JsonObject | Struct],
    wishes: RemedyWishes = RemedyWishes(),
    *,
    written: Mapping[Owner, JsonObject] | None = None,
    call_extender: CallExtender | None = None,
    tried: Tried = lambda number: None,
) -> RemediesOfMany:
    """Return the few changes that clear most of the pods of these manifests that would wait if they were applied.

    ``written``: the manifests that are given as structs, as documents, of which admission reads more. The others are as
    for ``remedies``. Workloads whose pods could not be created are named: those do not wait. Raises InputError.
    """
    applied = prepare(cluster, manifests, counting=dict(written or {}))
    scope = f"of {counted(len(applied.changes), 'workload')} in the manifests"
    smallest = replace(wishes, smallest=True)
    report = remedies_of_many(
        applied.cluster, set(applied.workloads), scope, smallest, tried, call_extender=call_extender
    )
    return structs.replace(report, not_created=tuple(applied.not_created))
