"""Create pods from manifests that are not in the cluster yet, and find reasons why they might not be created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import Pod
from kschedctl.api.validation.manifests import KINDS
from kschedctl.api.workloads import format_title
from kschedctl.cluster import Cluster, convert_document, describe_document, fill_namespace
from kschedctl.commands.explain.report import FINE, Explanation, ReplicaCount
from kschedctl.errors import InputError
from kschedctl.replay.controllers.creation import admit_pod
from kschedctl.replay.controllers.manifests import classify_manifests
from kschedctl.replay.controllers.other_replicas import place_replicas
from kschedctl.replay.controllers.target_creation import create_targets
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.unreplayed_admission import (
    HOOK_KINDS,
    describe_unreplayed_limits,
    find_uncalled_admission_hooks,
    find_unread_admission_kinds,
)
from kschedctl.replay.denials import raise_if_denied, raise_if_struct_denied
from kschedctl.reports.not_created import NOT_CREATED, NotCreated, OnceCreated
from kschedctl.reports.unknown import UnknownKind, describe_unread_kinds
from kschedctl.scheduler.scheduler import Scheduler


def validate_new_object(manifest: JsonObject | Pod, cluster: Cluster) -> None:
    """Raise InputError if the API server would reject the manifest's object.

    Decoded pods, kinds that are not validated here, and objects with a uid, which already exist, are not checked.
    """
    if isinstance(manifest, Pod) or manifest.get("kind") not in KINDS:
        return
    is_stored = object_at(manifest, "metadata").get("uid")
    if not is_stored:
        raise_if_denied(manifest, cluster, admission=False)


def create_target_pod(scheduler: Scheduler, pod: JsonObject | Pod) -> TargetPod:
    """Create the target pod to explain from a pod, or from the manifest of a pod or workload.

    For a workload, the target is the first pod that it would create. A pod with a uid exists already and is not
    admitted again.

    Raises InputError if the manifest is of a kind that creates no pods, or if the pod would be denied.
    """
    if isinstance(pod, Pod) or _is_stored_pod(pod):
        # A bare pod is its own workload. It keeps the fields of its manifest there, before admission.
        return TargetPod(scheduler, admit_manifest(scheduler, pod), workload=_decode_pod(pod))
    manifests = classify_manifests([pod])
    if len(manifests.workloads) != 1:
        raise InputError("neither a Pod nor a workload that creates pods", where=describe_document(pod))
    first_target, *_ = create_targets(scheduler, manifests.workloads.values(), manifests.documents)
    return first_target


def _is_stored_pod(manifest: JsonObject) -> bool:
    """Return whether the manifest is a pod with a uid. Such a pod was stored by an API server."""
    return manifest.get("kind") == "Pod" and bool(object_at(manifest, "metadata").get("uid"))


def admit_manifest(scheduler: Scheduler, manifest: JsonObject | Pod) -> Pod:
    """Return the pod as the API server stores it. A pod without a uid is admitted as if it were created now.

    Raises InputError if the API server would deny the new pod.
    """
    pod = _decode_pod(manifest)
    if not pod.metadata.uid:  # not created yet
        # Validate the pod as it is written, before the admission plugins change it.
        if isinstance(manifest, Pod):
            raise_if_struct_denied(pod, scheduler.cluster, admission=False)
        else:
            raise_if_denied({"kind": "Pod", **manifest}, scheduler.cluster, admission=False)
        pod = admit_pod(pod, scheduler.cluster)
    return scheduler.view.merge_label_keys(scheduler.view.build_stored_pod(pod))


def _decode_pod(manifest: JsonObject | Pod) -> Pod:
    """Decode a pod's manifest, unless it is decoded already, and fill in the default namespace."""
    pod: Pod = fill_namespace(manifest if isinstance(manifest, Pod) else convert_document(manifest))
    return pod


class CreationDoubts(NamedTuple):
    """Reasons why a pod might not be created that were not replayed or not read."""

    not_replayed: tuple[str, ...]
    unknown: tuple[UnknownKind, ...] = ()


def find_creation_doubts(target: TargetPod, cluster: Cluster, *, fits: bool) -> CreationDoubts:
    """Find reasons why the target, which is not in the cluster, might not be created.

    If the pod fits (`fits`), webhooks, policies and unread limits are returned as unknown, which makes the answer
    undecided. If its creation is denied anyway, unread limits do not matter and are left out.

    If the pod does not fit, webhooks and policies cannot make the answer worse. They are then only described among the
    parts that were not replayed.
    """
    namespaces = (target.pod.metadata.namespace,)
    # Namespace -> whether all of its admission was replayed. If nothing was replayed, the namespace is left out.
    admission: Mapping[str, bool] = {} if target.admitted is None else dict.fromkeys(namespaces, target.admitted)
    not_replayed = describe_unreplayed_limits(cluster, namespaces, admission)
    if not fits:
        hooks = find_uncalled_admission_hooks(cluster, [target.pod])
        if hooks:
            text = f"admission, which may deny or change the pod: {describe_unread_kinds(hooks)}"
            not_replayed = (*not_replayed, text)
        return CreationDoubts(not_replayed=not_replayed, unknown=())

    is_denied = target.not_created is not None
    hooks = find_uncalled_admission_hooks(cluster, [target.pod], denied=is_denied)
    # Unread limits could only deny the pod as well
    unread_limits = () if is_denied else find_unread_admission_kinds(cluster, namespaces)
    return CreationDoubts(not_replayed=not_replayed, unknown=(*unread_limits, *hooks))


class ChosenReplica(NamedTuple):
    """The pod of a workload without pods that is explained, and how many of the workload's pods get a node."""

    target: TargetPod
    counts: ReplicaCount | None
    """None if none of the pods gets a node, or if all get one without evicting other pods."""


def choose_replica(target: TargetPod) -> ChosenReplica:
    """Choose the pod that stands for the target's workload, and count the workload's pods that get a node.

    If only some of the pods get a node, the first one without a node is chosen, otherwise the target itself. There are
    no counts if none of the pods gets a node, if all get one without evicting other pods, or if some cannot be created
    or are unknown.
    """
    some_cannot_be_created = target.not_created is not None and not target.not_created.past
    if target.workload is None or some_cannot_be_created or not target.is_known:
        return ChosenReplica(target, counts=None)
    result = place_replicas(target)
    if result is None:  # none of the pods gets a node, all of them do, or there is nothing to count
        return ChosenReplica(target, counts=None)
    counts = ReplicaCount(
        format_title(target.workload),
        result.placed,
        result.total,
        victims=result.victims,
        victims_without_node=result.victims_without_node,
        failed_jobs=result.failed_jobs,
        rollout=result.rollout,
    )
    return ChosenReplica(result.waiting or target, counts)


def add_creation_failures(report: Explanation, failures: NotCreated) -> Explanation:
    """Add the workload's failures to create pods to the report.

    The verdict becomes NotCreated if the failures are current, and scheduling gave the pod a node or was not replayed.
    `once_created` then keeps the verdict and headline of scheduling, if there are any. The new verdict is undecided
    only if the old one was undecided and an unread webhook or policy may change the pod.
    """
    if failures.past or report.verdict not in (*FINE, NOT_CREATED):
        return replace(report, not_created=failures)
    # a webhook or policy that may change the pod may make the API server accept it
    may_be_changed = any(unknown.kind in HOOK_KINDS.values() for unknown in report.unknown)
    return replace(
        report,
        verdict=NOT_CREATED,
        headline=failures.headline,
        not_created=failures,
        once_created=OnceCreated(report.verdict, report.headline) if report.headline else None,
        undecided=report.undecided and may_be_changed,
    )
