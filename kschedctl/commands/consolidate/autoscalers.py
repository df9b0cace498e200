"""An autoscaler's verdicts on single nodes, for comparison with the nodes that could be removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Node
from kschedctl.autoscaling.karpenter.candidates import get_offered_price
from kschedctl.autoscaling.karpenter.disrupt import STAYS
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.labels import INSTANCE_TYPE
from kschedctl.reports.cluster_autoscaler import ScaleDown
from kschedctl.reports.karpenter import (
    Disruption,
    DisruptionCommand,
    NodeFate,
    describe_exhausted_budgets,
    describe_lost_pods,
)
from kschedctl.text.counts import agreeing, counted, first_few, format_price, join_first_few

NOT_MANAGED = "not its node"
"""The verdict on a node that the autoscaler does not manage."""
WITHOUT_CLAIM = "not judged: the data has no NodeClaim of it"
"""The verdict on a node that belongs to a NodePool by its label, but has no NodeClaim."""


@dataclass(frozen=True)
class AutoscalerVerdicts:
    """An autoscaler's verdicts on the nodes."""

    name: str = ""
    """The name of the autoscaler, empty for none."""
    removed: frozenset[str] = frozenset()
    """The nodes that its next round removes without a replacement."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """The verdict on each node in the autoscaler's words."""
    certain: bool = True
    """True if the verdicts depend on no unread data."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """The pod or constraint behind the verdict on each node, in our words."""
    ended_pods: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The running pods that the autoscaler ignores and that end with a removed node, by node."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """The nodes that its next round replaces with new nodes -> these new nodes in words."""
    moved_pods: int = 0
    """The number of pods that move to existing or new nodes in its next round."""
    lost_pods: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The pods without a controller that its next round evicts, by node."""
    savings: float | None = None
    """The savings per hour of its next round, or None if unknown."""

    def describe_node(self, node: str) -> str:
        """Return the autoscaler's verdict on a node and the cause, or "" if there is no autoscaler."""
        if not self.name:
            return ""
        if node in self.replaced:
            return f"replaces it with {self.replaced[node]}{self._describe_lost_pods_of_node(node)}"
        if node in self.removed:
            ended = self.ended_pods.get(node)
            end = f"; {join_first_few(ended)} {agreeing(len(ended), 'ends', 'end')} with it" if ended else ""
            return f"removes it{end}{self._describe_lost_pods_of_node(node)}"
        verdict = self.verdicts.get(node, NOT_MANAGED)
        cause = self.causes.get(node)
        return f"{verdict}; {cause}" if cause else verdict

    def _describe_lost_pods_of_node(self, node: str) -> str:
        """Describe the pods of the node that are lost, as the end of a sentence, or return "" if there are none."""
        lost = self.lost_pods.get(node)
        return f"; {join_first_few(lost)} {agreeing(len(lost), 'is', 'are')} lost" if lost else ""

    def summarize(self, removable: Collection[str]) -> str:
        """Summarize which nodes the autoscaler removes or replaces, with the savings.

        The pods that move or are lost follow, and then the autoscaler's most frequent verdict on the nodes in
        `removable` that it does not touch. Return "" if there is no autoscaler.
        """
        if not self.name:
            return ""
        summary = f"{self.name} {self._describe_actions()} in its next round"
        if not self.certain:
            summary += " (not certain)"
        if disrupted_nodes := self._format_disrupted_nodes():
            summary += f": {disrupted_nodes}"
        if self.savings:
            summary += f", saving {format_price(self.savings)} an hour"
        if self.moved_pods:
            summary += f"; {counted(self.moved_pods, 'pod')} {agreeing(self.moved_pods, 'moves', 'move')}"
        if lost := describe_lost_pods([pod for pods in self.lost_pods.values() for pod in pods]):
            summary += f"; {lost}"
        return f"{summary}{self._describe_most_frequent_verdict(removable)}"

    def _describe_most_frequent_verdict(self, nodes: Collection[str]) -> str:
        """Return a clause with the most frequent verdict on those of the nodes that the autoscaler does not touch.

        Return "" if it touches all of them.
        """
        nodes_by_verdict: dict[str, list[str]] = {}
        for node in nodes:
            is_disrupted = node in self.removed or node in self.replaced
            if not is_disrupted and (verdict := self.describe_node(node)):
                nodes_by_verdict.setdefault(verdict, []).append(node)
        if not nodes_by_verdict:
            return ""
        verdict, nodes_with_verdict = max(nodes_by_verdict.items(), key=lambda entry: len(entry[1]))
        return f"; its verdict on {first_few(nodes_with_verdict)}: {verdict}"

    def _describe_actions(self) -> str:
        """Describe how many nodes the next round removes and replaces: "removes 2 nodes and replaces 1 node"."""
        actions = []
        if self.removed:
            actions.append(f"removes {counted(len(self.removed), 'node')}")
        if self.replaced:
            actions.append(f"replaces {counted(len(self.replaced), 'node')}")
        return " and ".join(actions) or "removes no nodes"

    def _format_disrupted_nodes(self) -> str:
        """Format the names of the removed nodes, and of the replaced nodes with the new nodes that take their place."""
        nodes_by_replacement: dict[str, list[str]] = {}
        for node, new_nodes in sorted(self.replaced.items()):
            nodes_by_replacement.setdefault(new_nodes, []).append(node)
        lists = [f"{first_few(nodes)} with {new_nodes}" for new_nodes, nodes in nodes_by_replacement.items()]
        if self.removed:
            lists.insert(0, first_few(sorted(self.removed)))
        return "; ".join(lists)


NO_AUTOSCALER = AutoscalerVerdicts()


def extract_karpenter_verdicts(report: Disruption) -> AutoscalerVerdicts:
    """Return Karpenter's verdicts on the nodes.

    Karpenter's round ends with the first method that has commands. Only the nodes of these commands count as removed or
    replaced. For another node that Karpenter could disrupt on its own, the verdict says so.
    """
    commands = next((method.commands for method in report.methods.values() if method.commands), ())
    removed: set[str] = set()
    replaced: dict[str, str] = {}  # names of nodes -> the new nodes in words
    for command in commands:
        if command.replacements:
            replaced |= dict.fromkeys(command.candidates, _describe_replacements(command))
        else:
            removed.update(command.candidates)
    causes = {node: describe_exhausted_budgets(pool) for node, pool in report.budget_blocked.items()}
    causes |= {fate.node: fate.cause for fate in report.fates if fate.cause}
    return AutoscalerVerdicts(
        "Karpenter",
        frozenset(removed),
        {
            **dict.fromkeys(report.without_claim, WITHOUT_CLAIM),
            **{fate.node: _describe_karpenter_verdict(fate, report) for fate in report.fates},
        },
        certain=not report.undecided,
        causes=causes,
        replaced=replaced,
        moved_pods=sum(len(report.moved_pods.get(node, ())) for node in (*removed, *replaced)),
        lost_pods={node: pods for node, pods in report.lost_pods.items() if node in removed or node in replaced},
        savings=sum(command.savings for command in commands) or None,
    )


def _describe_karpenter_verdict(fate: NodeFate, report: Disruption) -> str:
    """Describe why a node stays in Karpenter's next round, or return "" if there is no reason.

    If Karpenter could disrupt the node on its own, the text says so instead, with the new nodes for a replacement.
    """
    reason = fate.why
    if fate.fate != STAYS:
        reason = f"not in this round, but on its own Karpenter could {fate.fate} it"
        answer = report.per_node.get(fate.node)
        if answer and answer.command and answer.command.replacements:
            reason += f" with {_describe_replacements(answer.command)}"
    return f"stays: {reason}" if reason else ""


def _describe_replacements(command: DisruptionCommand) -> str:
    """Describe the nodes that a command launches first, such as "1 new node (c6.large)"."""
    types = []
    for claim in command.replacements:
        names = [name for name, _ in claim.instance_types]
        if claim.cheapest:
            cheapest_type, _, _ = claim.cheapest.options[0].partition("|")  # `type|zone|capacityType`
            names = [cheapest_type, *names]
        other_count = len(dict.fromkeys(names)) - 1
        if names:
            types.append(f"{names[0]} or {counted(other_count, 'other type')}" if other_count > 0 else names[0])
    new_nodes = counted(len(command.replacements), "new node")
    return f"{new_nodes} ({first_few(types)})" if types else new_nodes


def extract_cluster_autoscaler_verdicts(report: ScaleDown) -> AutoscalerVerdicts:
    """Return the Cluster Autoscaler's verdict on each node, and which nodes its next round removes.

    If a PodDisruptionBudget that unhealthy pods use up blocks the removal of a node, these pods are given as the cause.
    """
    removed = frozenset((*report.deleted_now.empty, *report.deleted_now.drain))
    verdicts: dict[str, str] = {}
    causes: dict[str, str] = {}
    for name, node in report.nodes.items():
        verdicts[name] = f"stays: {report.describe_staying_node(name) or node.state}"
        if node.blocking_pod and (cause := report.budget_causes.get(node.blocking_pod.pod)):
            causes[name] = cause
    return AutoscalerVerdicts(
        "Cluster Autoscaler",
        removed,
        verdicts,
        certain=not report.undecided,
        causes=causes,
        ended_pods=report.ignored_pods,
    )


def find_prices(nodes: Sequence[Node], instance_types: Sequence[JsonObject]) -> dict[str, float]:
    """Return the hourly price of each node whose instance type, zone and capacity type are in the catalogue.

    Nodes without a price are left out. Raises InputError if the catalogue is invalid.
    """
    types_by_name = {instance_type.name: instance_type for instance_type in read_instance_types(instance_types).types}
    prices: dict[str, float] = {}
    for node in nodes:
        labels = node.metadata.labels
        price = get_offered_price(labels, types_by_name.get(labels.get(INSTANCE_TYPE, "")))
        if price:
            prices[node.metadata.name] = price
    return prices
