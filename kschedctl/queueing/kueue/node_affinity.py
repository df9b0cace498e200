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
    """Add up the weights of the pod's preferred node affinity terms that the node matches.

    The score is 0 if the pod has no preferred terms or one of them is invalid.
    """
    affinity = spec.affinity.node_affinity if spec.affinity else None
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    try:
        return compile_preferred_terms(terms).score(node.metadata.labels, node.metadata.name)
    except NodeSelectorError:
        return 0


def matches_flavor(spec: PodSpec, node_labels: Mapping[str, str]) -> bool:
    """Return whether a pod's node selector and affinity allow a flavor with these node labels.

    Only requirements on labels of the flavor are checked. If a term of the affinity has no such requirement, the whole
    affinity matches. Raises NodeSelectorError if a node selector is invalid.
    """
    return compile_required_node_affinity(_restrict_spec_to_labels(spec, node_labels)).match(node_labels, "")


def _restrict_spec_to_labels(spec: PodSpec, keys: Mapping[str, str]) -> PodSpec:
    """Return the pod spec with only the node selector and the required node affinity on these labels.

    Preferred terms are dropped. If a required term has no requirement on the labels, the whole affinity is dropped,
    because that term then always matches.
    """
    selector = {key: value for key, value in spec.node_selector.items() if key in keys}
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = [
        NodeSelectorTerm(tuple(expression for expression in term.match_expressions if expression.key in keys))
        for term in (required.node_selector_terms if required else ())
    ]
    if not terms or not all(term.match_expressions for term in terms):
        return replace(spec, node_selector=selector, affinity=None)

    node_selector = NodeSelector(tuple(terms))
    node_affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=node_selector)
    return replace(spec, node_selector=selector, affinity=Affinity(node_affinity=node_affinity))
