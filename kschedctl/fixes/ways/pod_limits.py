"""A fix that raises the number of pods that a node's kubelet accepts (maxPods)."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Node
from kschedctl.api.resource_names import PODS
from kschedctl.fixes.trial.changes import Fix, on_node
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.replay import kubectl
from kschedctl.scheduler.plugins.node_resources.facts import TooManyPods

RAISE = 60


def raise_max_pods(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield the fix that lets the kubelet accept one more pod, if its limit is the only reason for the rejection.

    The kubelet publishes the limit in the node's status when it starts. Reference: Kubelet Configuration, maxPods.
    """
    fact = refusal.fact
    if not isinstance(fact, TooManyPods) or len(tried.refusals()) > 1:
        return
    node = tried.cycle.view.nodes.objects[tried.at]
    name, limit = node.metadata.name, max(fact.pods, fact.limit) + 1

    def change(read: Node) -> Node:
        return replace(read, status=replace(read.status, allocatable={**read.status.allocatable, PODS: str(limit)}))

    yield Fix(
        FixKind.RAISE_MAX_PODS,
        (name, limit),
        f"set maxPods of the kubelet on node {name} to {limit} instead of {fact.limit}, and restart the kubelet",
        "operator",
        on_node(node, change),
        RAISE,
        "a pod for which the node's network has no address left never starts",
        (kubectl.render_command("describe", "node", name),),
        variant_of="maxPods",
        where=name,
    )
