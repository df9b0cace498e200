"""The cluster autoscaler's verdict on single nodes, for comparison with what could go."""

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
    """What an autoscaler says of each node."""

    name: str = ""
    """The autoscaler, or "" for none."""
    takes: frozenset[str] = frozenset()
    """The nodes that its next round removes."""
    verdicts: Mapping[str, str] = field(default_factory=dict)
    """The verdict on each node in the autoscaler's words."""
    certain: bool = True
    """Whether the verdicts depend on nothing unread."""
    causes: Mapping[str, str] = field(default_factory=dict)
    """The pod or constraint behind the verdict on each node, in our words."""

    def describe_node(self, node: str) -> str:
        if not self.name:
            return ""
        if node in self.takes:
            return "takes it"
        return "; ".join(filter(None, (self.verdicts.get(node, "not its node"), self.causes.get(node))))

    def summarize(self, could_go: Collection[str]) -> str:
        """Return how many nodes the autoscaler removes, and its most frequent verdict on other nodes that
        ``could_go``.
        """
        if not self.name:
            return ""
        taken = counted(len(self.takes), "node") if self.takes else "no node"
        answer = f"{self.name} takes {taken} in its next round{'' if self.certain else ', which is not certain'}"
        verdicts = Counter(self.verdicts.get(node, "not its node") for node in could_go if node not in self.takes)
        for why, number in verdicts.most_common(1):
            return f"{answer}; of those that could go not {number:,}, mostly as: {why}" if why else answer
        return answer


NOBODY = AutoscalerVerdicts()


def from_karpenter(report: Disruption) -> AutoscalerVerdicts:
    """Extract Karpenter's verdicts. Its round ends with the first method that finds something."""
    commands = next((method.commands for method in report.methods.values() if method.commands), ())
    takes = frozenset(name for command in commands for name in command.candidates)
    said = {fate.node: fate.why if fate.fate == STAYS else f"could {fate.fate} it alone" for fate in report.fates}
    words = {node: f"stays: {why}" if why else why for node, why in said.items()}
    causes = {fate.node: fate.cause for fate in report.fates if fate.cause}
    return AutoscalerVerdicts("Karpenter", takes, words, certain=not report.undecided, causes=causes)


def from_cluster_autoscaler(report: ScaleDown) -> AutoscalerVerdicts:
    takes = frozenset((*report.deleted_now.empty, *report.deleted_now.drain))
    said: dict[str, str] = {}
    causes: dict[str, str] = {}
    for name, node in report.nodes.items():
        if node.blocking_pod and (cause := report.budget_causes.get(node.blocking_pod.pod)):
            causes[name] = cause
        pod = f" ({node.blocking_pod.pod})" if node.blocking_pod else ""
        said[name] = f"{node.state}: {node.reason}{pod}" if node.reason else node.state
    return AutoscalerVerdicts("Cluster Autoscaler", takes, said, certain=not report.undecided, causes=causes)


def find_prices(nodes: Sequence[Node], instance_types: Sequence[JsonObject]) -> dict[str, float]:
    """Return the hourly price of each node whose instance type, zone and capacity type are in the catalogue.

    Raises InputError.
    """
    types = {sold.name: sold for sold in read_instance_types(instance_types).types}
    prices = {
        node.metadata.name: find_node_price(
            node.metadata.labels, types.get(node.metadata.labels.get(INSTANCE_TYPE, ""))
        )
        for node in nodes
    }
    return {name: price for name, price in prices.items() if price}
