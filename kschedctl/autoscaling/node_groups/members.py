"""Which nodes belong to a group of which only the name is known: by what clouds call groups and nodes.

No cloud is asked: a node is a group's where its labels, its annotations, its provider's ID or its name say so, and only
one group can be meant.
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
    """``nodes``: group -> its nodes in order; ``unsure``: node -> the groups that it could be of."""

    nodes: Mapping[str, list[str]]
    unsure: Mapping[str, tuple[str, ...]]


def members(groups: Sequence[str], nodes: Sequence[Node], label: str = "") -> Members:
    """The nodes of the groups; ``label``: whose value names a node's group, besides the well-known ones."""
    known = _Names(groups)
    by_group: dict[str, list[str]] = {group: [] for group in groups}
    unsure: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        meant = known.meant(node, label)
        if len(meant) == 1:
            by_group[meant[0]].append(node.metadata.name)
        elif meant:
            unsure[node.metadata.name] = meant
    return Members(by_group, unsure)


class _Names:
    """The groups by what a node may call them."""

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._exact: dict[str, list[str]] = {}
        for group in groups:
            for name in {group, group.rpartition("/")[2], group.partition(".")[2]} - {""}:
                self._exact.setdefault(name.casefold(), []).append(group)
        self._by_value: dict[tuple[str, str], tuple[str, ...]] = {}

    def meant(self, node: Node, label: str) -> tuple[str, ...]:
        """The groups that a node may be of, by the first thing of it that names any."""
        for name in _names(node, label):
            if exact := self._exact.get(name.casefold()):
                return tuple(exact)
        for known in _PATTERNS:
            value = node.metadata.labels.get(known.key)
            if value and (groups := self._matching(known, value)):
                return groups
        return ()

    def _matching(self, label: PoolLabel, value: str) -> tuple[str, ...]:
        key = label.key, value
        if key not in self._by_value:
            pattern = re.compile(label.group_pattern.format(re.escape(value)))
            self._by_value[key] = tuple(group for group in self._groups if pattern.fullmatch(group))
        return self._by_value[key]


def _names(node: Node, label: str) -> Iterator[str]:
    """What a node says that its group is called, the surest first."""
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
