"""Labels of nodes that nobody can have meant as they are written, and terms that were meant together."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from kschedctl.api.objects import NodeSelectorTerm
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import NOTE, WARNING, Rule
from kschedctl.lint.rules.node_selection import TERMS
from kschedctl.lint.rules.spread_fields import NO_LABELS
from kschedctl.lint.rules.storage import node_label_keys
from kschedctl.lint.subject import Problem
from kschedctl.lint.world import World

ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
_NAMES = {
    "kubernetes.io": ("hostname", "os", "arch"),
    "topology.kubernetes.io": ("zone", "region", "rack", "block"),
    "node.kubernetes.io": ("instance-type", "windows-build", "exclude-from-external-load-balancers"),
}
"""Domain of Kubernetes -> the labels of nodes in it."""
_NEAR, _NEAR_DOMAIN = 0.8, 0.93
"""How much two names are alike, from 0 to 1, where one was meant for the other."""
_NEARLY_ALL = ((OS, "linux"), (ARCH, "amd64"))
"""Labels that nearly every node has with such a value."""


def misspelt(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for path, key in node_label_keys(workload):
            if meant := _meant(key):
                yield workload.problem(path, f"no node has the label {key}", f"Write {meant}")


def _meant(key: str) -> str:
    """The label of nodes of which a key is nearly one, empty where it is one, or is in a domain of somebody else."""
    domain, _, name = key.rpartition("/")
    if key in NO_LABELS:  # ts-wrong-hostname-key tells of these where topologies are named
        return ""
    if domain not in _NAMES:
        known = [known for known, names in _NAMES.items() if name in names]
        near = get_close_matches(domain, known, 1, _NEAR_DOMAIN)
        return f"{near[0]}/{name}" if near else ""
    near = [] if name in _NAMES[domain] else get_close_matches(name, _NAMES[domain], 1, _NEAR)
    return f"{domain}/{near[0]}" if near else ""


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
        summary="A label of nodes that is nearly one of Kubernetes' own",
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
