"""The fields that decide where a workload's pods go: affinity terms, spread constraints, host ports, StorageClasses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.json_values import array_at, field_at, text_at
from kschedctl.api.labels import EVERYTHING, NOTHING, Selector
from kschedctl.api.objects import (
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from kschedctl.api.ownership import ADDED_LABELS
from kschedctl.lint.objects.manifests import TypedObject
from kschedctl.lint.objects.subject import Path, Subject
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.snapshot.nodes import HOSTNAME, REGION, ZONE
from kschedctl.text.counts import counted

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_VOLUME_TERMS: Path = ("spec", "nodeAffinity", "required", "nodeSelectorTerms")
NODE_TERMS: Path = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


_DOMAIN_NOUNS = {HOSTNAME: "hosts", ZONE: "zones", REGION: "regions"}


def format_domain_noun(key: str) -> str:
    """Return the plural noun for the domains of a topology key.

    >>> format_domain_noun("kubernetes.io/hostname"), format_domain_noun("example.com/rack")
    ('hosts', 'example.com/rack domains')
    """
    return _DOMAIN_NOUNS.get(key, f"{key} domains")


def format_usable_domains(number: int, key: str) -> str:
    """Format a number of usable domains of a topology key, with the noun in the singular or plural.

    >>> format_usable_domains(1, "kubernetes.io/hostname"), format_usable_domains(2, "example.com/rack")
    ('1 usable host', '2 usable example.com/rack domains')
    """
    plural = f"usable {format_domain_noun(key)}"
    return counted(number, plural.removesuffix("s"), plural)


class RequiredTerm(NamedTuple):
    """A required term of pod affinity or anti-affinity."""

    path: Path
    key: str
    """The topologyKey."""
    selector: Selector
    """The labelSelector as written."""
    namespaces: frozenset[str]
    """The namespaces that the term names, or else the workload's own."""
    namespace_selector: Selector
    selects_itself: bool
    """True if the term matches the workload's own pods."""
    matches_all_revisions: bool
    """True if the term matches the pods of all revisions of the workload."""

    def list_namespaces(self, labels_by_namespace: Mapping[str, Mapping[str, str]]) -> frozenset[str]:
        """Return the namespaces named by the term or matched by its namespaceSelector.

        ``labels_by_namespace`` has the labels of all namespaces by name.
        """
        return self.namespaces | {
            name for name, labels in labels_by_namespace.items() if self.namespace_selector.matches(labels)
        }


def iter_required_affinity(workload: Workload) -> Iterator[RequiredTerm]:
    """Yield the required pod affinity terms, without terms whose selector the API server would reject."""
    affinity = workload.spec.affinity
    return _iter_required_affinity_terms(workload, affinity.pod_affinity if affinity else None, "podAffinity")


def iter_required_anti_affinity(workload: Workload) -> Iterator[RequiredTerm]:
    """Yield the required anti-affinity terms, without terms whose selector the API server would reject."""
    affinity = workload.spec.affinity
    return _iter_required_affinity_terms(workload, affinity.pod_anti_affinity if affinity else None, "podAntiAffinity")


def iter_pod_affinity_terms(workload: Workload) -> Iterator[tuple[Path, PodAffinityTerm]]:
    """Yield each pod affinity and anti-affinity term, required or preferred, with its path."""
    affinity = workload.spec.affinity
    if affinity is None:
        return
    for name, part in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if part is not None:
            for i, term in enumerate(part.required_during_scheduling_ignored_during_execution):
                yield ("affinity", name, REQUIRED, i), term
            for i, weighted in enumerate(part.preferred_during_scheduling_ignored_during_execution):
                yield ("affinity", name, PREFERRED, i, "podAffinityTerm"), weighted.pod_affinity_term


def _iter_required_affinity_terms(
    workload: Workload, affinity: PodAffinity | None, field_name: str
) -> Iterator[RequiredTerm]:
    """Yield the required terms of ``affinity``, which is the value of the field ``field_name``.

    Terms whose selector the API server would reject are left out.
    """
    if affinity is None:
        return
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        selector = compile_selector(term.label_selector)
        namespace_selector = compile_selector(term.namespace_selector)
        if selector is None or namespace_selector is None:
            continue

        # Without namespaces, a term is about the workload's own namespace
        own_namespace_only = not term.namespaces and term.namespace_selector is None
        namespaces = frozenset((workload.namespace,) if own_namespace_only else term.namespaces)
        revision_labels = ADDED_LABELS.get(workload.kind, ())
        pod_labels = (*workload.labels, *revision_labels)
        includes_own_namespace = workload.namespace in namespaces or namespace_selector == EVERYTHING
        matches_own_labels = selector != NOTHING and workload.is_selected_by(selector)
        excludes_own_pods = any(key in pod_labels for key in term.mismatch_label_keys)
        yield RequiredTerm(
            path=("affinity", field_name, REQUIRED, i),
            key=term.topology_key,
            selector=selector,
            namespaces=namespaces,
            namespace_selector=namespace_selector,
            selects_itself=includes_own_namespace and matches_own_labels and not excludes_own_pods,
            matches_all_revisions=not any(key in revision_labels for key in term.match_label_keys),
        )


def iter_spread_constraints(workloads: Iterable[Workload]) -> Iterator[tuple[Workload, Path, TopologySpreadConstraint]]:
    """Yield each spread constraint with its workload and path."""
    for workload in workloads:
        for i, constraint in enumerate(workload.spec.topology_spread_constraints):
            yield workload, ("topologySpreadConstraints", i), constraint


def iter_host_ports(workload: Workload) -> Iterator[tuple[Path, int]]:
    """Yield each host port of the workload's containers with its path in the pod's spec.

    With hostNetwork, all ports are host ports. The number is 0 for a port whose hostPort is not set.
    """
    for i, container in enumerate(workload.spec.containers):
        for j, port in enumerate(container.ports):
            if port.host_port or workload.spec.host_network:
                yield ("containers", i, "ports", j), port.host_port


def iter_node_label_keys(workload: Workload) -> Iterator[tuple[Path, str]]:
    """Yield the key of each node label that a workload's pod template names, with its path in the pod's spec."""
    spec = workload.spec
    for key in spec.node_selector:
        yield ("nodeSelector", key), key
    for i, constraint in enumerate(spec.topology_spread_constraints):
        yield ("topologySpreadConstraints", i, "topologyKey"), constraint.topology_key
    for path, pod_term in iter_pod_affinity_terms(workload):
        yield (*path, "topologyKey"), pod_term.topology_key
    for path, node_term in iter_node_affinity_terms(workload):
        for j, expression in enumerate(node_term.match_expressions):
            yield (*path, "matchExpressions", j, "key"), expression.key


def iter_node_affinity_terms(workload: Workload) -> Iterator[tuple[Path, NodeSelectorTerm]]:
    """Yield each node affinity term with its path, first the required terms, then the preferred ones."""
    for i, term in enumerate(get_required_node_terms(workload)):
        yield (*NODE_TERMS, i), term
    affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
    if affinity is not None:
        for i, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
            yield ("affinity", "nodeAffinity", PREFERRED, i, "preference"), preferred.preference


def get_required_node_terms(workload: Workload) -> tuple[NodeSelectorTerm, ...]:
    """Return the required node affinity terms, one of which a node has to meet, or () without any."""
    affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required.node_selector_terms if required else ()


def get_volume_node_terms(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...]:
    """Return the terms of a volume's node affinity, or () without any. A node has to meet one of them."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return required.node_selector_terms if required else ()


def iter_volume_label_keys(volume: PersistentVolume) -> Iterator[tuple[Path, str]]:
    """Yield the key of each node label that a volume's node affinity names, with its path in the volume."""
    for i, term in enumerate(get_volume_node_terms(volume)):
        for j, expression in enumerate(term.match_expressions):
            yield (*_VOLUME_TERMS, i, "matchExpressions", j, "key"), expression.key


class ClaimSpec(NamedTuple):
    """The spec of a claim or of a claim template."""

    subject: Subject
    """The object that a problem with the claim refers to."""
    path: Path
    """The path of the spec in the object."""
    is_class_given: bool
    """True if the spec has a storageClassName, which may be empty."""


def iter_unbound_claim_specs(
    claims: Iterable[TypedObject[PersistentVolumeClaim]], workloads: Iterable[Workload], bound_names: Collection[str]
) -> Iterator[ClaimSpec]:
    """Yield the specs of unbound claims and of claim templates.

    ``bound_names`` has the names of the bound claims, as namespace/name. Three kinds of specs are skipped:

    - the spec of a bound claim,
    - a spec that names a volume, except in a template of a StatefulSet,
    - a template of a StatefulSet whose first replica has a bound claim.
    """
    for subject, claim in claims:
        is_manifest = bool(subject.document)  # a manifest has no phase, unlike the claims of a cluster
        is_pending = is_manifest or claim.status.phase == "Pending"
        is_bound = f"{subject.namespace or 'default'}/{subject.name}" in bound_names
        if is_pending and not is_bound and not claim.spec.volume_name:
            yield ClaimSpec(subject, ("spec",), claim.spec.storage_class_name is not None)
    for workload in workloads:
        yield from _iter_ephemeral_claim_specs(workload)
        if workload.kind == "StatefulSet":
            yield from _iter_claim_template_specs(workload, bound_names)


def _iter_ephemeral_claim_specs(workload: Workload) -> Iterator[ClaimSpec]:
    """Yield the specs of the claim templates in a workload's ephemeral volumes, unless a spec names a volume."""
    for i, volume in enumerate(workload.spec.volumes):
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        if template is not None and template.spec is not None and not template.spec.volume_name:
            path = workload.get_path("volumes", i, "ephemeral", "volumeClaimTemplate", "spec")
            yield ClaimSpec(workload.subject, path, template.spec.storage_class_name is not None)


def _iter_claim_template_specs(stateful_set: Workload, bound_names: Collection[str]) -> Iterator[ClaimSpec]:
    """Yield the specs in a StatefulSet's volumeClaimTemplates, unless the claim of the first replica is bound."""
    subject = stateful_set.subject
    for i, template in enumerate(array_at(subject.document, "spec", "volumeClaimTemplates")):
        name_of_first_claim = f"{text_at(template, 'metadata', 'name')}-{subject.name}-0"
        if f"{stateful_set.namespace}/{name_of_first_claim}" not in bound_names:
            is_class_given = field_at(template, "spec", "storageClassName") is not None
            yield ClaimSpec(subject, ("spec", "volumeClaimTemplates", i, "spec"), is_class_given)


def iter_storage_class_names(
    claims: Iterable[TypedObject[PersistentVolumeClaim]], workloads: Iterable[Workload]
) -> Iterator[tuple[Subject, Path, str]]:
    """Yield the StorageClass name of each unbound claim and each claim template, with the subject and path.

    The name is "" if the claim names no StorageClass.
    """
    for subject, claim in claims:
        if claim.status.phase != "Bound" and not claim.spec.volume_name:
            yield subject, ("spec", "storageClassName"), claim.spec.storage_class_name or ""
    for workload in workloads:
        for path, class_name in _iter_storage_classes_of_templates(workload):
            yield workload.subject, path, class_name


def _iter_storage_classes_of_templates(workload: Workload) -> Iterator[tuple[Path, str]]:
    """Yield, for each claim template of a workload, the path of its storageClassName and the name, or "" without one.

    The templates are those of ephemeral volumes and, in a StatefulSet, those of its volumeClaimTemplates.
    """
    for i, volume in enumerate(workload.spec.volumes):
        template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
        if template is not None and template.spec is not None:
            path_in_spec = ("volumes", i, "ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
            yield workload.get_path(*path_in_spec), template.spec.storage_class_name or ""
    if workload.kind == "StatefulSet":
        for i, claim_template in enumerate(array_at(workload.subject.document, "spec", "volumeClaimTemplates")):
            path = ("spec", "volumeClaimTemplates", i, "spec", "storageClassName")
            yield path, text_at(claim_template, "spec", "storageClassName")
