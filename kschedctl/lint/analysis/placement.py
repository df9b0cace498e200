"""The fields by which workloads say where their pods go: terms of affinity, spread constraints, classes of storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kschedctl.api.json_values import array_at, text_at
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
from kschedctl.lint.objects.workload import Workload, compiled
from kschedctl.snapshot.node_order import HOSTNAME, REGION, ZONE
from kschedctl.text.counts import counted

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_VOLUME_TERMS: Path = ("spec", "nodeAffinity", "required", "nodeSelectorTerms")
NODE_TERMS: Path = ("affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms")
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


_DOMAINS = {HOSTNAME: "hosts", ZONE: "zones", REGION: "regions"}


def domains_of(key: str) -> str:
    """What the nodes that share a value of a label are called.

    >>> domains_of("kubernetes.io/hostname"), domains_of("example.com/rack")
    ('hosts', 'example.com/rack domains')
    """
    return _DOMAINS.get(key, f"{key} domains")


def usable_domains(number: int, key: str) -> str:
    """Return the number of usable domains of a topology key with the noun that agrees.

    >>> usable_domains(1, "kubernetes.io/hostname"), usable_domains(2, "example.com/rack")
    ('1 usable host', '2 usable example.com/rack domains')
    """
    plural = f"usable {domains_of(key)}"
    return counted(number, plural.removesuffix("s"), plural)


class Term(NamedTuple):
    """``selector`` as written; ``selects_itself``: the workload's own pods are meant, ``every_version`` of them."""

    path: Path
    key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    selects_itself: bool
    every_version: bool

    def namespaces_in(self, known: Mapping[str, Mapping[str, str]], own: str) -> frozenset[str]:
        """The namespaces, of those known (name -> labels), that the term speaks of."""
        return self.namespaces | {name for name, labels in known.items() if self.namespace_selector.matches(labels)}


def required_terms(workload: Workload) -> Iterator[Term]:
    """The required terms of pod affinity, less those with selectors that the API would refuse."""
    affinity = workload.spec.affinity
    return _terms(workload, affinity.pod_affinity if affinity else None, "podAffinity")


def anti_affinity_terms(workload: Workload) -> Iterator[Term]:
    """The required terms of pod anti-affinity, less those with selectors that the API would refuse."""
    affinity = workload.spec.affinity
    return _terms(workload, affinity.pod_anti_affinity if affinity else None, "podAntiAffinity")


def pod_terms(workload: Workload) -> Iterator[tuple[Path, PodAffinityTerm]]:
    """Every term, required or preferred, of affinity and anti-affinity, with the field that it stands in."""
    affinity = workload.spec.affinity
    if affinity is None:
        return
    for name, part in (("podAffinity", affinity.pod_affinity), ("podAntiAffinity", affinity.pod_anti_affinity)):
        if part is not None:
            for i, term in enumerate(part.required_during_scheduling_ignored_during_execution):
                yield ("affinity", name, REQUIRED, i), term
            for i, weighted in enumerate(part.preferred_during_scheduling_ignored_during_execution):
                yield ("affinity", name, PREFERRED, i, "podAffinityTerm"), weighted.pod_affinity_term


def _terms(workload: Workload, affinity: PodAffinity | None, name: str) -> Iterator[Term]:
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution if affinity else ()):
        selector = compiled(term.label_selector)
        elsewhere = compiled(term.namespace_selector)
        if selector is None or elsewhere is None:
            continue
        own_only = not term.namespaces and term.namespace_selector is None
        namespaces = frozenset((workload.namespace,) if own_only else term.namespaces)
        mine = workload.namespace in namespaces or elsewhere == EVERYTHING
        mine = mine and selector != NOTHING and workload.selected_by(selector)
        mine = mine and not any(
            k in (*workload.labels, *ADDED_LABELS.get(workload.kind, ())) for k in term.mismatch_label_keys
        )
        versions = not any(key in ADDED_LABELS.get(workload.kind, ()) for key in term.match_label_keys)
        path = ("affinity", name, REQUIRED, i)
        yield Term(path, term.topology_key, selector, namespaces, elsewhere, mine, versions)


def spread_constraints(workloads: Iterable[Workload]) -> Iterator[tuple[Workload, Path, TopologySpreadConstraint]]:
    """Every spread constraint with its workload and the field that it stands in."""
    for workload in workloads:
        for i, constraint in enumerate(workload.spec.topology_spread_constraints):
            yield workload, ("topologySpreadConstraints", i), constraint


def host_ports(workload: Workload) -> Iterator[tuple[Path, int]]:
    """The ports of nodes that its containers take, each with where it stands."""
    for i, container in enumerate(workload.spec.containers):
        for j, port in enumerate(container.ports):
            if port.host_port or workload.spec.host_network:
                yield ("containers", i, "ports", j), port.host_port


def node_label_keys(workload: Workload) -> Iterator[tuple[Path, str]]:
    """Every label of nodes that a pod's spec names."""
    spec = workload.spec
    for key in spec.node_selector:
        yield ("nodeSelector", key), key
    for i, constraint in enumerate(spec.topology_spread_constraints):
        yield ("topologySpreadConstraints", i, "topologyKey"), constraint.topology_key
    for path, pod_term in pod_terms(workload):
        yield (*path, "topologyKey"), pod_term.topology_key
    for at, term in node_terms(workload):
        for j, expression in enumerate(term.match_expressions):
            yield (*at, "matchExpressions", j, "key"), expression.key


def node_terms(workload: Workload) -> Iterator[tuple[Path, NodeSelectorTerm]]:
    """Every node selector term, required or preferred, with the field that it stands in."""
    for i, term in enumerate(required_node_terms(workload)):
        yield (*NODE_TERMS, i), term
    affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
    for i, wish in enumerate(affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()):
        yield ("affinity", "nodeAffinity", PREFERRED, i, "preference"), wish.preference


def required_node_terms(workload: Workload) -> tuple[NodeSelectorTerm, ...]:
    """The terms of the required node affinity, of which a node has to meet one."""
    affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return required.node_selector_terms if required else ()


def volume_node_terms(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...]:
    """The terms of a volume's node affinity, of which a node has to meet one."""
    required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
    return required.node_selector_terms if required else ()


def volume_label_keys(volume: PersistentVolume) -> Iterator[tuple[Path, str]]:
    """Every label of nodes that a volume's node affinity names, with the field that it stands in."""
    for i, term in enumerate(volume_node_terms(volume)):
        for j, expression in enumerate(term.match_expressions):
            yield (*_VOLUME_TERMS, i, "matchExpressions", j, "key"), expression.key


def storage_class_names(
    claims: Iterable[TypedObject[PersistentVolumeClaim]], workloads: Iterable[Workload]
) -> Iterator[tuple[Subject, Path, str]]:
    """The classes that claims that are not bound yet name, and templates of claims."""
    for subject, claim in claims:
        if claim.status.phase != "Bound" and not claim.spec.volume_name:
            yield subject, ("spec", "storageClassName"), claim.spec.storage_class_name or ""
    for workload in workloads:
        for i, volume in enumerate(workload.spec.volumes):
            template = volume.ephemeral.volume_claim_template if volume.ephemeral else None
            if template is not None and template.spec is not None:
                inner = ("volumes", i, "ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
                yield workload.subject, workload.at_field(*inner), template.spec.storage_class_name or ""
        if workload.kind == "StatefulSet":
            for i, claim_template in enumerate(array_at(workload.subject.document, "spec", "volumeClaimTemplates")):
                path = ("spec", "volumeClaimTemplates", i, "spec", "storageClassName")
                yield workload.subject, path, text_at(claim_template, "spec", "storageClassName")
