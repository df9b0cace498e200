"""Which pods ``explain`` is about: those that are named, those of the files, else all that are pending.

A Subject is a pod of the cluster, or whose it is: a workload, of the cluster or a manifest, or a pod of a manifest.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from kschedctl.api.copying import replace
from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import Pod, PodMeta
from kschedctl.api.ownership import Owner
from kschedctl.cli import pods
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope, Source
from kschedctl.cli.references import Reference, references
from kschedctl.cli.refusals import refuse_invalid
from kschedctl.cli.source import in_context, lone_pod
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError, UsageError
from kschedctl.replay.controllers.creation_failures import find_unread_kinds
from kschedctl.replay.controllers.manifests import locate_errors
from kschedctl.replay.controllers.missing_pods import explain_fewer_pods, find_fixes_for_report, replay_missing_pods
from kschedctl.replay.controllers.target_creation import create_targets
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.controllers.workload_pods import find_pods, find_targets, find_template, iter_workloads
from kschedctl.replay.waiting_elsewhere import find_blockers

Subject = Pod | Owner


def named(inquiry: Inquiry, words: Sequence[str], scope: Scope, source: Source) -> list[TargetPod]:
    """The pods, or those that stand for the workloads, that the words name.

    ``scope`` is as the command line has it: only a namespace that was given there keeps words of other ones out.
    Raises KschedctlError.
    """
    home = in_context(scope, source, inquiry.cluster).namespace or DEFAULT_NAMESPACE
    subjects = (_meant(inquiry, reference, scope, home) for reference in references(words))
    return stand_ins(inquiry, list({_key(subject): subject for subject in subjects}.values()))


def of_files(inquiry: Inquiry, scope: Scope) -> list[TargetPod] | None:
    """The pods that the files ask about; None where they describe a cluster. Raises KschedctlError.

    Of several pods that the cluster has already nothing is said here: they are among the pending ones. ``scope`` is as
    the command line has it.
    """
    keys = list(inquiry.asked)
    there = [key for key in keys if key.kind == "Pod" and key not in inquiry.manifests]
    if len(there) > 1:
        keys = [key for key in keys if key not in there]
    subjects: list[Subject] = [_pod(inquiry.cluster, key) if key in there else key for key in keys]
    if not keys and not there and not inquiry.around and (lone := lone_pod(inquiry.cluster)):
        subjects = [lone]
    for kind, namespace, name in map(_key, subjects) if scope.namespace else ():
        if namespace != scope.namespace:
            raise UsageError(f'{kind} {name}: the manifest says namespace "{namespace}", not "{scope.namespace}"')
    chosen = stand_ins(inquiry, subjects) if subjects else []
    if scope.selector:
        selector = parse_selector(scope.selector)
        chosen = [asked_pod for asked_pod in chosen if selector.matches(asked_pod.pod.metadata.labels)]
    return chosen or None


def without_pods(inquiry: Inquiry, scope: Scope) -> list[Owner]:
    """The workloads of the scope that stand in files beside nodes, and of which the cluster has no pod."""
    namespace = None if scope.all_namespaces else scope.namespace or DEFAULT_NAMESPACE
    mine = (key for key in inquiry.manifests if namespace in (None, key.namespace) and not scope.selector)
    return [key for key in mine if not find_pods(inquiry.cluster, key)]


def stand_ins(inquiry: Inquiry, subjects: Sequence[Subject]) -> list[TargetPod]:
    """The pods that are meant, those of manifests as if all of these were created. Raises KschedctlError."""
    with locate_errors(inquiry.places):
        manifests = [key for key in subjects if isinstance(key, Owner) and key in inquiry.manifests]
        refuse_invalid([inquiry.written[key] for key in manifests], inquiry.cluster, inquiry.namespace)
        scheduler = inquiry.scheduler
        written = {key: inquiry.written[key].document for key in manifests}
        workloads_to_create = [inquiry.manifests[key] for key in manifests]
        targets = create_targets(scheduler, workloads_to_create, written) if manifests else []
        made = dict(zip(manifests, targets, strict=True))
        chosen = []
        for subject in subjects:
            if isinstance(subject, Pod):
                chosen.append(TargetPod(scheduler, scheduler.view.stored(subject)))
            elif subject in made:
                chosen.append(made[subject])
            else:
                chosen += _of_stored(inquiry, subject)
    return [_asking(asked_pod, inquiry.scheduler_name) for asked_pod in chosen]


def _asking(asked_pod: TargetPod, scheduler_name: str | None) -> TargetPod:
    """A pod that is not in the cluster, as if it asked for this scheduler."""
    if scheduler_name is None or asked_pod.pod.spec.node_name:
        return asked_pod
    return asked_pod._replace(
        pod=replace(asked_pod.pod, spec=replace(asked_pod.pod.spec, scheduler_name=scheduler_name))
    )


def _of_stored(inquiry: Inquiry, owner: Owner) -> list[TargetPod]:
    """The pods of a workload of the cluster; the first tells what it could not create. Raises KschedctlError."""
    scheduler, creations, manifest = inquiry.scheduler, inquiry.creations, inquiry.template(owner)
    if creations is None:
        return find_targets(scheduler, owner, manifest)
    lacking, missing = creations.report_of(owner), find_unread_kinds(inquiry.cluster, owner.kind)
    fewer = explain_fewer_pods(inquiry.cluster, owner)
    waiting = find_blockers(inquiry.cluster, owner, inquiry.now)
    template = manifest or find_template(inquiry.cluster, owner)
    again = replay_missing_pods(inquiry.cluster, owner, template, inquiry.document(owner))
    if lacking is not None and not lacking.past:
        fixes = again.fixes if again is not None else find_fixes_for_report(inquiry.cluster, owner, template, lacking)
        lacking = structs.replace(lacking, fixes=fixes)
    elif again is not None:
        lacking = again
    if manifest is None and lacking and not lacking.past and owner.kind == "DaemonSet":
        manifest = find_template(
            inquiry.cluster, owner
        )  # one of its pods that run would say nothing of those that lack
    try:
        first, *others = find_targets(scheduler, owner, manifest)
    except (UsageError, InputError) as error:
        if lacking is None or lacking.past:
            raise
        nobody, note = Pod(PodMeta(owner.name, owner.namespace)), f"scheduling is not replayed: {error.what}"
        return [TargetPod(scheduler, nobody, note, not_created=lacking, unread=missing, is_known=False)]
    first = first._replace(not_created=lacking, unread=missing, fewer_reasons=fewer, waiting_elsewhere=waiting)
    return [first, *others]


def _key(subject: Subject) -> Owner:
    if not isinstance(subject, Pod):
        return subject
    return Owner("Pod", subject.metadata.namespace, subject.metadata.name)


def _pod(cluster: Cluster, key: Owner) -> Pod:
    pod = cluster.pod(key.namespace, key.name)
    assert pod is not None
    return pod


def _meant(inquiry: Inquiry, reference: Reference, scope: Scope, home: str) -> Subject:
    """What one word means. Raises UsageError when that is not just one thing."""
    kind, namespace, name = reference
    if kind == "Node":
        raise UsageError(
            f'"node/{name}" is a node', hint="explain is about pods; drain says where a node's pods would go"
        )
    if kind == "Service":
        raise _about_service(inquiry.cluster, namespace or scope.namespace or home, name)
    if namespace and scope.namespace not in (None, namespace):
        raise UsageError(f'"{namespace}/{name}" is not in namespace "{scope.namespace}"', hint="leave -n out")
    everywhere = scope.all_namespaces and not namespace
    namespace = namespace or scope.namespace or home
    written = [
        k for k in inquiry.manifests if k.kind == kind and k.name == name and (everywhere or k.namespace == namespace)
    ]
    if len(written) == 1:
        return written[0]
    if kind == "Pod":
        return pods.find(inquiry.cluster, name, None if everywhere else namespace)
    if not everywhere:
        return Owner(kind, namespace, name)
    known = dict.fromkeys(
        k for k in (*inquiry.stored, *iter_workloads(inquiry.cluster)) if (k.kind, k.name) == (kind, name)
    )
    if len(known) > 1:
        which = ", ".join(f"{k.namespace}/{name}" for k in known)
        raise UsageError(f'"{kind.lower()}/{name}" names {len(known)}: {which}', hint="say which with -n")
    return next(iter(known), Owner(kind, namespace, name))


def _about_service(cluster: Cluster, namespace: str, name: str) -> UsageError:
    """The error for a Service: its pods are chosen by labels, where it is known."""
    kinds = "pods and what makes them: deploy/NAME, sts/NAME, ds/NAME, rs/NAME, job/NAME, cronjob/NAME"
    services = [s for s in cluster.services if (s.metadata.namespace, s.metadata.name) == (namespace, name)]
    labels = ",".join(f"{key}={value}" for key, value in services[0].spec.selector.items()) if services else ""
    hint = f"its pending pods: -n {namespace} -l {labels}" if labels else f"asked about are {kinds}"
    return UsageError(f'"svc/{name}" is a Service, not a pod', hint=hint)
