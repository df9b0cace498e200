"""Constraints of pods on nodes as masks, (N,), evaluated once for nodes that are equal in what a constraint reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kschedctl.api.arrays import Bools, Ints
from kschedctl.api.node_selector import CompiledNodeSelector, RequiredNodeAffinity
from kschedctl.api.objects import Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated
from kschedctl.snapshot.nodes import NodeColumns


def match_node_selector(nodes: NodeColumns, selector: CompiledNodeSelector) -> Bools:
    """Return the nodes that a node selector matches. Raises NodeSelectorError."""
    return nodes.evaluate(selector.match, selector.keys, selector.names).astype(np.bool_)


def match_required_affinity(nodes: NodeColumns, required: RequiredNodeAffinity) -> Bools:
    """Return the nodes that a pod's nodeSelector and required terms match; invalid terms match none."""
    return nodes.evaluate(required.allows, required.keys, required.names).astype(np.bool_)


def find_untolerated_taints(
    nodes: NodeColumns, tolerations: Iterable[Toleration], comparison_operators: bool = False
) -> tuple[list[Taint | None], Ints]:
    """Return the first untolerated NoSchedule or NoExecute taint of each taint set, and each node's taint set."""
    taint_sets, taint_set = nodes.taint_sets
    own = tuple(tolerations)
    return [find_untolerated(taints, own, HARD_EFFECTS, comparison_operators) for taints in taint_sets], taint_set


def find_tolerated(nodes: NodeColumns, tolerations: Iterable[Toleration], comparison_operators: bool = False) -> Bools:
    """Return the nodes whose NoSchedule and NoExecute taints are all tolerated."""
    against, taint_set = find_untolerated_taints(nodes, tolerations, comparison_operators)
    return np.array([taint is None for taint in against], np.bool_)[taint_set]
