"""Rules about names of other objects, such as claims, autoscaler targets and namespaces, that do not exist."""

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
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.cluster import CLUSTER_SCOPED
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.analysis.placement import REQUIRED, iter_pod_terms, iter_storage_class_names
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import AUTOSCALERS, ScalingLimits
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload
from kschedctl.lint.rule import WARNING, Rule, for_each_workload

_BUILTIN_NAMES = {
    "StorageClass": {"standard", "default", "managed", "gp2", "gp3", "local-path", "hostpath", "longhorn"},
    "RuntimeClass": {"nvidia", "runc", "crun", "kata", "gvisor", "runsc", "spin"},
    "ServiceAccount": {"default"},
}
"""Names of each kind that clusters have from the start."""
_MAX_COMPARED = 500
"""With more names of one kind, misspellings are not searched for."""
_WHY_PENDING = "The pods stay Pending until what they name is created."
_WHY_DENIED = "Admission refuses the pods: the controller keeps trying and nothing starts."
_CORRECT_NAME = "Correct the name"


class NameReference(NamedTuple):
    """A field of one object that holds the name of another object."""

    subject: Subject
    path: Path
    kind: str
    name: str
    namespace: str = ""
    """The namespace of the named object, or "" if it is that of the object with the field."""

    @property
    def target_namespace(self) -> str:
        """Return the namespace of the named object, or "" for cluster-scoped kinds."""
        return "" if self.kind in CLUSTER_SCOPED else self.namespace or self.subject.namespace or "default"


def _find_misspelt_names(context: LintContext, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Yield a problem for each name that does not exist but is similar to one that does."""
    anywhere: dict[str, set[str]] = {}
    for reference in references:
        kind, name = reference.kind, reference.name
        manifest_names = anywhere.setdefault(kind, context.list_manifest_names(kind))
        if not name or name in manifest_names or name in _BUILTIN_NAMES.get(kind, ()):
            continue
        names = context.list_coexisting_names(reference.subject, kind, reference.target_namespace)
        if name not in names and len(names) <= _MAX_COMPARED and (meant := find_similar_name(name, names)):
            message = f'there is no {kind} "{name}", but "{meant}"'
            yield reference.subject.build_problem(reference.path, message, f"Write {meant}")


def _find_names_in_other_namespaces(context: LintContext, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Yield a problem for each name that exists only in one other namespace, where nothing refers to it."""
    references = [reference for reference in references if reference.name and reference.subject.namespace]
    named = {(reference.kind, reference.target_namespace, reference.name) for reference in references}
    for subject, path, kind, name, _ in references:
        namespaces = context.find_namespaces(kind, name)
        if len(namespaces) != 1 or namespaces == [subject.namespace]:
            continue
        (namespace,) = namespaces
        if (kind, namespace, name) in named or context.may_have_unknown_pods([subject.namespace]):
            continue
        yield subject.build_problem(path, f'{kind} "{name}" is in namespace {namespace}, and visible only there')


_KNOWN_SCHEDULERS = ("default-scheduler", "volcano", "yunikorn", "kai-scheduler", "koord-scheduler", "run-ai-scheduler")


def find_misspelt_storage_names(context: LintContext) -> Iterator[Problem]:
    """Find names of claims, volumes and StorageClasses that are misspelt or of another namespace.

    With a cluster, ``vl-missing`` checks the names instead.
    """
    if context.cluster is None:
        yield from _find_unresolved_names(context, list(_iter_storage_references(context)))


VL_MISSPELT = Rule(
    "vl-misspelt",
    WARNING,
    find_misspelt_storage_names,
    summary="A claim, volume or StorageClass name that looks misspelt, or is in another namespace",
    why=_WHY_PENDING,
    fix=_CORRECT_NAME,
    source=doc.VOLUMES,
)


def _find_unresolved_names(context: LintContext, references: Sequence[NameReference]) -> Iterator[Problem]:
    """Yield a problem for each name that is misspelt or exists only in another namespace."""
    yield from _find_misspelt_names(context, references)
    yield from _find_names_in_other_namespaces(
        context, (reference for reference in references if reference.kind not in CLUSTER_SCOPED)
    )


def _iter_storage_references(context: LintContext) -> Iterator[NameReference]:
    """Yield the names of claims, volumes and StorageClasses in workloads, claims and volumes."""
    for subject, path, name in iter_storage_class_names(context.list_linted(PersistentVolumeClaim), context.workloads):
        yield NameReference(subject, path, "StorageClass", name)
    for workload in context.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            if volume.persistent_volume_claim is not None:
                path = workload.get_path("volumes", i, "persistentVolumeClaim", "claimName")
                yield NameReference(
                    workload.subject, path, "PersistentVolumeClaim", volume.persistent_volume_claim.claim_name
                )
    for subject, claim in context.list_linted(PersistentVolumeClaim):
        yield NameReference(subject, ("spec", "volumeName"), "PersistentVolume", claim.spec.volume_name)
    for subject, persistent_volume in context.list_linted(PersistentVolume):
        if (reserved := persistent_volume.spec.claim_ref) is not None:
            path, namespace = ("spec", "claimRef", "name"), reserved.namespace or "default"
            yield NameReference(subject, path, "PersistentVolumeClaim", reserved.name, namespace)


def find_misspelt_device_names(context: LintContext) -> Iterator[Problem]:
    """Find names of ResourceClaims, their templates and DeviceClasses that are misspelt or of another namespace.

    With a cluster, ``dra-no-device`` checks the names instead.
    """
    if context.cluster is None:
        yield from _find_unresolved_names(context, list(_iter_device_references(context)))


DRA_MISSPELT = Rule(
    "dra-misspelt",
    WARNING,
    find_misspelt_device_names,
    summary="A ResourceClaim, ResourceClaimTemplate or DeviceClass name that looks misspelt",
    why=_WHY_PENDING,
    fix=_CORRECT_NAME,
    source=doc.DEVICES,
)


def _iter_device_references(context: LintContext) -> Iterator[NameReference]:
    """Yield the names of ResourceClaims, their templates and DeviceClasses in workloads and claims."""
    for workload in context.workloads:
        for i, reference in enumerate(workload.spec.resource_claims):
            template, named = reference.resource_claim_template_name or "", reference.resource_claim_name or ""
            at = workload.get_path("resourceClaims", i)
            yield NameReference(workload.subject, (*at, "resourceClaimTemplateName"), "ResourceClaimTemplate", template)
            yield NameReference(workload.subject, (*at, "resourceClaimName"), "ResourceClaim", named)
    for subject, claim in context.list_linted(ResourceClaim):
        yield from _iter_device_class_references(subject, ("spec",), claim.spec)
    for subject, claim_template in context.list_linted(ResourceClaimTemplate):
        yield from _iter_device_class_references(subject, ("spec", "spec"), claim_template.spec.spec)


def _iter_device_class_references(subject: Subject, spec_at: Path, spec: ResourceClaimSpec) -> Iterator[NameReference]:
    """Yield the DeviceClasses that the requests of a claim name."""
    for i, request in enumerate(spec.devices.requests):
        path = (*spec_at, "devices", "requests", i)
        if request.exactly is not None:
            at = (*path, "exactly", "deviceClassName")
            yield NameReference(subject, at, "DeviceClass", request.exactly.device_class_name)
        for j, alternative in enumerate(request.first_available):
            at = (*path, "firstAvailable", j, "deviceClassName")
            yield NameReference(subject, at, "DeviceClass", alternative.device_class_name)


def find_misspelt_runtime_classes(context: LintContext) -> Iterator[Problem]:
    """Find RuntimeClass names in pod templates that look misspelt."""
    yield from _find_misspelt_names(context, _iter_pod_field_references(context, "RuntimeClass", "runtimeClassName"))


RC_MISSPELT = Rule(
    "rc-misspelt",
    WARNING,
    find_misspelt_runtime_classes,
    summary="A RuntimeClass name that looks misspelt",
    why=_WHY_DENIED,
    fix=_CORRECT_NAME,
    source="https://kubernetes.io/docs/concepts/containers/runtime-class/",
)


def find_misspelt_service_accounts(context: LintContext) -> Iterator[Problem]:
    """Find ServiceAccount names in pod templates that look misspelt."""
    yield from _find_misspelt_names(
        context, _iter_pod_field_references(context, "ServiceAccount", "serviceAccountName")
    )


SA_MISSPELT = Rule(
    "sa-misspelt",
    WARNING,
    find_misspelt_service_accounts,
    summary="A ServiceAccount name that looks misspelt",
    why=_WHY_DENIED,
    fix=_CORRECT_NAME,
    source="plugin/pkg/admission/serviceaccount (v1.36)",
)


def _iter_pod_field_references(context: LintContext, kind: str, field: str) -> Iterator[NameReference]:
    """Yield the name that each pod template has in a field of its spec."""
    for workload in context.workloads:
        yield NameReference(workload.subject, workload.get_path(field), kind, text_at(workload.written_spec, field))


def find_misspelt_group_names(context: LintContext) -> Iterator[Problem]:
    """Find names of PodGroups that look misspelt."""
    yield from _find_misspelt_names(context, _iter_group_references(context))


GG_MISSPELT = Rule(
    "gg-misspelt",
    WARNING,
    find_misspelt_group_names,
    summary="A PodGroup name that looks misspelt",
    why="The pods wait, gated, until what they name is created.",
    fix=_CORRECT_NAME,
    source=f"{doc.PLUGINS}: gangscheduling",
)


def _iter_group_references(context: LintContext) -> Iterator[NameReference]:
    """Yield the PodGroups that pod templates name."""
    for workload in context.workloads:
        group = workload.spec.scheduling_group
        name = (group.pod_group_name if group else "") or ""
        yield NameReference(workload.subject, workload.get_path("schedulingGroup", "podGroupName"), "PodGroup", name)


def find_misspelt_schedulers(workload: Workload) -> Iterator[Problem]:
    """Find schedulerNames that are similar to that of a known scheduler."""
    name = workload.spec.scheduler_name
    if name not in _KNOWN_SCHEDULERS and (meant := find_similar_name(name, _KNOWN_SCHEDULERS)):
        yield workload.build_problem(("schedulerName",), f'"{name}" is nearly {meant}', f"Write {meant}")


SC_MISSPELT = Rule(
    "sc-misspelt",
    WARNING,
    for_each_workload(find_misspelt_schedulers),
    summary="A schedulerName that looks misspelt",
    why="No scheduler looks at the pods: they stay Pending without a single event.",
    fix="Correct schedulerName, or leave it out",
    source=doc.SCHEDULERS,
)


def find_misspelt_scale_targets(context: LintContext) -> Iterator[Problem]:
    """Find autoscalers whose scaleTargetRef is similar to an existing kind or to an unscaled workload."""
    scalers = [scaler for kind in AUTOSCALERS for scaler in context.list_linted(kind)]
    autoscalers = [(subject, limits) for subject, scaler in scalers if (limits := scaler.limits)]
    targets = {(subject.namespace or "default", limits.name) for subject, limits in autoscalers}
    for subject, limits in autoscalers:
        namespace = subject.namespace or "default"
        if meant := find_similar_name(limits.kind, SERVING_KINDS):
            message = f'there is no kind "{limits.kind}": kinds are case-sensitive'
            yield subject.build_problem(("spec", "scaleTargetRef", "kind"), message, f"Write {meant}")
            continue
        names = _list_names(context, namespace, limits)
        unscaled = [name for name in names if (namespace, name) not in targets]
        if limits.name not in names and (near := find_similar_name(limits.name, unscaled)):
            message = f'there is no {limits.kind} "{limits.name}", and "{near}" has no autoscaler'
            yield subject.build_problem(("spec", "scaleTargetRef", "name"), message, f"Write {near}")


HPA_MISSPELT = Rule(
    "hpa-misspelt",
    WARNING,
    find_misspelt_scale_targets,
    summary="An autoscaler whose scaleTargetRef looks misspelt",
    why="It scales nothing: the workload stays at its replicas.",
    fix="Correct scaleTargetRef",
    source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
)


def _list_names(context: LintContext, namespace: str, limits: ScalingLimits) -> set[str]:
    """Return the names of a namespace's linted workloads of the kind that an autoscaler scales."""
    return {w.subject.name for w in context.workloads_by_namespace.get(namespace, ()) if w.kind == limits.kind}


_BUILTIN_NAMESPACE_PREFIXES = ("kube-", "openshift-", "default")
"""Prefixes of namespaces that clusters have from the start."""
_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label with the name of each namespace."""
_NAMESPACE_KINDS = ("Namespace", "Project", "ProjectRequest")


class _NamespaceReference(NamedTuple):
    """The name of a namespace in a field."""

    subject: Subject
    path: Path
    name: str
    needed: bool
    """Whether pods are not created or not scheduled unless the namespace exists."""


def find_missing_namespaces(context: LintContext) -> Iterator[Problem]:
    """Find names of namespaces that no manifest creates and that are misspelt or needed."""
    created = {name for kind in _NAMESPACE_KINDS for name in context.list_manifest_names(kind)}
    for subject, path, name, needed in (*_iter_object_namespaces(context), *_iter_term_namespaces(context)):
        if name in created or name.startswith(_BUILTIN_NAMESPACE_PREFIXES):
            continue
        coexisting = context.list_coexisting_names(subject, "Namespace")
        in_metadata = path == _METADATA_NAMESPACE
        candidates = coexisting if coexisting or in_metadata else set(context.workloads_by_namespace)
        meant = find_similar_name(name, candidates) if name not in candidates else ""
        missing = needed and coexisting and name not in coexisting and context.cluster is None
        if meant or missing:
            message = f'nothing creates the namespace "{name}"'
            if meant and coexisting:
                message += f', but "{meant}"'
            yield subject.build_problem(path, message, f"Write {meant}" if meant else "")


NS_MISSING = Rule(
    "ns-missing",
    WARNING,
    find_missing_namespaces,
    summary="A namespace that no manifest creates, where others are created",
    why="The API server refuses objects in a namespace that does not exist, and required affinity to its pods "
    "leaves pods Pending. Reported for names that nearly match a created one, for such affinity, and for workloads "
    "in a file that creates another namespace.",
    fix="Correct the name, or create the namespace",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
)


_METADATA_NAMESPACE: Path = ("metadata", "namespace")


def _iter_object_namespaces(context: LintContext) -> Iterator[_NamespaceReference]:
    """Yield the namespaces that objects name in their metadata.

    A workload needs its namespace if its file creates another namespace and is the only file with objects of this one.
    """
    creating_files = {
        subject.location.file for subject in context.subjects if subject.kind == "Namespace" and subject.location
    }
    files: dict[str, set[str]] = {}
    for subject in context.subjects:
        if subject.namespace and subject.location:
            files.setdefault(subject.namespace, set()).add(subject.location.file)
    for subject in context.subjects:
        name = subject.namespace
        if name and field_at(subject.document, *_METADATA_NAMESPACE):
            only_file = subject.location is not None and files.get(name) == {subject.location.file} <= creating_files
            yield _NamespaceReference(
                subject, _METADATA_NAMESPACE, name, only_file and subject.kind in POD_TEMPLATE_PATHS
            )


def _iter_term_namespaces(context: LintContext) -> Iterator[_NamespaceReference]:
    """Yield the namespaces that pod affinity terms name. Required affinity needs them."""
    used = {subject.namespace for subject in context.subjects}
    for workload in context.workloads:
        for path, term in iter_pod_terms(workload):
            required = "podAffinity" in path and REQUIRED in path
            for i, name in enumerate(term.namespaces):
                at = workload.get_path(*path, "namespaces", i)
                yield _NamespaceReference(workload.subject, at, name, required and name not in used)
            selector = term.namespace_selector.match_labels if term.namespace_selector else {}
            if _NAMESPACE_NAME_LABEL in selector:
                name = selector[_NAMESPACE_NAME_LABEL]
                at = workload.get_path(*path, "namespaceSelector", "matchLabels", _NAMESPACE_NAME_LABEL)
                yield _NamespaceReference(workload.subject, at, name, required and name not in used)
