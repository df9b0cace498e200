"""Matching of pods with the labels of flavors and nodes.

Upstream: flavorSelector of pkg/scheduler/flavorassigner/flavorassigner.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kschedctl.api.node_selector import NodeSelectorError, compile_preferred_terms, compile_required_node_affinity
from kschedctl.api.objects import Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorTerm, PodSpec


def matches_required_affinity(spec: PodSpec, node: Node) -> bool:
    """Return whether a node satisfies a pod's nodeSelector and required node affinity."""
    return compile_required_node_affinity(spec).allows(node.metadata.labels, node.metadata.name)


def score_preferred_affinity(spec: PodSpec, node: Node) -> int:
    """Return the sum of the weights of the pod's preferred node affinity that the node satisfies."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    try:
        return compile_preferred_terms(terms).score(node.metadata.labels, node.metadata.name)
    except NodeSelectorError:
        return 0


def matches_flavor(spec: PodSpec, node_labels: Mapping[str, str]) -> bool:
    """Return whether a pod may use a flavor with these node labels. Raises NodeSelectorError.

    Only requirements on the flavor's own labels count. A term of the affinity without any makes the affinity match.
    """
    return compile_required_node_affinity(_restrict_to_keys(spec, node_labels)).match(node_labels, "")


def _restrict_to_keys(spec: PodSpec, keys: Mapping[str, str]) -> PodSpec:
    """Return a pod with only the node requirements on some labels."""
    selector = {key: value for key, value in spec.node_selector.items() if key in keys}
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms: list[NodeSelectorTerm] = []
    for term in required.node_selector_terms if required else ():
        expressions = tuple(expression for expression in term.match_expressions if expression.key in keys)
        if not expressions:
            terms = []
            break
        terms.append(NodeSelectorTerm(expressions))
    restricted = None
    if terms:
        node_selector = NodeSelector(tuple(terms))
        node_affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=node_selector)
        restricted = Affinity(node_affinity=node_affinity)
    return replace(spec, node_selector=selector, affinity=restricted)
