"""Fixes for queues that are stopped, and for queues and flavors that do not exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import QUEUE_LABEL, ClusterQueue, LocalQueue
from kschedctl.fixes.kueue.changes import (
    WORKLOAD,
    AdmissionProposal,
    ObjectPatch,
    apply_operations,
    build_kueue_manifest,
    build_metadata_patch,
    build_operation,
    build_workload_target,
)
from kschedctl.fixes.kueue.trials import AdmissionTrial, AdmissionTrials
from kschedctl.fixes.trial.fix_kinds import Price
from kschedctl.kueue.queues import is_stopped

_STOP_POLICY = "/spec/stopPolicy"
_NEARNESS = 0.75
"""The least similarity of a name that may be meant, as difflib counts."""


class _FlavorReplacement(NamedTuple):
    """A missing flavor of a ClusterQueue, and the existing flavor with a similar name that replaces it."""

    pointer: str
    """The JSON pointer of the flavor's name in the ClusterQueue."""
    missing: str
    existing: str


def search_queue_corrections(trials: AdmissionTrials) -> Iterator[tuple[AdmissionProposal, AdmissionTrial | None]]:
    """Yield proposals to create, correct or resume the queues and flavors that the Workload needs, each with its trial.

    A proposal that needs values from the user comes without a trial. Any other is yielded only if its trial admits the
    Workload. Only the first missing object is corrected: the LocalQueue, the ClusterQueue, or flavors. If both queues
    exist, stopped queues are resumed as well.
    """
    if not trials.workload.spec.queue_name:
        return
    for proposal in _propose_queue_corrections(trials):
        if proposal.needs_values:
            yield proposal, None
            continue
        trial = trials.replay_proposal(proposal)
        if trial is not None and trials.is_admitted(trial):
            yield proposal, trial


def _propose_queue_corrections(trials: AdmissionTrials) -> Iterator[AdmissionProposal]:
    """Yield proposals that correct the first missing object that the Workload needs.

    If its queues exist, yield a proposal to resume the stopped ones, if any, and then proposals to correct missing
    flavors.
    """
    cluster, workload = trials.cluster, trials.workload
    queue_name = workload.spec.queue_name
    local_queues: list[LocalQueue] = list(cluster.list_in_namespace("local_queues", workload.metadata.namespace))
    local_queue = next((queue for queue in local_queues if queue.metadata.name == queue_name), None)
    if local_queue is None:
        local_queue_names = [queue.metadata.name for queue in local_queues]
        yield from _propose_local_queue_correction(trials, queue_name, local_queue_names)
        return

    cluster_queues = {queue.metadata.name: queue for queue in cluster.cluster_queues}
    cluster_queue = cluster_queues.get(local_queue.spec.cluster_queue)
    if cluster_queue is None:
        yield from _propose_cluster_queue_correction(local_queue, list(cluster_queues))
        return
    yield from _propose_queue_resumption(local_queue, cluster_queue)
    flavor_names = [flavor.metadata.name for flavor in cluster.resource_flavors]
    yield from _propose_flavor_correction(cluster_queue, flavor_names)


def _propose_queue_resumption(local_queue: LocalQueue, cluster_queue: ClusterQueue) -> Iterator[AdmissionProposal]:
    """Yield one proposal that resumes the Workload's LocalQueue, ClusterQueue or both, if they are stopped."""
    stopped: dict[Owner, ClusterQueue | LocalQueue] = {}
    if is_stopped(cluster_queue.spec.stop_policy):
        stopped[Owner("ClusterQueue", "", cluster_queue.metadata.name)] = cluster_queue
    if is_stopped(local_queue.spec.stop_policy):
        stopped[Owner("LocalQueue", local_queue.metadata.namespace, local_queue.metadata.name)] = local_queue
    if stopped:
        operation = build_operation(_STOP_POLICY, "None")
        yield AdmissionProposal(
            summary=f"resume {' and '.join(_format_owner(owner) for owner in stopped)}",
            kind="resume-queue",
            price=Price.NEIGHBOUR,
            by="operator",
            patches=tuple(ObjectPatch(owner, (operation,)) for owner in stopped),
            edits=tuple((owner.kind, apply_operations(queue, (operation,))) for owner, queue in stopped.items()),
        )


def _format_owner(owner: Owner) -> str:
    """Format an object as its kind, namespace and name. The namespace is left out if it is empty."""
    return str(owner) if owner.namespace else f"{owner.kind} {owner.name}"


def _find_near_name(name: str, existing: Iterable[str]) -> str | None:
    """Return the existing name that is most similar to `name`, or None if no name is similar enough.

    >>> _find_near_name("team-aa", ["team-a", "batch"])
    'team-a'
    """
    return next(iter(get_close_matches(name, list(existing), 1, _NEARNESS)), None)


def _propose_local_queue_correction(
    trials: AdmissionTrials, name: str, existing: Iterable[str]
) -> Iterator[AdmissionProposal]:
    """Yield the proposal to point the Workload to an existing LocalQueue with a similar name.

    If there is no such queue, yield the advice to create the missing LocalQueue.
    """
    workload, job = trials.workload, trials.job
    namespace = workload.metadata.namespace
    near = _find_near_name(name, existing)
    if near is None:
        manifest = build_kueue_manifest("LocalQueue", {"name": name, "namespace": namespace}, {"clusterQueue": ""})
        summary = f"create LocalQueue {namespace}/{name} for the ClusterQueue that should admit the Workload"
        yield AdmissionProposal(
            summary,
            kind="create-queue",
            price=Price.CORRECTION,
            by="operator",
            needs_values=("spec.clusterQueue",),
            manifests=(manifest,),
        )
        return
    edited = replace(workload, spec=replace(workload.spec, queue_name=near))
    if job is None:
        patch = ObjectPatch(build_workload_target(workload), (build_operation("/spec/queueName", near),))
    else:
        patch = build_metadata_patch(job, "labels", QUEUE_LABEL, near)
    summary = f"use LocalQueue {namespace}/{near} instead of {name}, which does not exist"
    yield AdmissionProposal(
        summary, "queue-name", Price.CORRECTION, by="author", patches=(patch,), edits=((WORKLOAD, edited),)
    )


def _propose_cluster_queue_correction(local_queue: LocalQueue, existing: Iterable[str]) -> Iterator[AdmissionProposal]:
    """Yield the proposal to point the LocalQueue to an existing ClusterQueue with a similar name.

    The LocalQueue is recreated, because its field clusterQueue is immutable. If there is no such ClusterQueue, yield
    the advice to create the missing ClusterQueue.
    """
    meta, name = local_queue.metadata, local_queue.spec.cluster_queue
    near = _find_near_name(name, existing)
    if near is None:
        manifest = build_kueue_manifest("ClusterQueue", {"name": name}, {"namespaceSelector": {}, "resourceGroups": []})
        summary = f"create ClusterQueue {name} with a quota; LocalQueue {meta.namespace}/{meta.name} refers to it"
        yield AdmissionProposal(
            summary,
            kind="create-queue",
            price=Price.CORRECTION,
            by="operator",
            needs_values=("spec.resourceGroups",),
            manifests=(manifest,),
        )
        return
    operations = (build_operation("/spec/clusterQueue", near),)
    target = Owner("LocalQueue", meta.namespace, meta.name)
    queue_text = f"LocalQueue {meta.namespace}/{meta.name}"
    summary = f"recreate {queue_text} for ClusterQueue {near} instead of {name}, which does not exist"
    edits = (("LocalQueue", apply_operations(local_queue, operations)),)
    patch = ObjectPatch(target, operations, anew=True)
    yield AdmissionProposal(summary, "queue-name", Price.CORRECTION, by="operator", patches=(patch,), edits=edits)


def _propose_flavor_correction(queue: ClusterQueue, existing: list[str]) -> Iterator[AdmissionProposal]:
    """Yield at most one proposal, which replaces the ClusterQueue's missing flavors by ones with similar names.

    If a missing flavor has no similar name, the proposal instead creates all flavors without a similar name. Nothing is
    yielded if all flavors exist.
    """
    # Find an unused flavor with a similar name for each missing one
    used_names = {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}
    replacements: list[_FlavorReplacement] = []
    names_without_match = []
    for group_index, group in enumerate(queue.spec.resource_groups):
        for index, flavor in enumerate(group.flavors):
            if flavor.name in existing:
                continue
            near = _find_near_name(flavor.name, [name for name in existing if name not in used_names])
            if near is None:
                names_without_match.append(flavor.name)
                continue
            used_names.add(near)
            pointer = f"/spec/resourceGroups/{group_index}/flavors/{index}/name"
            replacements.append(_FlavorReplacement(pointer, missing=flavor.name, existing=near))

    name = queue.metadata.name
    if names_without_match:  # renaming only the other flavors would not help
        yield _build_flavor_creation_proposal(name, names_without_match)
    elif replacements:
        operations = tuple(build_operation(replacement.pointer, replacement.existing) for replacement in replacements)
        patch = ObjectPatch(Owner("ClusterQueue", "", name), operations)
        corrections = [
            f"ResourceFlavor {replacement.existing} instead of {replacement.missing}, which does not exist"
            for replacement in replacements
        ]
        summary = f"let ClusterQueue {name} name {' and '.join(corrections)}"
        edits = (("ClusterQueue", apply_operations(queue, operations)),)
        yield AdmissionProposal(summary, "flavor-name", Price.CORRECTION, by="operator", patches=(patch,), edits=edits)


def _build_flavor_creation_proposal(queue_name: str, flavor_names: Sequence[str]) -> AdmissionProposal:
    """Build the proposal to create the flavors to which a ClusterQueue refers. It needs the labels of their nodes."""
    noun, pronoun = ("ResourceFlavor", "it") if len(flavor_names) == 1 else ("ResourceFlavors", "them")
    names = ", ".join(flavor_names)
    return AdmissionProposal(
        f"create {noun} {names} with the labels of its nodes; ClusterQueue {queue_name} refers to {pronoun}",
        kind="create-flavor",
        price=Price.CORRECTION,
        by="operator",
        needs_values=("spec.nodeLabels",),
        manifests=tuple(
            build_kueue_manifest("ResourceFlavor", {"name": flavor}, {"nodeLabels": {}}) for flavor in flavor_names
        ),
    )
