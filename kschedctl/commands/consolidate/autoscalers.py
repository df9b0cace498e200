"""An autoscaler's verdicts on single nodes, for comparison with the nodes that could be removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Node
from kschedctl.autoscaling.karpenter.candidates import find_node_price
from kschedctl.autoscaling.karpenter.disrupt import STAYS
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.labels import INSTANCE_TYPE
from kschedctl.reports.cluster_autoscaler import ScaleDown
from kschedctl.reports.karpenter import Disruption
from kschedctl.text.counts import counted


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

    def describe_node(self, node: str) -> str:
        """Return the verdict on one node as text, empty without an autoscaler."""
        if not self.name:
            return ""
        if node in self.removed:
            return "takes it"
        return "; ".join(filter(None, (self.verdicts.get(node, "not its node"), self.causes.get(node))))

    def summarize(self, removable: Collection[str]) -> str:
        """Return how many nodes the autoscaler removes, and its most frequent verdict on other removable nodes."""
        if not self.name:
            return ""
        removed_text = counted(len(self.removed), "node") if self.removed else "no node"
        summary = (
            f"{self.name} takes {removed_text} in its next round{'' if self.certain else ', which is not certain'}"
        )
        verdicts = Counter(self.verdicts.get(node, "not its node") for node in removable if node not in self.removed)
        for verdict, number in verdicts.most_common(1):
            return f"{summary}; of those that could go not {number:,}, mostly as: {verdict}" if verdict else summary
        return summary


NO_AUTOSCALER = AutoscalerVerdicts()


def extract_karpenter_verdicts(report: Disruption) -> AutoscalerVerdicts:
    """Return Karpenter's verdicts. Its round ends with the first method that finds nodes to remove."""
    commands = next((method.commands for method in report.methods.values() if method.commands), ())
    removed = frozenset(name for command in commands for name in command.candidates)
    reasons = {fate.node: fate.why if fate.fate == STAYS else f"could {fate.fate} it alone" for fate in report.fates}
    verdicts = {node: f"stays: {why}" if why else why for node, why in reasons.items()}
    causes = {fate.node: fate.cause for fate in report.fates if fate.cause}
    return AutoscalerVerdicts("Karpenter", removed, verdicts, certain=not report.undecided, causes=causes)


def extract_cluster_autoscaler_verdicts(report: ScaleDown) -> AutoscalerVerdicts:
    """Return the Cluster Autoscaler's verdicts."""
    removed = frozenset((*report.deleted_now.empty, *report.deleted_now.drain))
    verdicts: dict[str, str] = {}
    causes: dict[str, str] = {}
    for name, node in report.nodes.items():
        if node.blocking_pod and (cause := report.budget_causes.get(node.blocking_pod.pod)):
            causes[name] = cause
        pod = f" ({node.blocking_pod.pod})" if node.blocking_pod else ""
        verdicts[name] = f"{node.state}: {node.reason}{pod}" if node.reason else node.state
    return AutoscalerVerdicts("Cluster Autoscaler", removed, verdicts, certain=not report.undecided, causes=causes)


def find_prices(nodes: Sequence[Node], instance_types: Sequence[JsonObject]) -> dict[str, float]:
    """Return the hourly price of each node whose instance type, zone and capacity type are in the catalogue.

    Raises InputError.
    """
    types = {instance_type.name: instance_type for instance_type in read_instance_types(instance_types).types}
    prices = {
        node.metadata.name: find_node_price(
            node.metadata.labels, types.get(node.metadata.labels.get(INSTANCE_TYPE, ""))
        )
        for node in nodes
    }
    return {name: price for name, price in prices.items() if price}
