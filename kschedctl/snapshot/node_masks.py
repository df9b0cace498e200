"""What a pod demands of nodes as masks, (N,): each rule is judged once for nodes that are alike in what it reads."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kschedctl.api.arrays import Bools, Ints
from kschedctl.api.node_selector import CompiledNodeSelector, RequiredNodeAffinity
from kschedctl.api.objects import Taint, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated
from kschedctl.snapshot.nodes import NodeColumns


def matching(nodes: NodeColumns, selector: CompiledNodeSelector) -> Bools:
    """The nodes that a node selector matches. Raises NodeSelectorError."""
    return nodes.evaluate(selector.match, selector.keys, selector.names).astype(np.bool_)


def allowed(nodes: NodeColumns, required: RequiredNodeAffinity) -> Bools:
    """The nodes that a pod's own selector and required terms match; terms that cannot be parsed match none."""
    return nodes.evaluate(required.allows, required.keys, required.names).astype(np.bool_)


def first_untolerated(
    nodes: NodeColumns, tolerations: Iterable[Toleration], comparison_operators: bool = False
) -> tuple[list[Taint | None], Ints]:
    """The first taint of each distinct list that repels pods and is not tolerated, and which list a node has."""
    taint_sets, taint_set = nodes.taint_sets
    own = tuple(tolerations)
    return [find_untolerated(taints, own, HARD_EFFECTS, comparison_operators) for taints in taint_sets], taint_set


def tolerated(nodes: NodeColumns, tolerations: Iterable[Toleration], comparison_operators: bool = False) -> Bools:
    """The nodes of which every taint that repels pods is tolerated."""
    against, taint_set = first_untolerated(nodes, tolerations, comparison_operators)
    return np.array([taint is None for taint in against], np.bool_)[taint_set]
