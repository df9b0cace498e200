"""Nodes whose kubelet cannot end pods, and the pods that therefore stay Terminating."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.node_health import NodeHealth
from kschedctl.reports.document import Document
from kschedctl.reports.report import GateProblem
from kschedctl.text.counts import agreeing, counted, first_few


class DownNode(Document, frozen=True):
    """A node that is unreachable or not ready, with pods that are evicted or already being deleted."""

    node: str
    health: NodeHealth
    pods: tuple[str, ...]
    """The pods that stay Terminating."""
    not_replaced: tuple[str, ...] = ()
    """The pods among them whose controllers create no replacement as long as the pods exist."""

    def iter_gate_problems(self) -> Iterator[GateProblem]:
        """Yield a problem for the CI gate for each pod that stays Terminating on the node."""
        for pod in self.pods:
            yield GateProblem(
                "eviction-blocked", f"Pod {pod}", f"stays Terminating: {self.node} is {self.health.adjective}"
            )


def describe_down_nodes(down_nodes: Sequence[DownNode]) -> tuple[str, ...]:
    """Return, for unreachable nodes and for nodes that are not ready, how long their pods stay Terminating."""
    texts = []
    for health in (NodeHealth.UNREACHABLE, NodeHealth.NOT_READY):
        nodes = [down for down in down_nodes if down.health is health]
        if not nodes:
            continue
        pods = [pod for down in nodes for pod in down.pods]
        if health is NodeHealth.UNREACHABLE:
            stay = agreeing(len(pods), "stays", "stay")
            recovery = agreeing(len(nodes), "its kubelet returns", "their kubelets return")
        else:
            stay = "may stay"  # the kubelet reports, and ends pods if its container runtime works
            recovery = agreeing(len(nodes), "it is ready again", "they are ready again")
        names = first_few([down.node for down in nodes])
        are, their = agreeing(len(nodes), "is", "are"), agreeing(len(nodes), "its", "their")
        forced = agreeing(len(pods), "the pod is force-deleted", "the pods are force-deleted")
        deleted = agreeing(len(nodes), "the node is deleted or gets", "the nodes are deleted or get")
        text = (
            f"{names} {are} {health.adjective}: {their} {counted(len(pods), 'pod')} {stay} Terminating until "
            f"{recovery}, {forced}, or {deleted} the out-of-service taint"
        )
        not_replaced = [pod for down in nodes for pod in down.not_replaced]
        if not_replaced:
            text += (
                f"; {first_few(not_replaced)} {agreeing(len(not_replaced), 'gets', 'get')} no replacement until then"
            )
        texts.append(text)
    return tuple(texts)
