"""Similar node groups, and the division of new nodes among them.

Upstream: processors/nodegroupset/compare_nodegroups.go, label_nodegroups.go and balancing_processor.go (1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.objects import Node
from kschedctl.autoscaling.cluster_autoscaler import nodes as node_facts
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscaledGroup, AutoscalerOptions
from kschedctl.snapshot.node_order import BETA_REGION, BETA_ZONE, HOSTNAME, REGION, ZONE

MEMORY_RATIO, ALLOCATABLE_RATIO, FREE_RATIO = 0.015, 0.05, 0.05
IGNORED_LABELS = frozenset(
    (HOSTNAME, ZONE, REGION, BETA_ZONE, BETA_REGION, "beta.kubernetes.io/fluentd-ds-ready", "kops.k8s.io/instancegroup")
)


class TemplateShape(NamedTuple):
    """A template as groups are compared by it."""

    node: Node
    requested: Mapping[str, int]
    """Requests of the pods that come with the node."""


class Increase(NamedTuple):
    """The increase of a group's size."""

    group: AutoscaledGroup
    size: int
    new_size: int


def build_comparison(options: AutoscalerOptions) -> Callable[[TemplateShape, TemplateShape], bool]:
    """Return the function that compares two templates: by the labels of a flag, else by resources and labels."""
    if options.balancing_labels:
        return lambda a, b: _share_labels(a.node, b.node, options.balancing_labels)
    ignored = IGNORED_LABELS.union(options.balancing_ignore_labels)
    return lambda a, b: _are_similar(a, b, ignored)


def _share_labels(a: Node, b: Node, labels: Sequence[str]) -> bool:
    mine, other = a.metadata.labels, b.metadata.labels
    return all(label in mine and label in other and mine[label] == other[label] for label in labels)


def _are_similar(a: TemplateShape, b: TemplateShape, ignored: frozenset[str]) -> bool:
    """Return whether capacity, allocatable, free resources, and labels are about equal."""
    mine, other = node_facts.get_capacity(a.node), node_facts.get_capacity(b.node)
    if mine.keys() != other.keys():
        return False
    for name in mine:
        same = _are_near(mine[name], other[name], MEMORY_RATIO) if name == "memory" else mine[name] == other[name]
        if not same:
            return False
    offer_a, offer_b = node_facts.get_allocatable(a.node), node_facts.get_allocatable(b.node)
    if not _all_near(offer_a, offer_b, ALLOCATABLE_RATIO):
        return False
    if not _all_near(_compute_free(offer_a, a.requested), _compute_free(offer_b, b.requested), FREE_RATIO):
        return False
    return _compared(a.node, ignored) == _compared(b.node, ignored)


def _compute_free(offered: Mapping[str, int], requested: Mapping[str, int]) -> dict[str, int]:
    """Return the offered amounts minus the requests of pods."""
    return {name: offered[name] - requested[name] for name in requested if name in offered}


def _all_near(a: Mapping[str, int], b: Mapping[str, int], ratio: float) -> bool:
    return a.keys() == b.keys() and all(_are_near(a[name], b[name], ratio) for name in a)


def _are_near(a: int, b: int, ratio: float) -> bool:
    larger, smaller = max(a, b), min(a, b)
    return larger - smaller <= larger * ratio


def _compared(node: Node, ignored: frozenset[str]) -> dict[str, str]:
    return {name: value for name, value in node.metadata.labels.items() if name not in ignored}


def balance_increases(groups: Sequence[AutoscaledGroup], count: int) -> list[Increase]:
    """Divide new nodes among groups, the smallest first and none beyond its maximum."""
    growing = sorted((group for group in groups if group.headroom), key=lambda group: group.target)
    sizes = {group.id: group.target for group in growing}
    count = min(count, sum(max(group.headroom, 0) for group in growing))
    start = current = 0
    while count > 0:
        group = growing[current]
        if sizes[group.id] < group.max:
            sizes[group.id] += 1
            count -= 1
        else:
            growing[start], growing[current] = growing[current], growing[start]
            start += 1
        here = growing[current]
        if current < len(growing) - 1 and sizes[here.id] > sizes[growing[current + 1].id]:
            current += 1
        else:
            current = start
    return [Increase(group, group.target, sizes[group.id]) for group in growing if sizes[group.id] != group.target]
