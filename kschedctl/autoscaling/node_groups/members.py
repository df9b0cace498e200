"""The nodes of groups of which only the name is known, by the naming conventions of clouds.

No cloud is queried. A node belongs to a group if its labels, annotations, provider ID or name identify the group
unambiguously.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.node_pools import POOL_ANNOTATION, POOL_LABELS, PoolLabel
from kschedctl.api.objects import Node

DIGITALOCEAN_ID = "doks.digitalocean.com/node-pool-id"
OWNER_NAME = "cluster.x-k8s.io/owner-name"
_SCALE_SET = re.compile(r"/virtualMachineScaleSets/([^/]+)/", re.IGNORECASE)
_PATTERNS = tuple(label for label in POOL_LABELS if label.group_pattern)


class Members(NamedTuple):
    """Nodes by the group to which they are assigned."""

    nodes: Mapping[str, list[str]]
    """Group -> its nodes in order."""
    unsure: Mapping[str, tuple[str, ...]]
    """Node -> the groups to which it could belong."""


def assign_nodes(groups: Sequence[str], nodes: Sequence[Node], label: str = "") -> Members:
    """Assign nodes to groups by well-known labels, other naming conventions and the label ``label``."""
    index = _GroupIndex(groups)
    by_group: dict[str, list[str]] = {group: [] for group in groups}
    unsure: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        matches = index.find_groups(node, label)
        if len(matches) == 1:
            by_group[matches[0]].append(node.metadata.name)
        elif matches:
            unsure[node.metadata.name] = matches
    return Members(by_group, unsure)


class _GroupIndex:
    """An index of groups by the names under which nodes may refer to them."""

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._exact: dict[str, list[str]] = {}
        for group in groups:
            for name in {group, group.rpartition("/")[2], group.partition(".")[2]} - {""}:
                self._exact.setdefault(name.casefold(), []).append(group)
        self._by_value: dict[tuple[str, str], tuple[str, ...]] = {}

    def find_groups(self, node: Node, label: str) -> tuple[str, ...]:
        """Return the groups that match the first matching name of the node."""
        for name in _iter_group_names(node, label):
            if exact := self._exact.get(name.casefold()):
                return tuple(exact)
        for pool_label in _PATTERNS:
            value = node.metadata.labels.get(pool_label.key)
            if value and (groups := self._match_pattern(pool_label, value)):
                return groups
        return ()

    def _match_pattern(self, label: PoolLabel, value: str) -> tuple[str, ...]:
        """Return the groups that match a label's pattern for this value."""
        key = label.key, value
        if key not in self._by_value:
            pattern = re.compile(label.group_pattern.format(re.escape(value)))
            self._by_value[key] = tuple(group for group in self._groups if pattern.fullmatch(group))
        return self._by_value[key]


def _iter_group_names(node: Node, label: str) -> Iterator[str]:
    """Yield possible names of the node's group, the most reliable first."""
    labels, annotations, name = node.metadata.labels, node.metadata.annotations, node.metadata.name
    yield from (labels[key] for key in (label, DIGITALOCEAN_ID) if key in labels)
    yield from (annotations[key] for key in (POOL_ANNOTATION, OWNER_NAME) if key in annotations)
    yield annotations.get(OWNER_NAME, "").rpartition("-")[0]  # the MachineDeployment of a MachineSet
    if scale_set := _SCALE_SET.search(node.spec.provider_id):
        yield scale_set[1]
    yield from (labels[known.key] for known in POOL_LABELS if known.key in labels)
    base = name.rpartition("-")[0]
    yield f"{base}-grp"  # GKE: an instance is called as its group, with other letters in the place of grp
    yield base.rpartition("-")[0]  # machines of Gardener: their MachineDeployment, and two words more
