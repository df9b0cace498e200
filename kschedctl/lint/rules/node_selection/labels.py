"""Rules about misspelt node labels, impossible label values, and the operating system of pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

from kschedctl.api.json_values import array_at, field_at
from kschedctl.api.objects import NodeSelectorTerm, PersistentVolume, StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.analysis.node_requirements import DEPRECATED_LABELS, MISTAKEN_LABELS, list_alternatives
from kschedctl.lint.analysis.placement import (
    NODE_TERMS,
    get_required_node_terms,
    iter_node_label_keys,
    iter_node_terms,
    iter_volume_label_keys,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WrittenNodePool
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, for_each_workload, replace_value
from kschedctl.lint.rules.node_selection.affinity import find_selection_path

ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
_LABELS_BY_DOMAIN = {
    "kubernetes.io": ("hostname", "os", "arch"),
    "topology.kubernetes.io": ("zone", "region", "rack", "block"),
    "node.kubernetes.io": ("instance-type", "windows-build", "exclude-from-external-load-balancers"),
    "node-role.kubernetes.io": ("control-plane", "master"),
    "failure-domain.beta.kubernetes.io": ("zone", "region"),
    "beta.kubernetes.io": ("os", "arch", "instance-type"),
    "karpenter.sh": ("nodepool", "capacity-type"),
    "karpenter.k8s.aws": (
        *("instance-category", "instance-family", "instance-generation", "instance-size", "instance-cpu"),
        *("instance-memory", "instance-gpu-name", "instance-gpu-count", "instance-hypervisor", "instance-local-nvme"),
    ),
    "eks.amazonaws.com": ("nodegroup", "capacityType", "compute-type"),
    "cloud.google.com": ("gke-nodepool", "gke-spot", "gke-accelerator", "gke-preemptible", "compute-class"),
    "kubernetes.azure.com": ("agentpool", "mode", "scalesetpriority", "os-sku", "accelerator"),
}
"""The known node labels of each domain."""
_SIMILAR_LABELS = {"kubernetes.io/role", "node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/masters"}
"""Labels of distributions and installers that only look like misspellings of Kubernetes' labels."""
_LABEL_BY_NAME = {
    name: f"{domain}/{name}" for domain, names in list(_LABELS_BY_DOMAIN.items())[:3][::-1] for name in names
}
"""Kubernetes' own label with each name, whatever domain is written before it."""
_KUBERNETES_DOMAIN = "kubernetes.io"
_COMMON_LABELS = ((OS, "linux"), (ARCH, "amd64"))
"""Labels and values that nearly every node has."""


def find_misspelt_node_labels(context: LintContext) -> Iterator[Problem]:
    """Find node labels in workloads, volumes, StorageClasses and NodePools that look misspelt."""
    pool_labels = {key for _, pool in context.list_linted(WrittenNodePool) for key in pool.labels}
    for workload in context.workloads:
        for path, key in iter_node_label_keys(workload):
            if key in MISTAKEN_LABELS and path[-1] == "topologyKey":
                continue  # ts-wrong-hostname-key reports it
            meant = find_meant_label(key)
            if not meant and key not in pool_labels:
                meant = find_similar_name(key, pool_labels)
            if meant:
                yield workload.build_problem(path, f"no node has the label {key}", f"Write {meant}")
    for subject, path, key in _iter_other_label_keys(context):
        if meant := find_meant_label(key):
            yield subject.build_problem(path, f"no node has the label {key}", f"Write {meant}")


LB_MISSPELT = Rule(
    "lb-misspelt",
    WARNING,
    find_misspelt_node_labels,
    summary="A node label that looks like a misspelt well-known, cloud or NodePool label",
    why="No node has it: what is required keeps pods Pending, what is preferred does nothing.",
    fix="Correct the label",
    source=doc.LABELS,
)


def _iter_other_label_keys(context: LintContext) -> Iterator[tuple[Subject, Path, str]]:
    """Yield the node labels that PersistentVolumes, NodePools and StorageClasses name, with their paths."""
    for subject, volume in context.list_linted(PersistentVolume):
        yield from ((subject, path, key) for path, key in iter_volume_label_keys(volume))
    for subject, pool in context.list_linted(WrittenNodePool):
        for i, declared in enumerate(pool.spec.template.spec.requirements):
            yield subject, ("spec", "template", "spec", "requirements", i, "key"), declared.key
    for subject, storage_class in context.list_linted(StorageClass):
        for i, topology in enumerate(storage_class.allowed_topologies):
            for j, requirement in enumerate(topology.match_label_expressions):
                yield subject, ("allowedTopologies", i, "matchLabelExpressions", j, "key"), requirement.key


@lru_cache(maxsize=4096)
def find_meant_label(key: str) -> str:
    """Return the well-known node label that a key is similar to, or "" if the key is known or may be custom."""
    domain, _, name = key.rpartition("/")
    if key in _SIMILAR_LABELS or name in _LABELS_BY_DOMAIN.get(domain, ()):
        return ""
    if key in MISTAKEN_LABELS:
        return MISTAKEN_LABELS[key]
    if domain in _LABELS_BY_DOMAIN:
        if similar_name := find_similar_name(name, _LABELS_BY_DOMAIN[domain]):
            return f"{domain}/{similar_name}"
        return _LABEL_BY_NAME.get(name, "") if domain.endswith(_KUBERNETES_DOMAIN) else ""
    domains = [domain for domain, names in _LABELS_BY_DOMAIN.items() if name in names]
    if similar_domain := find_similar_name(domain, domains):
        return f"{similar_domain}/{name}"
    return _LABEL_BY_NAME.get(name, "") if domain.endswith("." + _KUBERNETES_DOMAIN) else ""


def find_ored_terms(workload: Workload) -> Iterator[Problem]:
    """Find node selector terms that nearly every node meets, so that the terms beside them have no effect."""
    terms = get_required_node_terms(workload)
    unselective = [i for i, term in enumerate(terms) if _matches_nearly_all_nodes(term)]
    selective = [term for i, term in enumerate(terms) if i not in unselective]
    if unselective and any(_list_keys(term).isdisjoint(_list_keys(terms[unselective[0]])) for term in selective):
        message = "terms are alternatives: this one takes nearly every node, whatever the others ask for"
        yield workload.build_problem((*NODE_TERMS, unselective[0]), message)


NA_TERMS_ORED = Rule(
    "na-terms-ored",
    NOTE,
    for_each_workload(find_ored_terms),
    summary="Node selector terms that were meant to be combined",
    why="nodeSelectorTerms are ORed: a term that nearly every node meets makes the others pointless.",
    fix="Put all matchExpressions into one term",
    source=doc.AFFINITY,
)


def _list_keys(term: NodeSelectorTerm) -> set[str]:
    """Return the labels that a term names."""
    return {expression.key for expression in term.match_expressions}


def _matches_nearly_all_nodes(term: NodeSelectorTerm) -> bool:
    """Return whether a term only asks for labels that nearly every node has."""
    if not term.match_expressions or term.match_fields:
        return False
    for expression in term.match_expressions:
        first_value = (expression.values or ("",))[0]
        if expression.operator != "In" or (expression.key, first_value) not in _COMMON_LABELS:
            return False
    return True


_ARCHITECTURES = ("amd64", "arm64", "arm", "386", "ppc64le", "ppc64", "s390x", "riscv64", "loong64", "mips64le")
"""The values of GOARCH that kubelets are built for."""
_OPERATING_SYSTEMS = ("linux", "windows", "darwin", "freebsd")
"""Operating systems of nodes, virtual nodes included."""
KNOWN_VALUES: dict[str, tuple[str, ...]] = {
    ARCH: _ARCHITECTURES,
    OS: _OPERATING_SYSTEMS,
    "karpenter.sh/capacity-type": ("spot", "on-demand", "reserved"),
    "eks.amazonaws.com/capacityType": ("SPOT", "ON_DEMAND", "CAPACITY_BLOCK"),
    "kubernetes.azure.com/mode": ("system", "user"),
    "kubernetes.azure.com/scalesetpriority": ("spot", "regular"),
}
"""All values that a label can have."""
_STANDARD_LABELS = (ARCH, OS)
"""Labels for which providers have no values of their own."""
_ALIASES = {
    **dict.fromkeys(("x86_64", "x86-64", "x64", "x86", "amd", "amd_64", "intel", "intel64"), "amd64"),
    **dict.fromkeys(("aarch64", "arm_64", "arm64v8", "arm64/v8", "armv8", "graviton"), "arm64"),
    **dict.fromkeys(("armhf", "armv7", "armv7l", "arm32", "arm/v7"), "arm"),
    **dict.fromkeys(("i386", "i686", "ia32"), "386"),
    **dict.fromkeys(("win", "win32", "win64", "windows-server"), "windows"),
    **dict.fromkeys(("ubuntu", "debian", "rhel", "bottlerocket", "al2", "al2023", "gnu/linux"), "linux"),
    **dict.fromkeys(("ondemand", "on_demand"), "on-demand"),
}
"""Other names in lower case, each with the value of the label."""


class _Requirement(NamedTuple):
    """A requirement on a node label."""

    key: str
    operator: str
    values: tuple[tuple[Path, str], ...]
    """Each value with its path."""


class _WrongValue(NamedTuple):
    """A value of a node label that no node can have."""

    path: Path
    message: str
    fix: str
    replacement: str
    """The value that was meant, or "" if that is not clear."""


def find_impossible_label_values(context: LintContext) -> Iterator[Problem]:
    """Find values of well-known node labels that no node has, and misspelt names of NodePools."""
    pools = {subject.name for subject, _ in context.list_linted(WrittenNodePool)}
    for workload in context.workloads:
        for requirement in _iter_requirements(workload):
            if requirement.key == _POOL_LABEL:
                wrong_values = _find_misspelt_pool_names(requirement, pools)
            else:
                wrong_values = _find_impossible_values(requirement)
            yield from (workload.build_problem(*wrong_value) for wrong_value in wrong_values)
    for subject, pool in context.list_linted(WrittenNodePool):
        for i, declared in enumerate(pool.spec.template.spec.requirements):
            at: Path = ("spec", "template", "spec", "requirements", i, "values")
            values = tuple(((*at, j), str(value)) for j, value in enumerate(declared.values))
            requirement = _Requirement(declared.key, declared.operator, values)
            yield from (subject.build_problem(*wrong_value) for wrong_value in _find_impossible_values(requirement))


NA_UNKNOWN_VALUE = Rule(
    "na-unknown-value",
    WARNING,
    find_impossible_label_values,
    summary="A value that a well-known node label never has",
    why="No node has it: what is required keeps pods Pending, what is preferred or excluded does nothing.",
    fix="Correct the value",
    source=doc.LABELS,
    safe_fix=replace_value,
)


_POOL_LABEL = "karpenter.sh/nodepool"


def _iter_requirements(workload: Workload) -> Iterator[_Requirement]:
    """Yield the requirements of a pod's nodeSelector and node affinity, preferences included."""
    for key, value in workload.spec.node_selector.items():
        yield _Requirement(key, "In", ((("nodeSelector", key), value),))
    for at, term in iter_node_terms(workload):
        for i, expression in enumerate(term.match_expressions):
            path: Path = (*at, "matchExpressions", i, "values")
            values = tuple(((*path, j), value) for j, value in enumerate(expression.values or ()))
            yield _Requirement(expression.key, expression.operator, values)


def _find_impossible_values(requirement: _Requirement) -> Iterator[_WrongValue]:
    """Yield the values of a well-known label that no node has, unless the value that was meant is listed, too."""
    key = DEPRECATED_LABELS.get(requirement.key, requirement.key)
    known_values = KNOWN_VALUES.get(key, ())
    if not known_values or requirement.operator not in ("In", "NotIn"):
        return
    written = {value for _, value in requirement.values}
    for path, value in requirement.values:
        if value in known_values:
            continue
        meant = _find_meant_value(value, known_values)
        if meant in written or (not meant and key not in _STANDARD_LABELS):
            continue
        fix = f"Write {meant}" if meant else f"Write one of {', '.join(known_values[:3])}"
        yield _WrongValue(path, f"{requirement.key} is never {value or 'empty'} on a node", fix, meant)


def _find_meant_value(value: str, known_values: tuple[str, ...]) -> str:
    """Return the known value that a value is an alias or a misspelling of, or ""."""
    alias = _ALIASES.get(value.lower(), "")
    return alias if alias in known_values else find_similar_name(value, known_values)


def _find_misspelt_pool_names(requirement: _Requirement, pools: Collection[str]) -> Iterator[_WrongValue]:
    """Yield the names of NodePools that do not exist but are similar to one of `pools`."""
    for path, value in requirement.values:
        if meant := find_similar_name(value, pools) if value not in pools else "":
            yield _WrongValue(path, f'there is no NodePool "{value}", but "{meant}"', f"Write {meant}", meant)


def find_os_mismatches(workload: Workload) -> Iterator[Problem]:
    """Find workloads whose operating system is not that of the nodes that they may go to."""
    field, name = _find_pod_os(workload)
    if name not in _OPERATING_SYSTEMS:
        return
    conditions = [alternative.conditions.by_key.get(OS) for alternative in list_alternatives(workload.spec)]
    allowed = [values.allowed for values in conditions if values is not None and values.allowed is not None]
    if allowed and not any(name in values for values in allowed):
        systems = ", ".join(sorted({value for values in allowed for value in values}))
        message = f"{field} says {name}, but the pods go to {systems} nodes only: the kubelet refuses them there"
        yield workload.build_problem(find_selection_path(workload), message)
    elif name == "windows" and field == _OS_NAME and not allowed and not workload.spec.node_name:
        yield workload.build_problem(("os", "name"), "the scheduler does not read it: the pods go to linux nodes too")


NA_OS_MISMATCH = Rule(
    "na-os-mismatch",
    ERROR,
    for_each_workload(find_os_mismatches),
    summary="Pods whose operating system differs from that of their nodes",
    why="The scheduler does not read spec.os: it places the pods by labels alone, and the kubelet refuses them.",
    fix="Select nodes by kubernetes.io/os with the value of spec.os.name",
    source="https://kubernetes.io/docs/concepts/workloads/pods/#pod-os",
)


_OS_NAME, _WINDOWS_OPTIONS = "spec.os", "securityContext.windowsOptions"


def _find_pod_os(workload: Workload) -> tuple[str, str]:
    """Return the field that names the operating system of the pods, and the system, or two empty strings."""
    spec = workload.written_spec
    system = field_at(spec, "os", "name")
    if isinstance(system, str):
        return _OS_NAME, system
    for holder in (spec, *array_at(spec, "containers")):
        if field_at(holder, "securityContext", "windowsOptions"):
            return _WINDOWS_OPTIONS, "windows"
    return "", ""
