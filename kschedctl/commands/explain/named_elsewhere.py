"""Answers about objects that wait for another controller before kube-scheduler sees their pods.

Such an object is a Workload of Kueue, for example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kschedctl.api.gangs import find_gangs
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope, Source
from kschedctl.cli.references import HELD_BACK_KINDS, Reference, parse_references
from kschedctl.cli.source import with_context_namespace
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.errors import UsageError
from kschedctl.replay.waiting_elsewhere import find_objects_waiting_elsewhere, find_unread_waiting_kinds
from kschedctl.replay.waiting_elsewhere.suspended_jobs import has_queues
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState, has_unchecked_objects


def build_waiting_objects_report(
    inquiry: Inquiry, words: Sequence[str], scope: Scope, source: Source, now: str, *, remedies: bool = False
) -> PendingPods | None:
    """Build a report on the named objects, such as Jobs, that wait before kube-scheduler sees their pods.

    Return None if the words name only pods and workloads. With ``remedies``, also search for fixes for Kueue's
    Workloads. Raises UsageError if an object does not exist, or if the words mix such objects with pods and workloads.
    """
    default_namespace = with_context_namespace(scope, source, inquiry.cluster).namespace or DEFAULT_NAMESPACE
    waiting = find_objects_waiting_elsewhere(inquiry.cluster, namespace=None, now=now)
    targets = [
        _find_waiting_object(inquiry.cluster, reference, scope, default_namespace, waiting)
        for reference in parse_references(words)
    ]
    objects = [target for target in targets if target is not None]
    if not objects:
        return None
    if len(objects) < len(targets):
        raise UsageError(
            f"{objects[0]} waits for another controller and has no pod to explain",
            hint="explain it and the pods in separate commands",
        )
    # An object waits if there is an entry for it or for something that is part of it
    titles = {str(owner) for owner in objects}
    entries = tuple(entry for entry in waiting if not titles.isdisjoint((entry.resource, *entry.part_of)))
    if remedies:
        entries = add_kueue_fixes(inquiry.cluster, entries, now)
    return PendingPods(
        scope="",
        waiting_elsewhere=entries,
        asked_about=tuple(map(str, objects)),
        unknown=find_unread_waiting_kinds(inquiry.cluster) if not entries else (),
        undecided=has_unchecked_objects(entries),
    )


def add_kueue_fixes(
    cluster: Cluster, entries: tuple[WaitingElsewhere, ...], now: str, manifests: Iterable[Struct] = ()
) -> tuple[WaitingElsewhere, ...]:
    """Add fixes to the entries about Kueue's Workloads and about new jobs that Kueue does not admit.

    Return the entries unchanged if the cluster has no queues. `manifests` has the jobs that are not in the cluster.
    """
    if not entries or not has_queues(cluster):
        return entries
    from kschedctl.fixes.kueue.search import add_admission_fixes  # noqa: PLC0415 - only where Workloads wait

    return add_admission_fixes(cluster, entries, now, manifests)


def find_new_resources(cluster: Cluster, now: str) -> tuple[WaitingElsewhere, ...]:
    """Find the objects of the manifests, not in the cluster yet, that wait before kube-scheduler sees their pods."""
    return tuple(
        entry for entry in find_objects_waiting_elsewhere(cluster, namespace=None, now=now) if not entry.exists
    )


def report_new_resources(
    cluster: Cluster, now: str, *, queued_only: bool = False, remedies: bool = False
) -> PendingPods | None:
    """Report on the manifests' objects that wait before kube-scheduler sees their pods. Return None if none waits.

    With ``queued_only``, objects that wait for something other than a queue are left out. With ``remedies``, also
    search for fixes for the jobs that Kueue does not admit.
    """
    entries = find_new_resources(cluster, now)
    if queued_only:
        queued_states = (WaitingState.NOT_ADMITTED, WaitingState.ADMISSIBLE)
        entries = tuple(entry for entry in entries if entry.state in queued_states)
    if not entries:
        return None
    if remedies:
        entries = add_kueue_fixes(cluster, entries, now)
    return PendingPods(
        scope="",
        waiting_elsewhere=entries,
        asked_about=tuple(entry.resource for entry in entries),
        undecided=has_unchecked_objects(entries),
    )


def expand_pod_groups(inquiry: Inquiry, words: Sequence[str], scope: Scope, source: Source) -> list[str]:
    """Return the words, with each PodGroup replaced by the keys of its pods without a node.

    A word stays if it names anything else, or a group without such pods.
    """
    default_namespace = with_context_namespace(scope, source, inquiry.cluster).namespace or DEFAULT_NAMESPACE
    expanded: list[str] = []
    for word, reference in zip(words, _parse_references_by_word(words), strict=True):
        members: list[Pod] = []
        if reference is not None and reference.kind == "PodGroup":
            members = _find_unbound_members(inquiry.cluster, reference, default_namespace, scope)
        expanded += [pod.key for pod in members] or [word]
    return expanded


def _parse_references_by_word(words: Sequence[str]) -> list[Reference | None]:
    """Parse each word into a reference. The first word becomes None if it only names the kind, as in "pods a b"."""
    references: list[Reference | None] = list(parse_references(words))
    if len(references) < len(words):
        references.insert(0, None)
    return references


def _find_unbound_members(cluster: Cluster, group: Reference, default_namespace: str, scope: Scope) -> list[Pod]:
    """Find the pods of a PodGroup that wait for a node. Pods that have ended are left out."""
    namespace = group.namespace or scope.namespace or default_namespace
    return [
        pod
        for pod in cluster.unbound_pods()
        if pod.metadata.namespace == namespace and group.name in _find_gang_names(pod) and not pod.terminated
    ]


def _find_gang_names(pod: Pod) -> set[str]:
    """Return the names of the pod's PodGroup and of its gangs in other projects, such as Volcano."""
    names = {key.name for key in find_gangs(pod)}
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        names.add(group.pod_group_name)
    return names


def _find_waiting_object(
    cluster: Cluster, reference: Reference, scope: Scope, default_namespace: str, waiting: Sequence[WaitingElsewhere]
) -> Owner | None:
    """Find the object that the reference names, and return its identity, or None if it is a pod or a workload.

    `waiting` has all objects that wait. Raises UsageError if the object does not exist and is of a kind whose pods
    kube-scheduler does not see yet.
    """
    kind, namespace, name = reference
    in_all_namespaces = scope.all_namespaces and not namespace
    namespaces = None if in_all_namespaces else {namespace or scope.namespace or default_namespace}
    if kind not in HELD_BACK_KINDS:
        return _find_waiting_foreign_job(cluster, reference, namespaces, waiting)
    for field in HELD_BACK_KINDS[kind]:
        for obj in getattr(cluster, field):
            is_in_scope = namespaces is None or obj.metadata.namespace in namespaces
            if obj.metadata.name == name and is_in_scope:
                return Owner(kind, obj.metadata.namespace, name)
    location = f' in namespace "{next(iter(namespaces))}"' if namespaces else ""
    raise UsageError(f'{kind.lower()} "{name}" not found{location}')


def _find_waiting_foreign_job(
    cluster: Cluster, reference: Reference, namespaces: set[str] | None, waiting: Sequence[WaitingElsewhere]
) -> Owner | None:
    """Find the waiting Job of another API group, such as Volcano's, that the reference names.

    Return None if there is none, if it already has pods, or if a batch Job has the same name. `namespaces` are the
    namespaces to search, or None for all.
    """
    if reference.kind != "Job":
        return None
    from kschedctl.replay.controllers.workload_pods import find_pods_of_owner  # noqa: PLC0415 - only for Jobs

    for owner in _iter_waiting_objects_and_parents(waiting):
        if owner.kind != "Job" or owner.name != reference.name:
            continue
        if namespaces is not None and owner.namespace not in namespaces:
            continue
        batch_jobs = {job.metadata.name for job in cluster.list_in_namespace(FIELDS["Job"], owner.namespace)}
        if owner.name not in batch_jobs and not find_pods_of_owner(cluster, owner):
            return owner
    return None


def _iter_waiting_objects_and_parents(waiting: Iterable[WaitingElsewhere]) -> Iterator[Owner]:
    """Yield the identity of each waiting object, followed by the identities of the objects that it is part of."""
    for entry in waiting:
        yield from map(Owner.parse, (entry.resource, *entry.part_of))
