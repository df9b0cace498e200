"""Rules about misspelled and deprecated node labels, impossible label values, and the operating system of pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

from kschedctl.api.json_values import array_at, field_at
from kschedctl.api.objects import NodeSelectorTerm, PersistentVolume, StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.analysis.node_requirements import (
    DEPRECATED_LABELS,
    MISTAKEN_LABELS,
    list_node_condition_alternatives,
)
from kschedctl.lint.analysis.placement import (
    NODE_TERMS,
    get_required_node_terms,
    iter_node_affinity_terms,
    iter_node_label_keys,
    iter_volume_label_keys,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WrittenNodePool
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, build_label_replacement, for_each_workload, replace_value
from kschedctl.lint.rules.node_selection.affinity import get_selection_path

MASTER, CONTROL_PLANE = "node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"
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
"""Domain -> the names of its known node labels."""
_DISTRIBUTION_LABELS = {"kubernetes.io/role", "node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/masters"}
"""Labels of distributions and installers that only look like misspellings of Kubernetes' labels."""
_LABEL_BY_NAME = {
    name: f"{domain}/{name}"
    for domain in ("node.kubernetes.io", "topology.kubernetes.io", "kubernetes.io")
    for name in _LABELS_BY_DOMAIN[domain]
}
"""Name of a label without its domain -> Kubernetes' own label of this name."""
_KUBERNETES_DOMAIN = "kubernetes.io"
_COMMON_LABELS = ((OS, "linux"), (ARCH, "amd64"))
"""Labels and values that nearly every node has."""


def find_misspelled_node_labels(context: LintContext) -> Iterator[Problem]:
    """Find node labels in workloads, volumes, StorageClasses and NodePools that look misspelled.

    All labels are compared with well-known labels. Labels in workloads are also compared with the labels of the
    NodePools. Common mistakes in a topologyKey are left out because another rule reports them.
    """
    pool_labels = {key for _, pool in context.list_linted_objects(WrittenNodePool) for key in pool.labels}
    for workload in context.workloads:
        for path, key in iter_node_label_keys(workload):
            if key in MISTAKEN_LABELS and path[-1] == "topologyKey":
                continue  # ts-wrong-hostname-key reports it
            similar_label = find_similar_known_label(key)
            if not similar_label and key not in pool_labels:
                similar_label = find_similar_name(key, pool_labels)
            if similar_label:
                yield workload.build_problem(path, f"no node has the label {key}", f"Write {similar_label}")
    for subject, path, key in _iter_label_keys_outside_workloads(context):
        similar_label = find_similar_known_label(key)
        if similar_label:
            yield subject.build_problem(path, f"no node has the label {key}", f"Write {similar_label}")


LB_MISSPELT = Rule(
    "lb-misspelt",
    WARNING,
    find_misspelled_node_labels,
    summary="A reference to a node label that looks like a misspelled well-known, cloud or NodePool label",
    why="No node has a label with this key, so requirements on it keep pods Pending, and preferences have no effect.",
    fix="Correct the label",
    source=doc.LABELS,
)


def find_deprecated_node_labels(context: LintContext) -> Iterator[Problem]:
    """Find deprecated node labels in workloads and PersistentVolumes.

    The former label of control-plane nodes is reported only in nodeSelector, and not in namespaces of OpenShift.
    """
    for workload in context.workloads:
        for path, key in iter_node_label_keys(workload):
            if key in DEPRECATED_LABELS:
                successor = DEPRECATED_LABELS[key]
                yield workload.build_problem(path, f"{key} is deprecated", f"Write {successor}", successor)
            elif path == ("nodeSelector", MASTER) and not workload.namespace.startswith("openshift-"):
                message = f"{MASTER} was replaced in 1.24, and nodes of newer clusters do not have it"
                yield workload.build_problem(path, message, f"Write {CONTROL_PLANE}", CONTROL_PLANE)
    for subject, volume in context.list_linted_objects(PersistentVolume):
        for path, key in iter_volume_label_keys(volume):
            if key in DEPRECATED_LABELS:
                successor = DEPRECATED_LABELS[key]
                yield subject.build_problem(path, f"{key} is deprecated", f"Write {successor}", successor)


LB_DEPRECATED = Rule(
    "lb-deprecated",
    WARNING,
    find_deprecated_node_labels,
    summary="A deprecated node label in a selector, a topologyKey or a PersistentVolume",
    why="New nodes may lack the label. Then no node matches, and the pods stay Pending.",
    fix="Use the label that replaces the deprecated one",
    source=doc.LABELS,
    safe_fix=build_label_replacement,
)


def _iter_label_keys_outside_workloads(context: LintContext) -> Iterator[tuple[Subject, Path, str]]:
    """Yield each node label key that a PersistentVolume, NodePool or StorageClass names, with its path."""
    for subject, volume in context.list_linted_objects(PersistentVolume):
        yield from ((subject, path, key) for path, key in iter_volume_label_keys(volume))
    for subject, pool in context.list_linted_objects(WrittenNodePool):
        for i, declared in enumerate(pool.spec.template.spec.requirements):
            yield subject, ("spec", "template", "spec", "requirements", i, "key"), declared.key
    for subject, storage_class in context.list_linted_objects(StorageClass):
        for i, topology in enumerate(storage_class.allowed_topologies):
            for j, requirement in enumerate(topology.match_label_expressions):
                yield subject, ("allowedTopologies", i, "matchLabelExpressions", j, "key"), requirement.key


@lru_cache(maxsize=4096)
def find_similar_known_label(key: str) -> str:
    """Return the well-known node label that a key is probably meant to be, or "".

    The key may be a common mistake, its name or its domain may be misspelled, or it may use the wrong domain of
    Kubernetes. Known keys and keys that may be custom give "".
    """
    domain, _, name = key.rpartition("/")
    is_known = name in _LABELS_BY_DOMAIN.get(domain, ())
    if is_known or key in _DISTRIBUTION_LABELS:
        return ""
    if key in MISTAKEN_LABELS:
        return MISTAKEN_LABELS[key]

    similar_label = _find_similarly_spelt_label(domain, name)
    if similar_label:
        return similar_label
    is_kubernetes_domain = domain == _KUBERNETES_DOMAIN or domain.endswith(f".{_KUBERNETES_DOMAIN}")
    return _LABEL_BY_NAME.get(name, "") if is_kubernetes_domain else ""


def _find_similarly_spelt_label(domain: str, name: str) -> str:
    """Return the known label that differs from this label only by a misspelled name or domain.

    In a known domain, the name is compared. For an unknown domain, the domain is compared. Return "" if no label is
    similar.
    """
    if domain in _LABELS_BY_DOMAIN:
        similar_name = find_similar_name(name, _LABELS_BY_DOMAIN[domain])
        return f"{domain}/{similar_name}" if similar_name else ""
    domains_with_name = [domain for domain, names in _LABELS_BY_DOMAIN.items() if name in names]
    similar_domain = find_similar_name(domain, domains_with_name)
    return f"{similar_domain}/{name}" if similar_domain else ""


def find_ineffective_alternative_terms(workload: Workload) -> Iterator[Problem]:
    """Report the first node selector term that nearly every node meets, if another term uses other labels.

    Because terms are alternatives, the other term then has no effect.
    """
    terms = get_required_node_terms(workload)
    unselective_indices = [i for i, term in enumerate(terms) if _matches_nearly_all_nodes(term)]
    if not unselective_indices:
        return
    first = unselective_indices[0]
    selective_terms = [term for i, term in enumerate(terms) if i not in unselective_indices]
    if any(_list_label_keys(term).isdisjoint(_list_label_keys(terms[first])) for term in selective_terms):
        message = "terms are alternatives: nearly every node meets this one, so the other terms have no effect"
        yield workload.build_problem((*NODE_TERMS, first), message)


NA_TERMS_ORED = Rule(
    "na-terms-ored",
    NOTE,
    for_each_workload(find_ineffective_alternative_terms),
    summary="Several nodeSelectorTerms that were probably meant to be one term",
    why="nodeSelectorTerms are ORed: a term that nearly every node meets makes the other terms useless.",
    fix="Put all matchExpressions into one term",
    source=doc.AFFINITY,
)


def _list_label_keys(term: NodeSelectorTerm) -> set[str]:
    """Return the keys of the node labels in a node selector term."""
    return {expression.key for expression in term.match_expressions}


def _matches_nearly_all_nodes(term: NodeSelectorTerm) -> bool:
    """Return whether a term requires only labels that nearly every node has, such as kubernetes.io/os=linux."""
    if not term.match_expressions or term.match_fields:
        return False
    for expression in term.match_expressions:
        has_common_value = any((expression.key, value) in _COMMON_LABELS for value in expression.values or ())
        if expression.operator != "In" or not has_common_value:
            return False
    return True


_ARCHITECTURES = ("amd64", "arm64", "arm", "386", "ppc64le", "ppc64", "s390x", "riscv64", "loong64", "mips64le")
"""The values of GOARCH that kubelets are built for."""
_OPERATING_SYSTEMS = ("linux", "windows", "darwin", "freebsd")
"""Operating systems of nodes, including virtual nodes."""
KNOWN_VALUES: dict[str, tuple[str, ...]] = {
    ARCH: _ARCHITECTURES,
    OS: _OPERATING_SYSTEMS,
    "karpenter.sh/capacity-type": ("spot", "on-demand", "reserved"),
    "eks.amazonaws.com/capacityType": ("SPOT", "ON_DEMAND", "CAPACITY_BLOCK"),
    "kubernetes.azure.com/mode": ("system", "user"),
    "kubernetes.azure.com/scalesetpriority": ("spot", "regular"),
}
"""Label -> all values that it can have."""
_STANDARD_LABELS = (ARCH, OS)
"""Labels for which providers do not define further values."""
_ALIASES = {
    **dict.fromkeys(("x86_64", "x86-64", "x64", "x86", "amd", "amd_64", "intel", "intel64"), "amd64"),
    **dict.fromkeys(("aarch64", "arm_64", "arm64v8", "arm64/v8", "armv8", "graviton"), "arm64"),
    **dict.fromkeys(("armhf", "armv7", "armv7l", "arm32", "arm/v7"), "arm"),
    **dict.fromkeys(("i386", "i686", "ia32"), "386"),
    **dict.fromkeys(("win", "win32", "win64", "windows-server"), "windows"),
    **dict.fromkeys(("ubuntu", "debian", "rhel", "bottlerocket", "al2", "al2023", "gnu/linux"), "linux"),
    **dict.fromkeys(("ondemand", "on_demand"), "on-demand"),
}
"""Another name in lower case -> the value of the label."""


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


def find_wrong_label_values(context: LintContext) -> Iterator[Problem]:
    """Find workloads and NodePools that require a value that a well-known node label never has.

    Requirements of workloads are also checked for misspelled names of NodePools.
    """
    pool_names = {subject.name for subject, _ in context.list_linted_objects(WrittenNodePool)}
    for workload in context.workloads:
        for requirement in _iter_node_label_requirements(workload):
            if requirement.key == _POOL_LABEL:
                wrong_values = _find_misspelled_pool_names(requirement, pool_names)
            else:
                wrong_values = _find_impossible_values(requirement)
            for wrong in wrong_values:
                yield workload.build_problem(wrong.path, wrong.message, wrong.fix, wrong.replacement)
    for subject, pool in context.list_linted_objects(WrittenNodePool):
        for i, declared in enumerate(pool.spec.template.spec.requirements):
            path: Path = ("spec", "template", "spec", "requirements", i, "values")
            values = tuple(((*path, j), str(value)) for j, value in enumerate(declared.values))
            requirement = _Requirement(declared.key, declared.operator, values)
            for wrong in _find_impossible_values(requirement):
                yield subject.build_problem(wrong.path, wrong.message, wrong.fix, wrong.replacement)


NA_UNKNOWN_VALUE = Rule(
    "na-unknown-value",
    WARNING,
    find_wrong_label_values,
    summary="A value that a well-known node label never has",
    why="No node has the value: requirements keep pods Pending, and preferences and exclusions have no effect.",
    fix="Correct the value",
    source=doc.LABELS,
    safe_fix=replace_value,
)


_POOL_LABEL = "karpenter.sh/nodepool"


def _iter_node_label_requirements(workload: Workload) -> Iterator[_Requirement]:
    """Yield the requirements of a pod's nodeSelector and of its required and preferred node affinity."""
    for key, value in workload.spec.node_selector.items():
        value_with_path = (("nodeSelector", key), value)
        yield _Requirement(key, "In", (value_with_path,))
    for term_path, term in iter_node_affinity_terms(workload):
        for i, expression in enumerate(term.match_expressions):
            path: Path = (*term_path, "matchExpressions", i, "values")
            values = tuple(((*path, j), value) for j, value in enumerate(expression.values or ()))
            yield _Requirement(expression.key, expression.operator, values)


def _find_impossible_values(requirement: _Requirement) -> Iterator[_WrongValue]:
    """Yield the required values of a well-known label that no node has.

    A value is left out if the requirement also lists its correct spelling. Values that resemble no known value are only
    wrong if providers cannot define further values of the label.
    """
    key = DEPRECATED_LABELS.get(requirement.key, requirement.key)
    known_values = KNOWN_VALUES.get(key, ())
    if not known_values or requirement.operator not in ("In", "NotIn"):
        return
    listed_values = {value for _, value in requirement.values}
    for path, value in requirement.values:
        if value in known_values:
            continue
        correct_value = _find_correct_value(value, known_values)
        may_be_defined_by_provider = not correct_value and key not in _STANDARD_LABELS
        if correct_value in listed_values or may_be_defined_by_provider:
            continue
        message = f"{requirement.key} never has the value {value}"
        fix = f"Write {correct_value}" if correct_value else f"Write one of {', '.join(known_values[:3])}"
        yield _WrongValue(path, message, fix, correct_value)


def _find_correct_value(value: str, known_values: tuple[str, ...]) -> str:
    """Find the known value that a value is an alias or a misspelling of, or return ""."""
    alias = _ALIASES.get(value.lower(), "")
    return alias if alias in known_values else find_similar_name(value, known_values)


def _find_misspelled_pool_names(requirement: _Requirement, pool_names: Collection[str]) -> Iterator[_WrongValue]:
    """Yield the required NodePool names that do not exist but resemble one of ``pool_names``."""
    for path, value in requirement.values:
        similar_name = "" if value in pool_names else find_similar_name(value, pool_names)
        if similar_name:
            message = f'NodePool "{value}" does not exist, but "{similar_name}" does'
            yield _WrongValue(path, message, f"Write {similar_name}", similar_name)


def find_os_mismatches(workload: Workload) -> Iterator[Problem]:
    """Report a workload whose pods are for another operating system than the nodes that it selects.

    Pods whose spec.os names Windows are also reported if nothing restricts the operating system of their nodes and no
    node is set. Pods that name no known operating system are left out.
    """
    field, pod_os = _find_field_implying_os(workload)
    if pod_os not in _OPERATING_SYSTEMS:
        return
    allowed_sets = []  # for each alternative that restricts the operating system
    for alternative in list_node_condition_alternatives(workload.spec):
        values = alternative.conditions.by_key.get(OS)
        if values is not None and values.allowed is not None:
            allowed_sets.append(values.allowed)
    if allowed_sets:
        selected_systems = sorted(set().union(*allowed_sets))
        if pod_os not in selected_systems:
            message = (
                f"{field} is for {pod_os}, but the pods select {', '.join(selected_systems)} nodes, where the kubelet "
                "rejects them"
            )
            yield workload.build_problem(get_selection_path(workload), message)
    elif pod_os == "windows" and field == _OS_NAME and not workload.spec.node_name:
        message = "the scheduler ignores spec.os, so the pods may be placed on linux nodes"
        yield workload.build_problem(("os", "name"), message)


NA_OS_MISMATCH = Rule(
    "na-os-mismatch",
    ERROR,
    for_each_workload(find_os_mismatches),
    summary="Pods whose spec.os.name differs from the operating system of their nodes",
    why="The scheduler ignores spec.os and places the pods by labels alone. The kubelet then rejects them.",
    fix="Set the node selector kubernetes.io/os to the value of spec.os.name",
    source="https://kubernetes.io/docs/concepts/workloads/pods/#pod-os",
)


_OS_NAME, _WINDOWS_OPTIONS = "spec.os", "securityContext.windowsOptions"


def _find_field_implying_os(workload: Workload) -> tuple[str, str]:
    """Return the field that implies the pods' operating system, spec.os or windowsOptions, and the system's name.

    Both are "" if neither field is set.
    """
    spec = workload.written_spec
    name = field_at(spec, "os", "name")
    if isinstance(name, str):
        return _OS_NAME, name
    for pod_or_container in (spec, *array_at(spec, "containers")):
        if field_at(pod_or_container, "securityContext", "windowsOptions"):
            return _WINDOWS_OPTIONS, "windows"
    return "", ""
