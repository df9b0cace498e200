"""How many nodes and pods of the cluster are in each domain of a topology: counted once, for all runs.

Upstream: countDomains in pkg/controllers/provisioning/scheduling/topology.go (sigs.k8s.io/karpenter v1.14.1), which
lists and counts for each group of each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property

from kschedctl.api.objects import Pod, PodAffinityTerm
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.autoscaling.karpenter.topology_group import TopologyRule

Counts = Counter[str]
"""Domain -> number."""


class DomainTallies:
    """``nodes``: all that are known; those that stay have domains, pods count on all of them."""

    def __init__(self, nodes: Sequence[StateNode]) -> None:
        self.nodes = [node for node in nodes if node.node is not None]
        self._counts: dict[Hashable, tuple[Counts, Counts]] = {}

    @cached_property
    def _staying(self) -> list[StateNode]:
        return [node for node in self.nodes if not node.deleting]

    @cached_property
    def where(self) -> dict[str, StateNode]:
        """Pod -> its node."""
        return {pod.key: node for node in self.nodes for pod in node.pods}

    @cached_property
    def with_anti_affinity(self) -> list[tuple[Pod, StateNode]]:
        """The pods that keep others away."""
        return [(pod, node) for node in self.nodes for pod in node.pods if required_anti_affinity(pod)]

    @cached_property
    def _by_labels(self) -> dict[tuple[str, frozenset[tuple[str, str]]], Counter[StateNode]]:
        """Namespace and labels, which many pods share -> how many of them are on which node."""
        by_labels: dict[tuple[str, frozenset[tuple[str, str]]], Counter[StateNode]] = {}
        for node in self.nodes:
            for pod in node.pods:
                if pod.metadata.deletion_timestamp is None:
                    own = pod.metadata.namespace, frozenset(pod.metadata.labels.items())
                    by_labels.setdefault(own, Counter())[node] += 1
        return by_labels

    def of(self, rule: TopologyRule, gone: Iterable[StateNode], excluded: Iterable[Pod]) -> tuple[Counts, Counts]:
        """The nodes and the pods in each domain, less some of both."""
        nodes, pods = (counts.copy() for counts in self._all(rule))
        for node in gone:
            if rule.key in node.labels and _matches(rule, node):
                nodes[node.labels[rule.key]] -= 1
        for pod in excluded:
            here = self.where.get(pod.key)
            if here is not None and _counts_pod(rule, pod) and (domain := _domain(rule, here)) is not None:
                pods[domain] -= 1
        return +nodes, +pods

    def _all(self, rule: TopologyRule) -> tuple[Counts, Counts]:
        key = rule.counted_by
        if key not in self._counts:
            nodes = Counter(
                node.labels[rule.key] for node in self._staying if rule.key in node.labels and _matches(rule, node)
            )
            self._counts[key] = nodes, self._pods(rule)
        return self._counts[key]

    def _pods(self, rule: TopologyRule) -> Counts:
        counts: Counts = Counter()
        for (namespace, labels), own in self._by_labels.items():
            if namespace in rule.namespaces and _lists(rule, dict(labels)):
                for node, count in own.items():
                    if (domain := _domain(rule, node)) is not None:
                        counts[domain] += count
        return counts


def required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _counts_pod(rule: TopologyRule, pod: Pod) -> bool:
    running = pod.metadata.deletion_timestamp is None and not pod.terminated
    return running and pod.metadata.namespace in rule.namespaces and _lists(rule, pod.metadata.labels)


def _lists(rule: TopologyRule, labels: Mapping[str, str]) -> bool:
    """Whether pods with these labels are counted where they run; no selector at all counts all of them."""
    return rule.written is None or rule.selector.matches(labels)


def _domain(rule: TopologyRule, node: StateNode) -> str | None:
    """Where the pods of a node count; nowhere if the node itself does not."""
    assert node.node is not None
    own = node.node.metadata
    domain = own.labels.get(rule.key, own.name if rule.key == HOSTNAME else None)
    return domain if domain is not None and _matches(rule, node) else None


def _matches(rule: TopologyRule, node: StateNode) -> bool:
    assert node.node is not None
    return rule.nodes.matches(node.node.spec.taints, node.own_labels)
