"""Labels of nodes that nobody can have meant as they are written, and terms that were meant together."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from kschedctl.api.objects import NodeSelectorTerm
from kschedctl.lint import documentation as doc
from kschedctl.lint.near_names import one_meant
from kschedctl.lint.rule import NOTE, WARNING, Rule
from kschedctl.lint.rules.node_selection import TERMS
from kschedctl.lint.rules.spread_fields import NO_LABELS
from kschedctl.lint.rules.storage import node_label_keys
from kschedctl.lint.subject import Path, Problem, Subject
from kschedctl.lint.world import World

ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
_NAMES = {
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
"""Domain -> the labels of nodes in it."""
_ALSO_THERE = {"kubernetes.io/role", "node-role.kubernetes.io/controlplane", "node-role.kubernetes.io/masters"}
"""Labels of distributions and installers, nearly as Kubernetes' own."""
_HOME = {name: f"{domain}/{name}" for domain, names in list(_NAMES.items())[:3][::-1] for name in names}
"""Name -> the label of Kubernetes' own with it, whatever the domain before it is."""
_FAMILY = "kubernetes.io"
_NEARLY_ALL = ((OS, "linux"), (ARCH, "amd64"))
"""Labels that nearly every node has with such a value."""


def misspelt(world: World) -> Iterator[Problem]:
    of_pools = {key for _, pool in world.linted("NodePool") for key in pool.labels}
    for workload in world.workloads:
        for path, key in node_label_keys(workload):
            told_elsewhere = key in NO_LABELS and path[-1] == "topologyKey"  # ts-wrong-hostname-key tells of these
            meant = label_meant(key) or ("" if key in of_pools else one_meant(key, of_pools))
            if meant and not told_elsewhere:
                yield workload.problem(path, f"no node has the label {key}", f"Write {meant}")
    for subject, path, key in _of_others(world):
        if meant := label_meant(key):
            yield subject.problem(path, f"no node has the label {key}", f"Write {meant}")


def _of_others(world: World) -> Iterator[tuple[Subject, Path, str]]:
    """What volumes and classes of storage ask of nodes, and what NodePools say of theirs."""
    for subject, volume in world.linted("PersistentVolume"):
        required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
        for i, term in enumerate(required.node_selector_terms if required else ()):
            for j, expression in enumerate(term.match_expressions):
                at: Path = ("spec", "nodeAffinity", "required", "nodeSelectorTerms", i, "matchExpressions", j, "key")
                yield subject, at, expression.key
    for subject, pool in world.linted("NodePool"):
        for i, declared in enumerate(pool.spec.template.spec.requirements):
            yield subject, ("spec", "template", "spec", "requirements", i, "key"), declared.key
    for subject, found in world.linted("StorageClass"):
        for i, allowed in enumerate(found.allowed_topologies):
            for j, asked in enumerate(allowed.match_label_expressions):
                yield subject, ("allowedTopologies", i, "matchLabelExpressions", j, "key"), asked.key


@lru_cache(maxsize=4096)
def label_meant(key: str) -> str:
    """The label of nodes of which a key is nearly one, empty where it is one, or may be somebody's own."""
    domain, _, name = key.rpartition("/")
    if key in _ALSO_THERE or name in _NAMES.get(domain, ()):
        return ""
    if key in NO_LABELS:
        return NO_LABELS[key]
    if domain in _NAMES:
        here = one_meant(name, _NAMES[domain])
        return f"{domain}/{here}" if here else _HOME.get(name, "") if domain.endswith(_FAMILY) else ""
    known = [known for known, names in _NAMES.items() if name in names]
    if near := one_meant(domain, known):
        return f"{near}/{name}"
    return _HOME.get(name, "") if domain.endswith("." + _FAMILY) else ""


def ored(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        affinity = workload.spec.affinity.node_affinity if workload.spec.affinity else None
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        terms = required.node_selector_terms if required else ()
        wide = [i for i, term in enumerate(terms) if _nearly_all(term)]
        others = [term for i, term in enumerate(terms) if i not in wide]
        if wide and any(_keys(term).isdisjoint(_keys(terms[wide[0]])) for term in others):
            message = "terms are alternatives: this one takes nearly every node, whatever the others ask for"
            yield workload.problem((*TERMS, wide[0]), message)


def _keys(term: NodeSelectorTerm) -> set[str]:
    return {expression.key for expression in term.match_expressions}


def _nearly_all(term: NodeSelectorTerm) -> bool:
    """Whether it asks for nothing but what nearly every node has."""
    asked = term.match_expressions
    common = all(e.operator == "In" and (e.key, v) in _NEARLY_ALL for e in asked for v in (e.values or ("",))[:1])
    return bool(asked) and common and not term.match_fields


RULES = (
    Rule(
        "lb-misspelt",
        WARNING,
        misspelt,
        summary="A label of nodes that is nearly one of Kubernetes' own, of a cloud's or of a NodePool's",
        why="No node has it: what is required keeps pods Pending, what is preferred does nothing.",
        fix="Write the label as Kubernetes does",
        source=doc.LABELS,
    ),
    Rule(
        "na-terms-ored",
        NOTE,
        ored,
        summary="Node selector terms that were meant to hold together",
        why="One of nodeSelectorTerms is enough: a term that nearly every node meets makes the others pointless.",
        fix="Put all matchExpressions into one term",
        source=doc.AFFINITY,
    ),
)
