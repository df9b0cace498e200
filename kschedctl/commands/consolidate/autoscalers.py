"""An autoscaler's verdicts on single nodes, for comparison with the nodes that could be removed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Node
from kschedctl.autoscaling.karpenter.candidates import find_offered_price
from kschedctl.autoscaling.karpenter.disrupt import STAYS
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.labels import INSTANCE_TYPE
from kschedctl.reports.cluster_autoscaler import ScaleDown
from kschedctl.reports.karpenter import Disruption, describe_exhausted_budgets
from kschedctl.text.counts import agreeing, counted, first_few

NOT_MANAGED = "not its node"
"""The verdict on a node that the autoscaler does not manage."""


@dataclass(frozen=True)
class AutoscalerVerdicts:
    """An autoscaler's verdicts on the nodes."""

    name: str = ""
    """The name of the autoscaler, empty for none."""
    removed: frozenset[str] = frozenset()
    """The nodes that its next round removes."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """The verdict on each node in the autoscaler's words."""
    certain: bool = True
    """Whether the verdicts depend on no unread data."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """The pod or constraint behind the verdict on each node, in our words."""
    ended_pods: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The running pods that the autoscaler ignores and that end with a removed node, by node."""

    def describe_node(self, node: str) -> str:
        """Return the autoscaler's verdict on a node and the cause, or "" if there is no autoscaler."""
        if not self.name:
            return ""
        if node in self.removed:
            ended = self.ended_pods.get(node)
            end = f"; {first_few(ended)} {agreeing(len(ended), 'ends', 'end')} with it" if ended else ""
            return f"removes it{end}"
        verdict = self.verdicts.get(node, NOT_MANAGED)
        cause = self.causes.get(node)
        return f"{verdict}; {cause}" if cause else verdict

    def summarize(self, removable: Collection[str]) -> str:
        """Return a text on which nodes the autoscaler removes, and its most frequent verdict on other removable nodes.

        Return "" if there is no autoscaler.
        """
        if not self.name:
            return ""
        removed_text = counted(len(self.removed), "node") if self.removed else "no nodes"
        summary = f"{self.name} removes {removed_text} in its next round"
        if not self.certain:
            summary += " (not certain)"
        if self.removed:
            summary += f": {first_few(sorted(self.removed))}"
        nodes_by_verdict: dict[str, list[str]] = {}
        for node in removable:
            if node not in self.removed and (verdict := self.describe_node(node)):
                nodes_by_verdict.setdefault(verdict, []).append(node)
        if not nodes_by_verdict:
            return summary
        verdict, nodes = max(nodes_by_verdict.items(), key=lambda entry: len(entry[1]))
        return f"{summary}; its verdict on {first_few(nodes)}: {verdict}"


NO_AUTOSCALER = AutoscalerVerdicts()


def extract_karpenter_verdicts(report: Disruption) -> AutoscalerVerdicts:
    """Return Karpenter's verdicts. The nodes of the first method with commands count as removed."""
    # Karpenter's round ends with the first method that finds something.
    commands = next((method.commands for method in report.methods.values() if method.commands), ())
    removed = frozenset(name for command in commands for name in command.candidates)
    verdicts: dict[str, str] = {}
    for fate in report.fates:
        reason = fate.why if fate.fate == STAYS else f"not in this round, but on its own Karpenter could {fate.fate} it"
        verdicts[fate.node] = f"stays: {reason}" if reason else ""
    causes = {node: describe_exhausted_budgets(pool) for node, pool in report.budget_blocked.items()}
    causes |= {fate.node: fate.cause for fate in report.fates if fate.cause}
    return AutoscalerVerdicts("Karpenter", removed, verdicts, certain=not report.undecided, causes=causes)


def extract_cluster_autoscaler_verdicts(report: ScaleDown) -> AutoscalerVerdicts:
    """Return the Cluster Autoscaler's verdicts, with the pod that blocks the removal of a node."""
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
        price = find_offered_price(labels, types_by_name.get(labels.get(INSTANCE_TYPE, "")))
        if price:
            prices[node.metadata.name] = price
    return prices
