"""Names that nothing has: of what objects refer to, of what autoscalers scale, and of namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kschedctl.api.json_values import field_at, text_at
from kschedctl.api.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from kschedctl.cluster import CLUSTER_SCOPED
from kschedctl.lint.analysis.near_names import one_meant
from kschedctl.lint.analysis.placement import REQUIRED, pod_terms, storage_class_names
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import WARNING, Rule, each_workload
from kschedctl.lint.objects.kinds import AUTOSCALERS, ScalingLimits
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import SERVING, TEMPLATES, Workload

_PROVIDED = {
    "StorageClass": {"standard", "default", "managed", "gp2", "gp3", "local-path", "hostpath", "longhorn"},
    "RuntimeClass": {"nvidia", "runc", "crun", "kata", "gvisor", "runsc", "spin"},
    "ServiceAccount": {"default"},
}
"""Kind -> names that clusters bring with them."""
_MOST_COMPARED = 500
"""Names of one kind; nobody finds a slip among more of them."""
_PENDING = "The pods stay Pending until what they name is created."
_REFUSED = "Admission refuses the pods: the controller keeps trying and nothing starts."
_CORRECT = "Correct the name"


class NameReference(NamedTuple):
    """The name of an object of a kind, and the field of an object that holds it.

    ``namespace``: that of the object with the name, unless it is that of the one with the field.
    """

    subject: Subject
    path: Path
    kind: str
    name: str
    namespace: str = ""

    @property
    def where(self) -> str:
        """The namespace, empty for kinds without one."""
        return "" if self.kind in CLUSTER_SCOPED else self.namespace or self.subject.namespace or "default"


def misspelt(context: LintContext, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Names that nothing has, each beside one that was meant."""
    anywhere: dict[str, set[str]] = {}
    for reference in references:
        kind, name = reference.kind, reference.name
        known = anywhere.setdefault(kind, context.names_anywhere(kind))
        if not name or name in known or name in _PROVIDED.get(kind, ()):
            continue
        names = context.names_beside(reference.subject, kind, reference.where)
        if name not in names and len(names) <= _MOST_COMPARED and (meant := one_meant(name, names)):
            message = f'there is no {kind} "{name}", but "{meant}"'
            yield reference.subject.problem(reference.path, message, f"Write {meant}")


def elsewhere(context: LintContext, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Names that only an object of another namespace has, which nothing there names."""
    references = [reference for reference in references if reference.name and reference.subject.namespace]
    named = {(reference.kind, reference.where, reference.name) for reference in references}
    for subject, path, kind, name, _ in references:
        homes = context.namespaces_of(kind, name)
        free = [home for home in homes if (kind, home, name) not in named]
        if (
            homes == free
            and len(free) == 1
            and free != [subject.namespace]
            and not context.others_own([subject.namespace])
        ):
            yield subject.problem(path, f'{kind} "{name}" is in namespace {free[0]}, and visible only there')


_SCHEDULERS = ("default-scheduler", "volcano", "yunikorn", "kai-scheduler", "koord-scheduler", "run-ai-scheduler")
_QUEUE = "kueue.x-k8s.io/queue-name"


def storage(context: LintContext) -> Iterator[Problem]:
    if context.cluster is None:  # else vl-missing speaks
        yield from _misspelt_or_elsewhere(context, list(_of_storage(context)))


VL_MISSPELT = Rule(
    "vl-misspelt",
    WARNING,
    storage,
    summary="A claim, volume or StorageClass name that looks misspelt, or is in another namespace",
    why=_PENDING,
    fix=_CORRECT,
    source=doc.VOLUMES,
)


def _misspelt_or_elsewhere(context: LintContext, references: Sequence[NameReference]) -> Iterator[Problem]:
    yield from misspelt(context, references)
    yield from elsewhere(context, (reference for reference in references if reference.kind not in CLUSTER_SCOPED))


def _of_storage(context: LintContext) -> Iterator[NameReference]:
    for subject, path, name in storage_class_names(context.linted(PersistentVolumeClaim), context.workloads):
        yield NameReference(subject, path, "StorageClass", name)
    for workload in context.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            if volume.persistent_volume_claim is not None:
                path = workload.at_field("volumes", i, "persistentVolumeClaim", "claimName")
                yield NameReference(
                    workload.subject, path, "PersistentVolumeClaim", volume.persistent_volume_claim.claim_name
                )
    for subject, claim in context.linted(PersistentVolumeClaim):
        yield NameReference(subject, ("spec", "volumeName"), "PersistentVolume", claim.spec.volume_name)
    for subject, persistent_volume in context.linted(PersistentVolume):
        if (kept := persistent_volume.spec.claim_ref) is not None:
            path, namespace = ("spec", "claimRef", "name"), kept.namespace or "default"
            yield NameReference(subject, path, "PersistentVolumeClaim", kept.name, namespace)


def devices(context: LintContext) -> Iterator[Problem]:
    if context.cluster is None:  # else dra-no-device speaks
        yield from _misspelt_or_elsewhere(context, list(_of_devices(context)))


DRA_MISSPELT = Rule(
    "dra-misspelt",
    WARNING,
    devices,
    summary="A ResourceClaim, ResourceClaimTemplate or DeviceClass name that looks misspelt",
    why=_PENDING,
    fix=_CORRECT,
    source=doc.DEVICES,
)


def _of_devices(context: LintContext) -> Iterator[NameReference]:
    for workload in context.workloads:
        for i, reference in enumerate(workload.spec.resource_claims):
            template, named = reference.resource_claim_template_name or "", reference.resource_claim_name or ""
            at = workload.at_field("resourceClaims", i)
            yield NameReference(workload.subject, (*at, "resourceClaimTemplateName"), "ResourceClaimTemplate", template)
            yield NameReference(workload.subject, (*at, "resourceClaimName"), "ResourceClaim", named)
    for subject, claim in context.linted(ResourceClaim):
        yield from _device_classes(subject, ("spec",), claim.spec)
    for subject, claim_template in context.linted(ResourceClaimTemplate):
        yield from _device_classes(subject, ("spec", "spec"), claim_template.spec.spec)


def _device_classes(subject: Subject, spec_at: Path, spec: ResourceClaimSpec) -> Iterator[NameReference]:
    """The classes that requests for devices name."""
    for i, request in enumerate(spec.devices.requests):
        path = (*spec_at, "devices", "requests", i)
        if request.exactly is not None:
            at = (*path, "exactly", "deviceClassName")
            yield NameReference(subject, at, "DeviceClass", request.exactly.device_class_name)
        for j, alternative in enumerate(request.first_available):
            at = (*path, "firstAvailable", j, "deviceClassName")
            yield NameReference(subject, at, "DeviceClass", alternative.device_class_name)


def runtime_class(context: LintContext) -> Iterator[Problem]:
    yield from misspelt(context, _of_pods(context, "RuntimeClass", "runtimeClassName"))


RC_MISSPELT = Rule(
    "rc-misspelt",
    WARNING,
    runtime_class,
    summary="A RuntimeClass name that looks misspelt",
    why=_REFUSED,
    fix=_CORRECT,
    source="https://kubernetes.io/docs/concepts/containers/runtime-class/",
)


def service_account(context: LintContext) -> Iterator[Problem]:
    yield from misspelt(context, _of_pods(context, "ServiceAccount", "serviceAccountName"))


SA_MISSPELT = Rule(
    "sa-misspelt",
    WARNING,
    service_account,
    summary="A ServiceAccount name that looks misspelt",
    why=_REFUSED,
    fix=_CORRECT,
    source="plugin/pkg/admission/serviceaccount (v1.36)",
)


def _of_pods(context: LintContext, kind: str, field: str) -> Iterator[NameReference]:
    """What a field of the pods' specs names."""
    for workload in context.workloads:
        yield NameReference(workload.subject, workload.at_field(field), kind, text_at(workload.written, field))


def gang(context: LintContext) -> Iterator[Problem]:
    yield from misspelt(context, _of_gangs(context))


GG_MISSPELT = Rule(
    "gg-misspelt",
    WARNING,
    gang,
    summary="A PodGroup or Kueue queue name that looks misspelt",
    why="The pods wait, gated or suspended, until what they name is created.",
    fix=_CORRECT,
    source=f"{doc.PLUGINS}: gangscheduling; https://kueue.sigs.k8s.io/docs/concepts/local_queue/",
)


def _of_gangs(context: LintContext) -> Iterator[NameReference]:
    for workload in context.workloads:
        group = workload.spec.scheduling_group
        name = (group.pod_group_name if group else "") or ""
        yield NameReference(workload.subject, workload.at_field("schedulingGroup", "podGroupName"), "PodGroup", name)
    for subject in context.subjects:
        if queue := text_at(subject.document, "metadata", "labels", _QUEUE):
            yield NameReference(subject, ("metadata", "labels", _QUEUE), "LocalQueue", queue)


def scheduler(workload: Workload) -> Iterator[Problem]:
    name = workload.spec.scheduler_name
    if name not in _SCHEDULERS and (meant := one_meant(name, _SCHEDULERS)):
        yield workload.problem(("schedulerName",), f'"{name}" is nearly {meant}', f"Write {meant}")


SC_MISSPELT = Rule(
    "sc-misspelt",
    WARNING,
    each_workload(scheduler),
    summary="A schedulerName that looks misspelt",
    why="No scheduler looks at the pods: they stay Pending without a single event.",
    fix="Correct schedulerName, or leave it out",
    source=doc.SCHEDULERS,
)


def scaled(context: LintContext) -> Iterator[Problem]:
    scalers = [scaler for kind in AUTOSCALERS for scaler in context.linted(kind)]
    autoscalers = [(subject, limits) for subject, scaler in scalers if (limits := scaler.limits)]
    targets = {(subject.namespace or "default", limits.name) for subject, limits in autoscalers}
    for subject, limits in autoscalers:
        namespace = subject.namespace or "default"
        if meant := one_meant(limits.kind, SERVING):
            message = f'there is no kind "{limits.kind}": kinds are case-sensitive'
            yield subject.problem(("spec", "scaleTargetRef", "kind"), message, f"Write {meant}")
            continue
        there = _workloads(context, namespace, limits)
        unscaled = [name for name in there if (namespace, name) not in targets]
        if limits.name not in there and (near := one_meant(limits.name, unscaled)):
            message = f'there is no {limits.kind} "{limits.name}", and "{near}" has no autoscaler'
            yield subject.problem(("spec", "scaleTargetRef", "name"), message, f"Write {near}")


HPA_MISSPELT = Rule(
    "hpa-misspelt",
    WARNING,
    scaled,
    summary="An autoscaler whose scaleTargetRef looks misspelt",
    why="It scales nothing: the workload stays at its replicas.",
    fix="Correct scaleTargetRef",
    source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
)


def _workloads(context: LintContext, namespace: str, limits: ScalingLimits) -> set[str]:
    return {w.subject.name for w in context.by_namespace.get(namespace, ()) if w.kind == limits.kind}


_PROVIDED_NAMESPACES = ("kube-", "openshift-", "default")
"""What the names begin with of namespaces that clusters bring with them."""
_NAME = "kubernetes.io/metadata.name"
"""The label by which every namespace can be selected."""
_KINDS = ("Namespace", "Project", "ProjectRequest")


class _NamespaceReference(NamedTuple):
    """A namespace that a field names; ``needed``: without it no pod is ever made, or finds a node."""

    subject: Subject
    path: Path
    name: str
    needed: bool


def missing(context: LintContext) -> Iterator[Problem]:
    made = {name for kind in _KINDS for name in context.names_anywhere(kind)}
    for subject, path, name, needed in (*_of_objects(context), *_of_terms(context)):
        if name in made or name.startswith(_PROVIDED_NAMESPACES):
            continue
        beside = context.names_beside(subject, "Namespace")
        known = beside if beside or path == _OF_OBJECT else set(context.by_namespace)
        meant = one_meant(name, known) if name not in known else ""
        if meant or (needed and beside and name not in beside and context.cluster is None):
            message = f'nothing creates the namespace "{name}"' + f', but "{meant}"' * bool(meant and beside)
            yield subject.problem(path, message, f"Write {meant}" if meant else "")


NS_MISSING = Rule(
    "ns-missing",
    WARNING,
    missing,
    summary="A namespace that no manifest creates, where others are created",
    why="The API server refuses objects in a namespace that does not exist, and required affinity to its pods "
    "leaves pods Pending. Reported for names that nearly match a created one, for such affinity, and for workloads "
    "in a file that creates another namespace.",
    fix="Correct the name, or create the namespace",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
)


_OF_OBJECT: Path = ("metadata", "namespace")


def _of_objects(context: LintContext) -> Iterator[_NamespaceReference]:
    """Needed where the file of what makes pods makes another namespace, and no object of that one is elsewhere."""
    making = {subject.place.file for subject in context.subjects if subject.kind == "Namespace" and subject.place}
    files: dict[str, set[str]] = {}
    for subject in context.subjects:
        if subject.namespace and subject.place:
            files.setdefault(subject.namespace, set()).add(subject.place.file)
    for subject in context.subjects:
        name = subject.namespace
        if name and _is_written(subject):
            alone = subject.place is not None and files.get(name) == {subject.place.file} <= making
            yield _NamespaceReference(subject, _OF_OBJECT, name, alone and subject.kind in TEMPLATES)


def _is_written(subject: Subject) -> bool:
    """Whether the namespace stands in the object."""
    return bool(field_at(subject.document, "metadata", "namespace"))


def _of_terms(context: LintContext) -> Iterator[_NamespaceReference]:
    used = {subject.namespace for subject in context.subjects}
    for workload in context.workloads:
        for path, term in pod_terms(workload):
            required = "podAffinity" in path and REQUIRED in path
            for i, name in enumerate(term.namespaces):
                at = workload.at_field(*path, "namespaces", i)
                yield _NamespaceReference(workload.subject, at, name, required and name not in used)
            selector = term.namespace_selector.match_labels if term.namespace_selector else {}
            if _NAME in selector:
                at, name = workload.at_field(*path, "namespaceSelector", "matchLabels", _NAME), selector[_NAME]
                yield _NamespaceReference(workload.subject, at, name, required and name not in used)
