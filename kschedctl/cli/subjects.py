"""The pods that `explain` is about: those named, those in the files, or all pending ones.

A Subject is a pod of the cluster, or the owner that identifies a workload or a manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from kschedctl.api.copying import replace
from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import Pod, PodMeta
from kschedctl.api.ownership import Owner
from kschedctl.cli import references
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope, Source
from kschedctl.cli.references import Reference, parse_references
from kschedctl.cli.source import find_lone_pod, with_context_namespace
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.replay.controllers.manifests import locate_errors
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.waiting_elsewhere import find_blockers
from kschedctl.replay.waiting_elsewhere.suspended_jobs import has_queues
from kschedctl.reports.placements import describe_missing_namespaces

if TYPE_CHECKING:
    from kschedctl.replay.waiting_elsewhere.kueue_jobs import JobOutlook
    from kschedctl.reports.not_created import NotCreated

Subject = Pod | Owner


def find_named_targets(inquiry: Inquiry, words: Sequence[str], scope: Scope, source: Source) -> list[TargetPod]:
    """Return the target pods for the words of the command line.

    A word without a namespace names an object in the scope's namespace, or else in the live context's or `default`. If
    the scope is all namespaces, the object may be in any of them. Raises KschedctlError if a word names another
    namespace than the scope, a name is unknown, or a manifest is invalid.
    """
    home = with_context_namespace(scope, source, inquiry.cluster).namespace or DEFAULT_NAMESPACE
    subjects = (_resolve_reference(inquiry, reference, scope, home) for reference in parse_references(words))
    return build_targets(inquiry, list({_get_subject_key(subject): subject for subject in subjects}.values()))


def find_targets_in_files(inquiry: Inquiry, scope: Scope) -> list[TargetPod] | None:
    """Find the target pods that the files ask about, or return None if there are none.

    The selector in `scope` selects among the targets. Raises KschedctlError if a target cannot be built or is in
    another namespace than the scope's.
    """
    subjects = _find_subjects_in_files(inquiry)
    for kind, namespace, name in map(_get_subject_key, subjects):
        if scope.namespace and namespace != scope.namespace:
            raise UsageError(f'{kind} {name}: the manifest says namespace "{namespace}", not "{scope.namespace}"')
    targets = build_targets(inquiry, subjects) if subjects else []
    if scope.selector:
        selector = parse_selector(scope.selector)
        targets = [target for target in targets if selector.matches(target.pod.metadata.labels)]
    return targets or None


def _find_subjects_in_files(inquiry: Inquiry) -> list[Subject]:
    """Return the pods and workloads that the files ask about.

    If the files name several existing pods, these are left out, because the caller explains all pending pods. Files
    that describe a whole cluster and ask about nothing may contain a lone pod, which is then returned.
    """
    keys = list(inquiry.targets)
    if not keys and not inquiry.has_outer_cluster:
        lone_pod = find_lone_pod(inquiry.cluster)
        return [] if lone_pod is None else [lone_pod]
    existing_pods = [key for key in keys if key.kind == "Pod" and key not in inquiry.manifests]
    if len(existing_pods) > 1:
        keys = [key for key in keys if key not in existing_pods]
    return [_get_pod(inquiry.cluster, key) if key in existing_pods else key for key in keys]


def find_workloads_without_pods(inquiry: Inquiry, scope: Scope) -> list[Owner]:
    """Find the workloads in the scope's namespace that were read from files and have no pod in the cluster.

    Return [] if the scope has a selector, because it only selects pods.
    """
    if scope.selector:
        return []
    from kschedctl.replay.controllers.workload_pods import find_pods_of_owner  # noqa: PLC0415 - not for a pod

    namespace = references.get_scope_namespace(scope)
    workloads = [key for key in inquiry.manifests if namespace in (None, key.namespace)]
    return [key for key in workloads if not find_pods_of_owner(inquiry.cluster, key)]


def build_targets(inquiry: Inquiry, subjects: Sequence[Subject]) -> list[TargetPod]:
    """Build the target pods for the subjects, as if all their manifests had been created.

    A target has a note if its namespace is only assumed to be created. An unbound target takes the scheduler name that
    the user assumes. Raises KschedctlError if a manifest is invalid.
    """
    with locate_errors(inquiry.places):
        manifests = [key for key in subjects if isinstance(key, Owner) and key in inquiry.manifests]
        target_by_manifest = _build_manifest_targets(inquiry, manifests) if manifests else {}
        scheduler = inquiry.scheduler
        chosen = []
        for subject in subjects:
            if isinstance(subject, Pod):
                chosen.append(TargetPod(scheduler, scheduler.view.build_stored_pod(subject)))
            elif subject in target_by_manifest:
                chosen.append(target_by_manifest[subject])
            else:
                chosen += _build_workload_targets(inquiry, subject)
    chosen = [_note_missing_namespace(target, inquiry.missing_namespaces) for target in chosen]
    return [_with_scheduler_name(target, inquiry.scheduler_name) for target in chosen]


def _note_missing_namespace(target: TargetPod, similar_by_name: Mapping[str, str]) -> TargetPod:
    """Return the target pod with a note if its namespace is only assumed to be created."""
    name = target.pod.metadata.namespace
    if name not in similar_by_name:
        return target
    condition = describe_missing_namespaces({name: similar_by_name[name]})
    return target._replace(note=f"{target.note}{condition}".removeprefix(", "))  # the condition begins with a comma


def _build_manifest_targets(inquiry: Inquiry, manifests: Sequence[Owner]) -> dict[Owner, TargetPod]:
    """Build the target pod of each manifest, as if all of them were created.

    If the cluster has queues, a target also tells how Kueue would treat its job. Raises KschedctlError if a manifest is
    invalid.
    """
    from kschedctl.cli.manifests import validate_manifests  # noqa: PLC0415 - only for manifests
    from kschedctl.replay.controllers.target_creation import create_targets  # noqa: PLC0415 - only for manifests

    # Workloads of the cluster that a new autoscaler scales have no document, and need no validation
    written = {key: inquiry.written[key] for key in manifests if key in inquiry.written}
    validate_manifests(list(written.values()), inquiry.cluster, inquiry.namespace)
    documents = {key: manifest.document for key, manifest in written.items()}
    workloads_to_create = [inquiry.manifests[key] for key in manifests]
    targets = create_targets(inquiry.scheduler, workloads_to_create, documents)
    target_by_manifest = dict(zip(manifests, targets, strict=True))
    if has_queues(inquiry.cluster):
        from kschedctl.replay.waiting_elsewhere.kueue_jobs import predict_manifest_outlooks  # noqa: PLC0415 - few clusters

        for outlook in predict_manifest_outlooks(inquiry.cluster, workloads_to_create, inquiry.now):
            target = target_by_manifest[outlook.owner]
            target_by_manifest[outlook.owner] = _add_queue_outlook(target, outlook, inquiry.cluster)
    return target_by_manifest


def _add_queue_outlook(target: TargetPod, outlook: JobOutlook, cluster: Cluster) -> TargetPod:
    """Return the target pod with Kueue's treatment of its job and with the flavors that it would get."""
    from kschedctl.replay.waiting_elsewhere.kueue_jobs import add_expected_flavors  # noqa: PLC0415 - few clusters

    notes = [target.note] if target.note else []
    if outlook.flavors:
        notes.append(f"with the labels and tolerations of {outlook.flavors}")
    pod = add_expected_flavors(target.pod, outlook, cluster)
    return target._replace(pod=pod, note="; ".join(notes), waiting_elsewhere=(outlook.report,))


def _with_scheduler_name(target: TargetPod, scheduler_name: str | None) -> TargetPod:
    """Return the target pod with this scheduler, unless it is bound."""
    if scheduler_name is None or target.pod.spec.node_name:
        return target
    return target._replace(pod=replace(target.pod, spec=replace(target.pod.spec, scheduler_name=scheduler_name)))


def _explain_missing_pods(inquiry: Inquiry, owner: Owner, reported: NotCreated | None) -> NotCreated | None:
    """Return why pods of the workload are missing, with fixes, or None if no reason is known.

    `reported` has the failures in events and conditions. If these are current, they are returned with fixes. Otherwise,
    the failures found by replaying admission are returned, or the past failures if the replay finds none.
    """
    from kschedctl.replay.controllers.missing_pods import (  # noqa: PLC0415 - not for a pod
        find_fixes_for_report,
        replay_admission_of_missing_pods,
    )
    from kschedctl.replay.controllers.stored_workloads import find_owner_manifest  # noqa: PLC0415 - not for a pod

    cluster = inquiry.cluster
    template = inquiry.find_stored_workload(owner) or find_owner_manifest(cluster, owner)
    replayed = replay_admission_of_missing_pods(cluster, owner, template, inquiry.find_stored_document(owner))
    if reported is None or reported.past:
        return reported if replayed is None else replayed
    fixes = find_fixes_for_report(cluster, owner, template, reported) if replayed is None else replayed.fixes
    return structs.replace(reported, fixes=fixes)


def _build_workload_targets(inquiry: Inquiry, owner: Owner) -> list[TargetPod]:
    """Build the target pods of a workload of the cluster.

    The first target has the workload's pod creation failures. If there are failures, but nothing is known about the
    pods, the only target is a placeholder. Raises KschedctlError if a manifest is invalid.
    """
    from kschedctl.replay.controllers.creation_failures import find_unread_kinds  # noqa: PLC0415 - not for a pod
    from kschedctl.replay.controllers.missing_pods import explain_fewer_pods  # noqa: PLC0415 - not for a pod
    from kschedctl.replay.controllers.stored_workloads import find_owner_manifest  # noqa: PLC0415 - not for a pod
    from kschedctl.replay.controllers.workload_pods import find_targets_of_workload  # noqa: PLC0415 - not for a pod

    scheduler = inquiry.scheduler
    creations = inquiry.creation_failures
    manifest = inquiry.find_stored_workload(owner)
    if creations is None:
        return find_targets_of_workload(scheduler, owner, manifest)

    # Find out why pods are missing.
    not_created = _explain_missing_pods(inquiry, owner, creations.report_workload(owner))
    unread_kinds = find_unread_kinds(inquiry.cluster, owner.kind)
    fewer_reasons = explain_fewer_pods(inquiry.cluster, owner)
    waiting = find_blockers(inquiry.cluster, owner, inquiry.now)

    # Find the pods, or build a placeholder if there are only failures.
    if manifest is None and not_created and not not_created.past and owner.kind == "DaemonSet":
        # a running pod of the DaemonSet would not show why pods are missing on other nodes
        manifest = find_owner_manifest(inquiry.cluster, owner)
    try:
        first, *other_targets = find_targets_of_workload(scheduler, owner, manifest)
    except (UsageError, InputError) as error:
        if not_created is None or not_created.past:
            raise
        placeholder = Pod(PodMeta(owner.name, owner.namespace))
        note = f"scheduling is not replayed: {error.what}"
        return [TargetPod(scheduler, placeholder, note, not_created=not_created, unread=unread_kinds, is_known=False)]
    first = first._replace(
        not_created=not_created, unread=unread_kinds, fewer_reasons=fewer_reasons, waiting_elsewhere=waiting
    )
    if waiting and has_queues(inquiry.cluster):
        from kschedctl.replay.waiting_elsewhere.kueue_jobs import predict_stored_job_outlook  # noqa: PLC0415 - few clusters

        outlook = predict_stored_job_outlook(inquiry.cluster, owner, inquiry.now)
        if outlook is not None:
            first = _add_queue_outlook(first, outlook, inquiry.cluster)
    return [first, *other_targets]


def _get_subject_key(subject: Subject) -> Owner:
    """Return the key of a subject. A pod is its own owner."""
    if not isinstance(subject, Pod):
        return subject
    return Owner("Pod", subject.metadata.namespace, subject.metadata.name)


def _get_pod(cluster: Cluster, key: Owner) -> Pod:
    """Return the pod of the cluster with this key."""
    pod = cluster.pod(key.namespace, key.name)
    assert pod is not None
    return pod


def _resolve_reference(inquiry: Inquiry, reference: Reference, scope: Scope, home: str) -> Subject:
    """Return the pod or workload that a reference names. Manifests take precedence over the cluster's objects.

    ``home`` is the namespace if neither the reference nor ``scope`` names one. A workload that does not exist is
    returned as an owner, unless a manifest in another namespace has its name.

    Raises UsageError for nodes, Services, unknown pods, ambiguous names, and references to another namespace than the
    one in ``scope``.
    """
    kind, namespace, name = reference
    if kind == "Node":
        raise UsageError(
            f'"node/{name}" is a node', hint="explain takes pods; use drain to see where a node's pods would go"
        )
    if kind == "Service":
        raise _build_service_reference_error(inquiry.cluster, namespace or scope.namespace or home, name)
    if namespace and scope.namespace not in (None, namespace):
        raise UsageError(f'"{namespace}/{name}" is not in namespace "{scope.namespace}"', hint="leave -n out")
    everywhere = scope.all_namespaces and not namespace
    namespace = namespace or scope.namespace or home

    same_name = [key for key in inquiry.manifests if (key.kind, key.name) == (kind, name)]
    manifests = [key for key in same_name if everywhere or key.namespace == namespace]
    if len(manifests) == 1:
        return manifests[0]
    if kind == "Pod":
        return references.find_pod(inquiry.cluster, name, None if everywhere else namespace)
    owner = Owner(kind, namespace, name)
    if everywhere:
        return _find_workload_in_any_namespace(inquiry, kind, name) or owner
    if same_name:
        _require_existing_workload(inquiry, owner, same_name)
    return owner


def _find_workload_in_any_namespace(inquiry: Inquiry, kind: str, name: str) -> Owner | None:
    """Find the existing workload of this kind and name, or return None if there is none.

    Raises UsageError if there are several.
    """
    from kschedctl.replay.controllers.workload_pods import iter_workloads  # noqa: PLC0415 - rarely needed

    all_workloads = (*inquiry.stored, *iter_workloads(inquiry.cluster))
    workloads = dict.fromkeys(key for key in all_workloads if (key.kind, key.name) == (kind, name))
    if len(workloads) > 1:
        which = ", ".join(f"{key.namespace}/{name}" for key in workloads)
        message = f'"{kind.lower()}/{name}" names {len(workloads)} workloads: {which}'
        raise UsageError(message, hint="say which with -n")
    return next(iter(workloads), None)


def _require_existing_workload(inquiry: Inquiry, owner: Owner, same_name: Iterable[Owner]) -> None:
    """Raise UsageError if the workload does not exist.

    The hint names ``same_name``, which are manifests of this name in other namespaces.
    """
    from kschedctl.replay.controllers.workload_pods import iter_workloads  # noqa: PLC0415 - rarely needed

    if owner not in (*inquiry.stored, *iter_workloads(inquiry.cluster)):
        kind = owner.kind.lower()
        hint = " or ".join(f"{kind}/{owner.name} -n {key.namespace}" for key in same_name)
        raise UsageError(f'{kind} "{owner.namespace}/{owner.name}" not found', hint=f"did you mean {hint}?")


def _build_service_reference_error(cluster: Cluster, namespace: str, name: str) -> UsageError:
    """Build the error for a Service, which hints at the labels that select its pods."""
    services = cluster.list_in_namespace("services", namespace)
    service = next((service for service in services if service.metadata.name == name), None)
    labels = ",".join(f"{key}={value}" for key, value in service.spec.selector.items()) if service else ""
    if labels:
        hint = f"its pending pods: -n {namespace} -l {labels}"
    else:
        hint = "name a pod, or deploy/NAME, sts/NAME, ds/NAME, rs/NAME, job/NAME, cronjob/NAME"
    return UsageError(f'"svc/{name}" is a Service, not a pod', hint=hint)
