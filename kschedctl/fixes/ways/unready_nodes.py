"""Fixes for nodes that take no pods because they are faulty or still starting."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kschedctl.api.objects import Node, Taint
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT
from kschedctl.fixes.trial.changes import Fix, on_node
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import TriedNode
from kschedctl.replay import kubectl
from kschedctl.scheduler.plugins.taint_toleration import UNINITIALIZED
from kschedctl.snapshot.nodes import NodeColumns

SET_BY_KUBERNETES, BY_PROVIDERS = "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/"
"""Taints that say how a node is: one that is taken off comes back. Reference: Taints and Tolerations, k8s.io/docs."""
WHILE_STARTING = ("/uninitialized", "/agent-not-ready", "/unregistered", "/startup")
"""How keys of taints end that cloud providers, CNI and CSI drivers and Karpenter take off a node once it is set up."""
STARTS, INITIALIZE, REPAIR = 10, 10, 15


def is_of_condition(taint: Taint) -> bool:
    """Return whether the taint reports a condition of the node other than a cordon."""
    own = taint.key.startswith((SET_BY_KUBERNETES, BY_PROVIDERS)) or taint.key.endswith(WHILE_STARTING)
    return own and taint.key != UNSCHEDULABLE_TAINT.key


def is_fault(taint: Taint) -> bool:
    """Return whether the taint says that the node has a fault, rather than that it is only starting."""
    return is_of_condition(taint) and not taint.key.endswith(WHILE_STARTING)


def without_condition_taints(node: Node) -> Node:
    """Return the node without taints that report its condition."""
    kept = tuple(taint for taint in node.spec.taints if not is_of_condition(taint))
    return replace(node, spec=replace(node.spec, taints=kept))


def repair_node(tried: TriedNode, node: Node) -> Fix:
    """Build the fix that waits for a starting node, or repairs a node that is not ready."""
    name = node.metadata.name
    taints = [taint for taint in node.spec.taints if is_of_condition(taint)]
    states = dict.fromkeys(taint.key.rpartition("/")[2] for taint in taints)
    starting = any(taint.key.endswith(WHILE_STARTING) for taint in taints)
    what = f"wait until node {name} is set up" if starting else f"get node {name} ready again"
    kind, cost = (FixKind.WAIT, STARTS) if starting else (FixKind.REPAIR_NODE, REPAIR)
    commands = (kubectl.render_command("describe", "node", name),)
    text, edits = f"{what} ({', '.join(states)})", on_node(node, without_condition_taints)
    return Fix(kind, name, text, "operator", edits, cost, commands=commands, variant_of="node", where=name)


def is_no_node_initialized(nodes: NodeColumns) -> bool:
    """Return whether every node still has the taint that the cloud controller manager removes."""
    taint_sets, taint_set = nodes.taint_sets
    has_taint = [any(taint.key == UNINITIALIZED for taint in taints) for taints in taint_sets]
    return bool(len(taint_set)) and bool(np.array(has_taint, np.bool_)[taint_set].all())


def initialize_nodes(nodes: NodeColumns) -> Fix:
    """Return the fix that gets the cloud controller manager running, which then initializes all nodes."""

    def initialized(node: Node) -> Node:
        kept = tuple(taint for taint in node.spec.taints if taint.key != UNINITIALIZED)
        return replace(node, spec=replace(node.spec, taints=kept))

    edits = tuple(edit for node in nodes.objects for edit in on_node(node, initialized))
    have = {1: "the only node still has", 2: "both nodes still have"}.get(
        len(nodes), f"all {len(nodes):,} nodes still have"
    )
    text = f"get the cloud controller manager running: {have} the taint {UNINITIALIZED}, which it removes"
    commands = (kubectl.render_command("describe", "node", nodes.names[0]),)
    return Fix(FixKind.START_CLOUD_CONTROLLER, "", text, "operator", edits, INITIALIZE, commands=commands)
