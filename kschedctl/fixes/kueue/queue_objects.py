"""Fixes for queues that are stopped, and for queues and flavors that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from msgspec.structs import replace

from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import QUEUE_LABEL, ClusterQueue, LocalQueue
from kschedctl.fixes.kueue.changes import (
    WORKLOAD,
    AdmissionProposal,
    ObjectPatch,
    apply_operations,
    build_manifest,
    build_metadata_patch,
    build_operation,
    get_workload_target,
)
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.queueing.kueue.queues import is_stopped

_STOP_POLICY = "/spec/stopPolicy"
_NEARNESS = 0.75
"""The least similarity of a name that may be meant, as difflib counts."""


def search_queue_corrections(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial | None]]:
    """Yield corrections of the queues between the Workload and its flavors. Advice that needs values has no trial."""
    cluster, workload = trials.cluster, trials.workload
    namespace, name = workload.metadata.namespace, workload.spec.queue_name
    local_queues: list[LocalQueue] = list(cluster.in_namespace("local_queues", namespace))
    local_queue = next((queue for queue in local_queues if queue.metadata.name == name), None)
    if not name:
        return
    if local_queue is None:
        proposals: Iterable[AdmissionProposal] = _propose_local_queues(
            trials, name, [queue.metadata.name for queue in local_queues]
        )
    else:
        cluster_queue = next(
            (q for q in cluster.cluster_queues if q.metadata.name == local_queue.spec.cluster_queue), None
        )
        if cluster_queue is None:
            proposals = _propose_cluster_queues(local_queue, [q.metadata.name for q in cluster.cluster_queues])
        else:
            flavors = [flavor.metadata.name for flavor in cluster.resource_flavors]
            proposals = [*_propose_resuming(local_queue, cluster_queue), *_propose_flavors(cluster_queue, flavors)]
    for proposal in proposals:
        if proposal.needs_values:
            yield proposal, None
            continue
        trial = trials.run(proposal)
        if trial is not None and trials.is_admitted(trial):
            yield proposal, trial


def _propose_resuming(local_queue: LocalQueue, cluster_queue: ClusterQueue) -> Iterator[AdmissionProposal]:
    """Yield the proposal that resumes the queues of the Workload that are stopped."""
    stopped: dict[Owner, ClusterQueue | LocalQueue] = {}
    if is_stopped(cluster_queue.spec.stop_policy):
        stopped[Owner("ClusterQueue", "", cluster_queue.metadata.name)] = cluster_queue
    if is_stopped(local_queue.spec.stop_policy):
        stopped[Owner("LocalQueue", local_queue.metadata.namespace, local_queue.metadata.name)] = local_queue
    if stopped:
        operation = build_operation(_STOP_POLICY, "None")
        yield AdmissionProposal(
            f"resume {' and '.join(_format_owner(owner) for owner in stopped)}",
            "resume-queue",
            Price.NEIGHBOUR,
            "operator",
            tuple(ObjectPatch(owner, (operation,)) for owner in stopped),
            tuple((owner.kind, apply_operations(queue, (operation,))) for owner, queue in stopped.items()),
        )


def _format_owner(owner: Owner) -> str:
    """Format the kind, namespace and name of an object, which may have no namespace."""
    return str(owner) if owner.namespace else f"{owner.kind} {owner.name}"


def _find_near_name(name: str, existing: Iterable[str]) -> str | None:
    """Return the existing name that is nearly equal, or None.

    >>> _find_near_name("team-aa", ["team-a", "batch"])
    'team-a'
    """
    return next(iter(get_close_matches(name, list(existing), 1, _NEARNESS)), None)


def _propose_local_queues(trials: AdmissionTrials, name: str, existing: Iterable[str]) -> Iterator[AdmissionProposal]:
    """Yield the proposal that names a nearly equal LocalQueue, or the advice to create the missing one."""
    workload, job = trials.workload, trials.job
    namespace = workload.metadata.namespace
    near = _find_near_name(name, existing)
    if near is None:
        manifest = build_manifest("LocalQueue", {"name": name, "namespace": namespace}, {"clusterQueue": ""})
        summary = f"create LocalQueue {namespace}/{name} for the ClusterQueue that should admit the Workload"
        yield AdmissionProposal(
            summary,
            "create-queue",
            Price.CORRECTION,
            "operator",
            needs_values=("spec.clusterQueue",),
            manifests=(manifest,),
        )
        return
    edited = replace(workload, spec=replace(workload.spec, queue_name=near))
    if job is None:
        patch = ObjectPatch(get_workload_target(workload), (build_operation("/spec/queueName", near),))
    else:
        patch = build_metadata_patch(job, "labels", QUEUE_LABEL, near)
    summary = f"name LocalQueue {namespace}/{near} instead of {name}, which does not exist"
    yield AdmissionProposal(summary, "queue-name", Price.CORRECTION, "author", (patch,), ((WORKLOAD, edited),))


def _propose_cluster_queues(local_queue: LocalQueue, existing: Iterable[str]) -> Iterator[AdmissionProposal]:
    """Yield the proposal that names a nearly equal ClusterQueue, or the advice to create the missing one.

    The field clusterQueue is immutable, so the LocalQueue is created again.
    """
    meta, name = local_queue.metadata, local_queue.spec.cluster_queue
    near = _find_near_name(name, existing)
    if near is None:
        manifest = build_manifest("ClusterQueue", {"name": name}, {"namespaceSelector": {}, "resourceGroups": []})
        summary = f"create ClusterQueue {name} with a quota, since LocalQueue {meta.namespace}/{meta.name} names it"
        yield AdmissionProposal(
            summary,
            "create-queue",
            Price.CORRECTION,
            "operator",
            needs_values=("spec.resourceGroups",),
            manifests=(manifest,),
        )
        return
    operations = (build_operation("/spec/clusterQueue", near),)
    target = Owner("LocalQueue", meta.namespace, meta.name)
    own = f"LocalQueue {meta.namespace}/{meta.name}"
    summary = f"recreate {own} for ClusterQueue {near} instead of {name}, which does not exist"
    edits = (("LocalQueue", apply_operations(local_queue, operations)),)
    patch = ObjectPatch(target, operations, anew=True)
    yield AdmissionProposal(summary, "queue-name", Price.CORRECTION, "operator", (patch,), edits)


def _propose_flavors(queue: ClusterQueue, existing: list[str]) -> Iterator[AdmissionProposal]:
    """Yield the proposal that names nearly equal flavors, or the advice to create the missing ones."""
    used = {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}
    operations, corrections, without_match = [], [], []
    for group_index, group in enumerate(queue.spec.resource_groups):
        for index, flavor in enumerate(group.flavors):
            if flavor.name in existing:
                continue
            near = _find_near_name(flavor.name, [name for name in existing if name not in used])
            if near is None:
                without_match.append(flavor.name)
                continue
            used.add(near)
            corrections.append(f"ResourceFlavor {near} instead of {flavor.name}, which does not exist")
            path = f"/spec/resourceGroups/{group_index}/flavors/{index}/name"
            operations.append(build_operation(path, near))
    name = queue.metadata.name
    if without_match:
        noun = "ResourceFlavor" if len(without_match) == 1 else "ResourceFlavors"
        yield AdmissionProposal(
            f"create {noun} {', '.join(without_match)}, which ClusterQueue {name} names, with the labels of its nodes",
            "create-flavor",
            Price.CORRECTION,
            "operator",
            needs_values=("spec.nodeLabels",),
            manifests=tuple(
                build_manifest("ResourceFlavor", {"name": flavor}, {"nodeLabels": {}}) for flavor in without_match
            ),
        )
    elif operations:
        patch = ObjectPatch(Owner("ClusterQueue", "", name), tuple(operations))
        summary = f"let ClusterQueue {name} name {' and '.join(corrections)}"
        edits = (("ClusterQueue", apply_operations(queue, operations)),)
        yield AdmissionProposal(summary, "flavor-name", Price.CORRECTION, "operator", (patch,), edits)
