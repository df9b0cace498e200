"""Comparison of node groups, and the division of new nodes among similar ones.

Upstream: processors/nodegroupset/compare_nodegroups.go, label_nodegroups.go and balancing_processor.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.objects import Node
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, AutoscalerOptions
from kschedctl.snapshot.nodes import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE

MEMORY_RATIO, ALLOCATABLE_RATIO, FREE_RATIO = 0.015, 0.05, 0.05
IGNORED_LABELS = frozenset(
    (HOSTNAME, ZONE, REGION, BETA_ZONE, BETA_REGION, "beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup")
)


class TemplateShape(NamedTuple):
    """A template's node, with the requests of its pods, by which templates are compared."""

    node: Node
    requested: Mapping[str, int]
    """Total requests of the pods that come with the node."""


class Increase(NamedTuple):
    """An increase of a group's size."""

    group: AutoscaledGroup
    size: int
    new_size: int


def build_similarity_check(options: AutoscalerOptions) -> Callable[[TemplateShape, TemplateShape], bool]:
    """Build the function that decides whether two templates are similar.

    With ``--balancing-label``, templates are similar if these labels are equal. Otherwise, their resources and all
    labels that are not ignored are compared.
    """
    if options.balancing_labels:
        return lambda a, b: _have_equal_labels(a.node, b.node, options.balancing_labels)
    ignored = IGNORED_LABELS.union(options.balancing_ignore_labels)
    return lambda a, b: _are_templates_similar(a, b, ignored)


def _have_equal_labels(a: Node, b: Node, labels: Sequence[str]) -> bool:
    """Return whether both nodes have all these labels, with the same values."""
    labels_a, labels_b = a.metadata.labels, b.metadata.labels
    return all(label in labels_a and label in labels_b and labels_a[label] == labels_b[label] for label in labels)


def _are_templates_similar(a: TemplateShape, b: TemplateShape, ignored: frozenset[str]) -> bool:
    """Return whether two templates have nearly equal resources, and equal labels except for the ignored labels."""
    capacity_a, capacity_b = node_facts.get_capacity(a.node), node_facts.get_capacity(b.node)
    if capacity_a.keys() != capacity_b.keys():
        return False
    for name in capacity_a:
        allowed_ratio = MEMORY_RATIO if name == "memory" else 0.0
        if not _are_nearly_equal(capacity_a[name], capacity_b[name], allowed_ratio):
            return False
    allocatable_a, allocatable_b = (
        node_facts.get_allocatable_amounts(a.node),
        node_facts.get_allocatable_amounts(b.node),
    )
    if not _are_amounts_nearly_equal(allocatable_a, allocatable_b, ALLOCATABLE_RATIO):
        return False
    if not _are_amounts_nearly_equal(
        _compute_free_amounts(allocatable_a, a.requested), _compute_free_amounts(allocatable_b, b.requested), FREE_RATIO
    ):
        return False
    return _get_compared_labels(a.node, ignored) == _get_compared_labels(b.node, ignored)


def _compute_free_amounts(offered: Mapping[str, int], requested: Mapping[str, int]) -> dict[str, int]:
    """Return the allocatable amounts minus the requests, for the requested resources that the node offers."""
    return {name: offered[name] - requested[name] for name in requested if name in offered}


def _are_amounts_nearly_equal(a: Mapping[str, int], b: Mapping[str, int], ratio: float) -> bool:
    """Return whether both have the same resources, in amounts that differ by at most this ratio."""
    return a.keys() == b.keys() and all(_are_nearly_equal(a[name], b[name], ratio) for name in a)


def _are_nearly_equal(a: int, b: int, ratio: float) -> bool:
    """Return whether the numbers differ by at most this ratio of the larger one."""
    larger, smaller = max(a, b), min(a, b)
    return larger - smaller <= larger * ratio


def _get_compared_labels(node: Node, ignored: frozenset[str]) -> dict[str, str]:
    """Return the node's labels without the ignored labels."""
    return {name: value for name, value in node.metadata.labels.items() if name not in ignored}


def balance_increases(groups: Sequence[AutoscaledGroup], count: int) -> list[Increase]:
    """Divide ``count`` new nodes among the groups, always growing the smallest group that is below its maximum.

    Only groups that grow are returned. If all groups reach their maximum, the remaining nodes are dropped.
    """
    growing = sorted((group for group in groups if group.headroom), key=lambda group: group.target)
    sizes = {group.id: group.target for group in growing}
    count = min(count, sum(max(group.headroom, 0) for group in growing))
    start = current = 0  # as upstream: groups at their maximum are moved before ``start``
    while count > 0:
        group = growing[current]
        if sizes[group.id] < group.max:
            sizes[group.id] += 1
            count -= 1
        else:
            growing[start], growing[current] = growing[current], growing[start]
            start += 1
        # go on to the next group while the current one is larger, and otherwise start over
        current_size = sizes[growing[current].id]
        if current < len(growing) - 1 and current_size > sizes[growing[current + 1].id]:
            current += 1
        else:
            current = start
    return [Increase(group, group.target, sizes[group.id]) for group in growing if sizes[group.id] != group.target]
