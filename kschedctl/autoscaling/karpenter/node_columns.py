"""Existing nodes as columns, to find quickly the nodes that may take a pod. Only these are tried one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import Taint, Toleration
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.amounts import AmountColumns
from kschedctl.autoscaling.karpenter.existing_nodes import ExistingNode, RunNode
from kschedctl.autoscaling.karpenter.pod_data import PodData
from kschedctl.autoscaling.karpenter.requirements import LabelRequirement
from kschedctl.autoscaling.karpenter.state_nodes import StateNode
from kschedctl.autoscaling.karpenter.topology import RunTopology

Key = TypeVar("Key")


class ExistingColumns:
    """Columns of N nodes in the order in which they are tried, with cached label and taint checks."""

    def __init__(self, existing: Sequence[ExistingNode]) -> None:
        self.existing = tuple(existing)
        self.rooms = AmountColumns([node.room for node in self.existing])
        self.settling: Bools = np.array([node.settling for node in self.existing], np.bool_)
        self._codes: dict[str, tuple[list[str | None], np.ndarray]] = {}
        self._meeting: dict[LabelRequirement, Bools] = {}
        self._tolerated: dict[tuple[Toleration, ...], Bools] = {}

    @cached_property
    def states(self) -> list[StateNode]:
        return [node.state for node in self.existing]

    @cached_property
    def hosts(self) -> set[str]:
        """The host names of the nodes."""
        return {node.state.hostname for node in self.existing}

    @cached_property
    def rows(self) -> dict[str, int]:
        """Node name -> row."""
        return {node.state.name: at for at, node in enumerate(self.existing)}

    @cached_property
    def _taints(self) -> tuple[list[tuple[Taint, ...]], np.ndarray]:
        return _encode([node.state.taints for node in self.existing])

    def encode_label_values(self, key: str) -> tuple[list[str | None], np.ndarray]:
        """Return the distinct values of a label (None for nodes without it) and (N,) the index of each node's value."""
        if key not in self._codes:
            requirements = (node.requirements.get(key) for node in self.existing)
            self._codes[key] = _encode(
                [next(iter(requirement.values)) if requirement else None for requirement in requirements]
            )
        return self._codes[key]

    def find_by_label_value(self, key: str, predicate: Callable[[str], bool], without: bool = False) -> Bools:
        """Return a (N,) mask of the nodes whose label value satisfies ``predicate``.

        ``without`` is the result for nodes without the label.
        """
        values, codes = self.encode_label_values(key)
        table = np.array([without if value is None else predicate(value) for value in values], np.bool_)
        return np.asarray(table[codes], np.bool_)

    def find_meeting_nodes(self, requirement: LabelRequirement) -> Bools:
        """Return a (N,) mask of the nodes whose labels meet the requirement."""
        cached = self._meeting.get(requirement)
        if cached is None:
            cached = self.find_by_label_value(requirement.key, requirement.has, without=requirement.negative)
            self._meeting[requirement] = cached
        return cached

    def find_tolerated_nodes(self, tolerations: tuple[Toleration, ...]) -> Bools:
        """Return a (N,) mask of the nodes whose taints are all tolerated."""
        if tolerations not in self._tolerated:
            taints, codes = self._taints
            allowed = [all(is_tolerated(tolerations, t, comparison_operators=True) for t in own) for own in taints]
            self._tolerated[tolerations] = np.array(allowed, np.bool_)[codes]
        return self._tolerated[tolerations]


class RunNodes:
    """The nodes of one run, except those named in ``without``. A RunNode is created when a node takes its first pod."""

    def __init__(self, columns: ExistingColumns, without: Collection[str] = ()) -> None:
        self.columns = columns
        self._room = columns.rooms.values.copy()
        self._is_included = np.ones(len(columns.existing), np.bool_)
        self._is_included[[columns.rows[name] for name in without if name in columns.rows]] = False
        self._used: dict[int, RunNode] = {}

    @property
    def used(self) -> list[RunNode]:
        """The nodes that took pods in this run."""
        return [self._used[row] for row in sorted(self._used)]

    def place(self, data: PodData, topology: RunTopology, movable: bool) -> bool:
        """Add the pod to the first node that accepts it. Return whether there is one."""
        for row in np.flatnonzero(self._find_possible_nodes(data, topology, movable)).tolist():
            node = self._used.get(row) or RunNode.from_existing(self.columns.existing[row])
            requirements = node.can_add(data, topology)
            if requirements is not None:
                node.add(data, requirements, topology)
                self._used[row] = node
                self._subtract_room(row, data)
                return True
        return False

    def _find_possible_nodes(self, data: PodData, topology: RunTopology, movable: bool) -> Bools:
        """Return a (N,) mask of the nodes that are worth trying for the pod.

        The requirements of used nodes have changed, so their columns of labels and taints are not consulted.
        """
        columns = self.columns
        possible = columns.find_tolerated_nodes(data.pod.spec.tolerations).copy()
        for requirement in data.requirements.values():
            possible &= columns.find_meeting_nodes(requirement)
        for key, holds in topology.iter_domain_predicates(data.pod, data.strict):
            possible &= columns.find_by_label_value(key, holds)
        possible[list(self._used)] = True
        possible &= self._is_included & columns.rooms.find_fitting_rows(data.amounts, self._room)
        return possible if movable else possible & ~columns.settling

    def _subtract_room(self, row: int, data: PodData) -> None:
        """Subtract the pod's amounts from the node's room."""
        for name, amount in data.amounts.items():
            if name in self.columns.rooms.names:
                self._room[row, self.columns.rooms.names[name]] -= amount


def _encode(keys: Sequence[Key]) -> tuple[list[Key], np.ndarray]:
    """Return the distinct keys, and for each key its index among them."""
    indexes: dict[Key, int] = {}
    codes = np.array([indexes.setdefault(key, len(indexes)) for key in keys], np.int64)
    return list(indexes), codes
