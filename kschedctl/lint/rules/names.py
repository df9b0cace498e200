"""Rules about references to objects that do not exist, such as claims, autoscaler targets and namespaces."""

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
from kschedctl.lint.analysis.placement import REQUIRED, iter_pod_affinity_terms, iter_storage_class_names
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import AUTOSCALERS
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload
from kschedctl.lint.rule import WARNING, Rule, for_each_workload

_BUILTIN_NAMES = {
    "StorageClass": {"standard", "default", "managed", "gp2", "gp3", "local-path", "hostpath", "longhorn"},
    "RuntimeClass": {"nvidia", "runc", "crun", "kata", "gvisor", "runsc", "spin"},
    "ServiceAccount": {"default"},
}
"""Kind -> names that clusters usually have without a manifest."""
_MAX_COMPARED = 500
"""With more names of one kind, no misspellings are searched for."""
_WHY_PENDING = "The pods stay Pending until the name is corrected, or an object of this name is created."
_WHY_DENIED = "The API server rejects the pods: the controller keeps retrying, and no pod starts."
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
        """The namespace of the named object, or "" for cluster-scoped kinds."""
        if self.kind in CLUSTER_SCOPED:
            return ""
        return self.namespace or self.subject.namespace or "default"


def _find_misspelled_names(context: LintContext, references: Iterable[NameReference]) -> Iterator[Problem]:
    """Yield a problem for each referenced name that does not exist but resembles an existing name.

    A name is left out if the manifests contain an object of the kind with this name, even in another namespace. Nothing
    is compared if more than `_MAX_COMPARED` objects exist.
    """
    manifest_names_by_kind: dict[str, set[str]] = {}
    for reference in references:
        kind, name = reference.kind, reference.name
        if kind not in manifest_names_by_kind:
            manifest_names_by_kind[kind] = context.list_manifest_names(kind)
        if not name or name in manifest_names_by_kind[kind] or name in _BUILTIN_NAMES.get(kind, ()):
            continue
        existing_names = context.list_coexisting_names(reference.subject, kind, reference.target_namespace)
        if name in existing_names or len(existing_names) > _MAX_COMPARED:
            continue
        similar_name = find_similar_name(name, existing_names)
        if similar_name:
            message = f'{kind} "{name}" does not exist, but "{similar_name}" does'
            yield reference.subject.build_problem(reference.path, message, f"Write {similar_name}")


def _find_references_to_other_namespaces(
    context: LintContext, references: Iterable[NameReference]
) -> Iterator[Problem]:
    """Yield a problem for each reference to an object that exists only in one other namespace.

    Objects that are also referenced from their own namespace are left out. Empty references, references from objects
    without a namespace, and references from namespaces that may have unknown pods are left out too.
    """
    references = [reference for reference in references if reference.name and reference.subject.namespace]
    referenced_objects = {(reference.kind, reference.target_namespace, reference.name) for reference in references}
    for reference in references:
        kind, name, own_namespace = reference.kind, reference.name, reference.subject.namespace
        namespaces = context.find_namespaces(kind, name)
        if len(namespaces) != 1 or namespaces == [own_namespace]:
            continue
        (namespace,) = namespaces
        if (kind, namespace, name) in referenced_objects or context.may_have_unknown_pods([own_namespace]):
            continue
        message = f'{kind} "{name}" exists only in namespace {namespace}'
        yield reference.subject.build_problem(reference.path, message)


_KNOWN_SCHEDULERS = ("default-scheduler", "volcano", "yunikorn", "kai-scheduler", "koord-scheduler", "run-ai-scheduler")


def find_misspelled_storage_names(context: LintContext) -> Iterator[Problem]:
    """Find names of claims, volumes and StorageClasses that look misspelled or exist only in another namespace.

    With a cluster, ``vl-missing`` checks the names instead.
    """
    if context.cluster is None:
        yield from _find_unresolved_names(context, list(_iter_storage_references(context)))


VL_MISSPELT = Rule(
    "vl-misspelt",
    WARNING,
    find_misspelled_storage_names,
    summary="A claim, volume or StorageClass name that looks misspelled or exists only in another namespace",
    why=_WHY_PENDING,
    fix=_CORRECT_NAME,
    source=doc.VOLUMES,
)


def _find_unresolved_names(context: LintContext, references: Sequence[NameReference]) -> Iterator[Problem]:
    """Yield a problem for each name that looks misspelled or exists only in another namespace."""
    namespaced_references = [reference for reference in references if reference.kind not in CLUSTER_SCOPED]
    yield from _find_misspelled_names(context, references)
    yield from _find_references_to_other_namespaces(context, namespaced_references)


def _iter_storage_references(context: LintContext) -> Iterator[NameReference]:
    """Yield each reference of a workload, claim or volume to a claim, volume or StorageClass.

    Names may be empty, if the field that refers to an object is not set.
    """
    for subject, path, name in iter_storage_class_names(
        context.list_linted_objects(PersistentVolumeClaim), context.workloads
    ):
        yield NameReference(subject, path, "StorageClass", name)
    for workload in context.workloads:
        for i, volume in enumerate(workload.spec.volumes):
            if volume.persistent_volume_claim is not None:
                path = workload.get_path("volumes", i, "persistentVolumeClaim", "claimName")
                name = volume.persistent_volume_claim.claim_name
                yield NameReference(workload.subject, path, "PersistentVolumeClaim", name)
    for subject, claim in context.list_linted_objects(PersistentVolumeClaim):
        yield NameReference(subject, ("spec", "volumeName"), "PersistentVolume", claim.spec.volume_name)
    for subject, persistent_volume in context.list_linted_objects(PersistentVolume):
        claim_ref = persistent_volume.spec.claim_ref
        if claim_ref is not None:
            namespace = claim_ref.namespace or "default"
            path = ("spec", "claimRef", "name")
            yield NameReference(subject, path, "PersistentVolumeClaim", claim_ref.name, namespace)


def find_misspelled_device_names(context: LintContext) -> Iterator[Problem]:
    """Find names of ResourceClaims, their templates and DeviceClasses that look misspelled or exist only elsewhere.

    With a cluster, ``dra-no-device`` checks the names instead.
    """
    if context.cluster is None:
        yield from _find_unresolved_names(context, list(_iter_device_references(context)))


DRA_MISSPELT = Rule(
    "dra-misspelt",
    WARNING,
    find_misspelled_device_names,
    summary="A ResourceClaim, ResourceClaimTemplate or DeviceClass name that looks misspelled",
    why=_WHY_PENDING,
    fix=_CORRECT_NAME,
    source=doc.DEVICES,
)


def _iter_device_references(context: LintContext) -> Iterator[NameReference]:
    """Yield each reference to a ResourceClaim, a ResourceClaimTemplate or a DeviceClass.

    Workloads refer to claims and claim templates. Claims and claim templates refer to DeviceClasses.
    """
    for workload in context.workloads:
        for i, pod_claim in enumerate(workload.spec.resource_claims):
            path = workload.get_path("resourceClaims", i)
            template_name = pod_claim.resource_claim_template_name or ""
            template_path = (*path, "resourceClaimTemplateName")
            yield NameReference(workload.subject, template_path, "ResourceClaimTemplate", template_name)
            claim_name = pod_claim.resource_claim_name or ""
            yield NameReference(workload.subject, (*path, "resourceClaimName"), "ResourceClaim", claim_name)
    for subject, claim in context.list_linted_objects(ResourceClaim):
        yield from _iter_device_class_references(subject, ("spec",), claim.spec)
    for subject, claim_template in context.list_linted_objects(ResourceClaimTemplate):
        yield from _iter_device_class_references(subject, ("spec", "spec"), claim_template.spec.spec)


def _iter_device_class_references(
    subject: Subject, spec_path: Path, spec: ResourceClaimSpec
) -> Iterator[NameReference]:
    """Yield a reference for each DeviceClass that the requests in a ResourceClaim's spec name.

    Alternatives in firstAvailable are included.
    """
    for i, request in enumerate(spec.devices.requests):
        request_path = (*spec_path, "devices", "requests", i)
        if request.exactly is not None:
            path = (*request_path, "exactly", "deviceClassName")
            yield NameReference(subject, path, "DeviceClass", request.exactly.device_class_name)
        for j, alternative in enumerate(request.first_available):
            path = (*request_path, "firstAvailable", j, "deviceClassName")
            yield NameReference(subject, path, "DeviceClass", alternative.device_class_name)


def find_misspelled_runtime_classes(context: LintContext) -> Iterator[Problem]:
    """Find RuntimeClass names in pod templates that look misspelled."""
    yield from _find_misspelled_names(context, _iter_pod_field_references(context, "RuntimeClass", "runtimeClassName"))


RC_MISSPELT = Rule(
    "rc-misspelt",
    WARNING,
    find_misspelled_runtime_classes,
    summary="A RuntimeClass name that looks misspelled",
    why=_WHY_DENIED,
    fix=_CORRECT_NAME,
    source="https://kubernetes.io/docs/concepts/containers/runtime-class/",
)


def find_misspelled_service_accounts(context: LintContext) -> Iterator[Problem]:
    """Find ServiceAccount names in pod templates that look misspelled."""
    yield from _find_misspelled_names(
        context, _iter_pod_field_references(context, "ServiceAccount", "serviceAccountName")
    )


SA_MISSPELT = Rule(
    "sa-misspelt",
    WARNING,
    find_misspelled_service_accounts,
    summary="A ServiceAccount name that looks misspelled",
    why=_WHY_DENIED,
    fix=_CORRECT_NAME,
    source="plugin/pkg/admission/serviceaccount (v1.36)",
)


def _iter_pod_field_references(context: LintContext, kind: str, field: str) -> Iterator[NameReference]:
    """Yield, for each workload, the reference to an object of a kind in a field of the pod spec.

    The name is "" if the field is not set.
    """
    for workload in context.workloads:
        yield NameReference(workload.subject, workload.get_path(field), kind, text_at(workload.written_spec, field))


def find_misspelled_group_names(context: LintContext) -> Iterator[Problem]:
    """Find names of PodGroups that look misspelled."""
    yield from _find_misspelled_names(context, _iter_pod_group_references(context))


GG_MISSPELT = Rule(
    "gg-misspelt",
    WARNING,
    find_misspelled_group_names,
    summary="A PodGroup name that looks misspelled",
    why="The pods stay gated until a PodGroup of that name exists.",
    fix=_CORRECT_NAME,
    source=f"{doc.PLUGINS}: gangscheduling",
)


def _iter_pod_group_references(context: LintContext) -> Iterator[NameReference]:
    """Yield each workload's reference to a PodGroup. The name is "" if the workload names none."""
    for workload in context.workloads:
        group = workload.spec.scheduling_group
        name = (group.pod_group_name if group else "") or ""
        yield NameReference(workload.subject, workload.get_path("schedulingGroup", "podGroupName"), "PodGroup", name)


def find_misspelled_schedulers(workload: Workload) -> Iterator[Problem]:
    """Report a workload whose schedulerName looks like a misspelling of a known scheduler's name."""
    name = workload.spec.scheduler_name
    similar_name = "" if name in _KNOWN_SCHEDULERS else find_similar_name(name, _KNOWN_SCHEDULERS)
    if similar_name:
        message = f'"{name}" looks like a misspelling of {similar_name}'
        yield workload.build_problem(("schedulerName",), message, f"Write {similar_name}")


SC_MISSPELT = Rule(
    "sc-misspelt",
    WARNING,
    for_each_workload(find_misspelled_schedulers),
    summary="A schedulerName that looks misspelled",
    why="If it is misspelled, no scheduler handles the pods: they stay Pending without a single event.",
    fix="Correct schedulerName, or remove it",
    source=doc.SCHEDULERS,
)


def find_misspelled_scale_targets(context: LintContext) -> Iterator[Problem]:
    """Find autoscalers whose scaleTargetRef misspells a kind or the name of a workload.

    Only workloads without an autoscaler are suggested. A workload with the autoscaler's own name is suggested even if
    its name does not resemble the target.
    """
    autoscalers = [
        (subject, scaler.limits)
        for kind in AUTOSCALERS
        for subject, scaler in context.list_linted_objects(kind)
        if scaler.limits is not None
    ]
    targets = {(subject.namespace or "default", limits.name) for subject, limits in autoscalers}
    for subject, limits in autoscalers:
        namespace = subject.namespace or "default"
        similar_kind = find_similar_name(limits.kind, SERVING_KINDS)
        if similar_kind:
            message = f'kind "{limits.kind}" does not exist; kinds are case-sensitive'
            yield subject.build_problem(("spec", "scaleTargetRef", "kind"), message, f"Write {similar_kind}")
            continue

        workloads = context.workloads_by_namespace.get(namespace, ())
        names = {workload.subject.name for workload in workloads if workload.kind == limits.kind}
        if limits.name in names:
            continue
        # A workload that another autoscaler scales is not meant
        unscaled_names = [name for name in names if (namespace, name) not in targets]
        likely_name = _find_likely_target(unscaled_names, autoscaler_name=subject.name, written_name=limits.name)
        if likely_name:
            message = f'{limits.kind} "{limits.name}" does not exist, but "{likely_name}" does and has no autoscaler'
            yield subject.build_problem(("spec", "scaleTargetRef", "name"), message, f"Write {likely_name}")


def _find_likely_target(workload_names: Sequence[str], *, autoscaler_name: str, written_name: str) -> str:
    """Return the workload that an autoscaler with a misspelled target most likely means, or "" if there is none.

    This is the workload with the autoscaler's own name, or else the one whose name is similar to the written name.
    """
    if autoscaler_name in workload_names:
        return autoscaler_name
    return find_similar_name(written_name, workload_names)


HPA_MISSPELT = Rule(
    "hpa-misspelt",
    WARNING,
    find_misspelled_scale_targets,
    summary="A HorizontalPodAutoscaler whose scaleTargetRef looks misspelled",
    why="The HorizontalPodAutoscaler has no effect: the workload keeps its number of replicas.",
    fix="Correct scaleTargetRef",
    source="https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/",
)


_BUILTIN_NAMESPACE_PREFIXES = ("kube-", "openshift-", "default")
"""Prefixes of namespaces that clusters have without a manifest."""
_NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label of each namespace with its name."""
_NAMESPACE_KINDS = ("Namespace", "Project", "ProjectRequest")


class _NamespaceReference(NamedTuple):
    """A field with the name of a namespace."""

    subject: Subject
    path: Path
    name: str
    is_needed: bool
    """True if pods are not created or not scheduled unless the namespace exists."""


def find_uncreated_namespaces(context: LintContext) -> Iterator[Problem]:
    """Find references to namespaces that no manifest creates, if the name looks misspelled or the namespace is needed.

    A required affinity term needs the namespace that it names. A workload needs its own namespace if its file creates
    another one. A needed namespace is only reported if the manifests create other namespaces and no cluster is given.
    """
    created_names = {name for kind in _NAMESPACE_KINDS for name in context.list_manifest_names(kind)}
    for reference in (*_iter_namespaces_in_metadata(context), *_iter_namespaces_in_affinity_terms(context)):
        name = reference.name
        if name in created_names or name.startswith(_BUILTIN_NAMESPACE_PREFIXES):
            continue
        message = f'no manifest creates the namespace "{name}"'
        existing_names = context.list_coexisting_names(reference.subject, "Namespace")
        similar_name = _find_similar_namespace(context, reference, existing_names)
        if similar_name:
            if existing_names:
                message += f', but one creates "{similar_name}"'
            yield reference.subject.build_problem(reference.path, message, f"Write {similar_name}")
            continue

        is_missing = existing_names and name not in existing_names and context.cluster is None
        if reference.is_needed and is_missing:
            yield reference.subject.build_problem(reference.path, message)


def _find_similar_namespace(context: LintContext, reference: _NamespaceReference, existing_names: set[str]) -> str:
    """Return the existing namespace that a reference probably means.

    Return "" if the name exists or resembles no namespace. If no namespace exists, the name in an affinity term is
    compared with the namespaces of the workloads.
    """
    candidates = existing_names
    if not existing_names and reference.path != _METADATA_NAMESPACE:
        candidates = set(context.workloads_by_namespace)
    if reference.name in candidates:
        return ""
    return find_similar_name(reference.name, candidates)


NS_MISSING = Rule(
    "ns-missing",
    WARNING,
    find_uncreated_namespaces,
    summary="A namespace that no manifest creates, although the manifests create other namespaces",
    why="The API server rejects objects in a namespace that does not exist, and required affinity to pods in it "
    "leaves pods Pending. Reported if the name resembles that of a created namespace, if required affinity "
    "refers to it, or if the file of the workload creates another namespace.",
    fix="Correct the name, or create the namespace",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/",
)


_METADATA_NAMESPACE: Path = ("metadata", "namespace")


def _iter_namespaces_in_metadata(context: LintContext) -> Iterator[_NamespaceReference]:
    """Yield a reference for each namespace that an object names in its metadata.

    A workload's namespace is needed if the workload's file creates a namespace, and if no other file has objects in the
    workload's namespace.
    """
    creating_files = {
        subject.location.file for subject in context.subjects if subject.kind == "Namespace" and subject.location
    }
    files_by_namespace: dict[str, set[str]] = {}
    for subject in context.subjects:
        if subject.namespace and subject.location:
            files_by_namespace.setdefault(subject.namespace, set()).add(subject.location.file)
    for subject in context.subjects:
        name = subject.namespace
        if not name or not field_at(subject.document, *_METADATA_NAMESPACE):
            continue
        is_needed = False
        if subject.location is not None and subject.kind in POD_TEMPLATE_PATHS:
            file = subject.location.file
            is_needed = file in creating_files and files_by_namespace[name] == {file}
        yield _NamespaceReference(subject, _METADATA_NAMESPACE, name, is_needed)


def _iter_namespaces_in_affinity_terms(context: LintContext) -> Iterator[_NamespaceReference]:
    """Yield a reference for each namespace that a pod affinity term names.

    Required affinity needs the namespace, unless it is the namespace of a linted object.
    """
    used_namespaces = {subject.namespace for subject in context.subjects}
    for workload in context.workloads:
        for term_path, term in iter_pod_affinity_terms(workload):
            is_required_affinity = "podAffinity" in term_path and REQUIRED in term_path
            names = {(*term_path, "namespaces", i): name for i, name in enumerate(term.namespaces)}
            match_labels = term.namespace_selector.match_labels if term.namespace_selector else {}
            if _NAMESPACE_NAME_LABEL in match_labels:
                path = (*term_path, "namespaceSelector", "matchLabels", _NAMESPACE_NAME_LABEL)
                names[path] = match_labels[_NAMESPACE_NAME_LABEL]
            for path, name in names.items():
                is_needed = is_required_affinity and name not in used_namespaces
                yield _NamespaceReference(workload.subject, workload.get_path(*path), name, is_needed)
