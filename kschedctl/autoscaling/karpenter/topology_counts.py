"""Numbers of nodes and pods in each topology domain, counted once for all runs.

Upstream: countDomains in pkg/controllers/provisioning/scheduling/topology.go (sigs.k8s.io/karpenter v1.14.1), which
lists and counts for each group of each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from kschedctl.api.objects import Pod, PodAffinityTerm
from kschedctl.autoscaling.karpenter.labels import HOSTNAME
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.autoscaling.karpenter.topology_group import TopologyRule

Counts = Counter[str]
"""Domain -> number."""


class NodeAndPodCounts(NamedTuple):
    """The numbers of nodes and pods in each topology domain."""

    nodes: Counts
    pods: Counts


class DomainTallies:
    """The numbers of nodes and pods in each topology domain, cached by rule."""

    def __init__(self, nodes: Sequence[StateNode]) -> None:
        self.nodes = [node for node in nodes if node.node is not None]
        self._counts: dict[Hashable, NodeAndPodCounts] = {}

    @cached_property
    def _staying_nodes(self) -> list[StateNode]:
        """The tracked nodes that exist and are not being deleted."""
        return [node for node in self.nodes if not node.deleting]

    @cached_property
    def node_by_pod(self) -> dict[str, StateNode]:
        """The key of each pod that is on a node -> its node."""
        return {pod.key: node for node in self.nodes for pod in node.pods}

    @cached_property
    def with_anti_affinity(self) -> list[tuple[Pod, StateNode]]:
        """The pods with required anti-affinity, each with its node."""
        return [(pod, node) for node in self.nodes for pod in node.pods if get_required_anti_affinity(pod)]

    @cached_property
    def _pod_counts_by_labels(self) -> dict[tuple[str, frozenset[tuple[str, str]]], Counter[StateNode]]:
        """Namespace and labels -> number of pods with this namespace and these labels on each node."""
        by_labels: dict[tuple[str, frozenset[tuple[str, str]]], Counter[StateNode]] = {}
        for node in self.nodes:
            for pod in node.pods:
                if pod.metadata.deletion_timestamp is None:
                    identity = pod.metadata.namespace, frozenset(pod.metadata.labels.items())
                    by_labels.setdefault(identity, Counter())[node] += 1
        return by_labels

    def count_nodes_and_pods(
        self, rule: TopologyRule, removed_nodes: Iterable[StateNode], excluded: Iterable[Pod]
    ) -> NodeAndPodCounts:
        """Count the nodes and pods in each domain of a rule, without removed nodes and excluded pods.

        Domains that have none are left out. Totals are cached, and the excluded nodes and pods are subtracted from
        them.
        """
        nodes, pods = (counts.copy() for counts in self._count_all_nodes_and_pods(rule))
        for node in removed_nodes:
            if rule.key in node.labels and _is_node_counted(rule, node):
                nodes[node.labels[rule.key]] -= 1
        for pod in excluded:
            node_of_pod = self.node_by_pod.get(pod.key)
            if node_of_pod is None or not _is_pod_counted(rule, pod):
                continue
            domain = _find_node_domain(rule, node_of_pod)
            if domain is not None:
                pods[domain] -= 1
        return NodeAndPodCounts(+nodes, +pods)  # unary plus drops counts of zero

    def _count_all_nodes_and_pods(self, rule: TopologyRule) -> NodeAndPodCounts:
        """Count all nodes and pods in each domain of a rule. The result is cached."""
        key = rule.count_key
        if key not in self._counts:
            nodes = Counter(
                node.labels[rule.key]
                for node in self._staying_nodes
                if rule.key in node.labels and _is_node_counted(rule, node)
            )
            self._counts[key] = NodeAndPodCounts(nodes, self._count_selected_pods(rule))
        return self._counts[key]

    def _count_selected_pods(self, rule: TopologyRule) -> Counts:
        """Count the pods that the rule selects, by domain. Pods with equal labels are matched only once."""
        counts: Counts = Counter()
        for (namespace, labels), node_counts in self._pod_counts_by_labels.items():
            if namespace in rule.namespaces and _matches_rule_labels(rule, dict(labels)):
                for node, count in node_counts.items():
                    if (domain := _find_node_domain(rule, node)) is not None:
                        counts[domain] += count
        return counts


def get_required_anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return the terms of the pod's required anti-affinity, or () if it has none."""
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _is_pod_counted(rule: TopologyRule, pod: Pod) -> bool:
    """Return whether the rule counts the pod: it is active, and its namespace and labels match the rule."""
    if pod.metadata.deletion_timestamp is not None or pod.terminated:
        return False
    return pod.metadata.namespace in rule.namespaces and _matches_rule_labels(rule, pod.metadata.labels)


def _matches_rule_labels(rule: TopologyRule, labels: Mapping[str, str]) -> bool:
    """Return whether the rule counts pods with these labels. Without a selector, all labels match."""
    return rule.label_selector is None or rule.selector.matches(labels)


def _find_node_domain(rule: TopologyRule, node: StateNode) -> str | None:
    """Return the node's domain, or None if the rule does not count the node or the node is in no domain."""
    assert node.node is not None
    metadata = node.node.metadata
    default_domain = metadata.name if rule.key == HOSTNAME else None
    domain = metadata.labels.get(rule.key, default_domain)
    if domain is None or not _is_node_counted(rule, node):
        return None
    return domain


def _is_node_counted(rule: TopologyRule, node: StateNode) -> bool:
    """Return whether the node passes the rule's filter of nodes by affinity and taints."""
    assert node.node is not None
    return rule.nodes.matches(node.node.spec.taints, node.own_labels)
