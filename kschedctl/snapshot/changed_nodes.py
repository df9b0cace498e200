"""Nodes that differ from those of a snapshot: subsets, changed and added nodes, and nodes closed to further pods.

Only differences are computed anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Row, Rows
from kschedctl.api.objects import Node, Taint
from kschedctl.snapshot.nodes import ImageState, LabelColumn, NodeColumns

T = TypeVar("T")


class ChangedNodes(NodeColumns):
    """The rows of other node columns, some with another node, followed by a row for each of `more`.

    A changed node has the images of the one that it replaces. Added nodes have none.
    """

    def __init__(self, of: NodeColumns, changed: Mapping[Row, Node], more: Sequence[Node] = ()) -> None:
        super().__init__()
        new = {**changed, **{Row(len(of) + i): node for i, node in enumerate(more)}}
        self._of = of
        self._more = len(more)
        self._new = new
        if isinstance(of, ChangedNodes):  # flatten, so that a chain of changes does not become deep
            self._of = of._of
            self._more = of._more + len(more)
            self._new = {**of._new, **new}
        self._labels: dict[str, LabelColumn] = {}

    def __len__(self) -> int:
        return len(self._of) + self._more

    @cached_property
    def objects(self) -> tuple[Node, ...]:
        """The nodes, some of them changed or added."""
        nodes = [*self._of.objects, *(None,) * self._more]
        for row, node in self._new.items():
            nodes[row] = node
        return tuple(node for node in nodes if node is not None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes. A changed node keeps its name."""
        names_before = self._of.names
        if not self._more:
            return names_before
        return (*names_before, *(node.metadata.name for row, node in self._new.items() if row >= len(names_before)))

    @cached_property
    def unschedulable(self) -> Bools:
        """Whether each node is cordoned."""
        unschedulable = np.append(self._of.unschedulable, np.zeros(self._more, np.bool_))
        for row, node in self._new.items():
            unschedulable[row] = node.spec.unschedulable
        return unschedulable

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[Taint, ...]], Ints]:
        """The distinct lists of taints, and the index of each node's list."""
        return self._with_changed_values(
            *self._of.taint_sets, {row: node.spec.taints for row, node in self._new.items()}
        )

    @cached_property
    def declared_features(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The distinct lists of declared features, and the index of each node's list."""
        changed = {row: node.status.declared_features for row, node in self._new.items()}
        return self._with_changed_values(*self._of.declared_features, changed)

    def images(self, names: Collection[str]) -> list[ImageState | None]:
        """Return the nodes that have each of the images, or None for an image on no node."""
        return self._of.images(names)

    @cached_property
    def has_same_labels(self) -> bool:
        """Whether no node's labels changed, as when nodes are cordoned."""
        nodes_before = self._of.objects
        return not self._more and all(
            node.metadata is nodes_before[row].metadata or node.metadata.labels == nodes_before[row].metadata.labels
            for row, node in self._new.items()
        )

    def label(self, key: str) -> LabelColumn:
        """Return the column of one label key."""
        if self.has_same_labels:
            return self._of.label(key)
        if key not in self._labels:
            column = self._of.label(key)
            changed = {row: node.metadata.labels.get(key) for row, node in self._new.items()}
            values, codes = self._with_changed_values(
                column.values, column.codes, {row: value for row, value in changed.items() if value is not None}
            )
            codes[[row for row, value in changed.items() if value is None]] = -1
            self._labels[key] = LabelColumn(codes, tuple(values))
        return self._labels[key]

    def _with_changed_values(self, values: Sequence[T], codes: Ints, changed: Mapping[Row, T]) -> tuple[list[T], Ints]:
        """Return the distinct values and each node's index after some nodes got other values, new values last."""
        code_by_value = {value: code for code, value in enumerate(values)}
        extended = np.append(codes, np.zeros(self._more, codes.dtype))
        for row, value in changed.items():
            extended[row] = code_by_value.setdefault(value, len(code_by_value))
        return list(code_by_value), extended


class NodeSubset(NodeColumns):
    """The nodes at some rows (M,) of other columns, in that order. A label may have values that no node has."""

    def __init__(self, of: NodeColumns, rows: Rows) -> None:
        super().__init__()
        self._of = of
        self._rows = rows
        self._all = np.arange(len(rows))
        self._labels: dict[str, LabelColumn] = {}
        self._images: dict[str, ImageState | None] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Rows:
        """All rows of the subset in order."""
        return self._all

    @cached_property
    def objects(self) -> tuple[Node, ...]:
        """The nodes of the subset."""
        return tuple(map(self._of.objects.__getitem__, self._rows.tolist()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(map(self._of.names.__getitem__, self._rows.tolist()))

    @cached_property
    def unschedulable(self) -> Bools:
        """Whether each node is cordoned."""
        return self._of.unschedulable[self._rows]

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[Taint, ...]], Ints]:
        """The distinct lists of taints, and the index of each node's list."""
        sets, of_node = self._of.taint_sets
        return sets, of_node[self._rows]

    @cached_property
    def declared_features(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The distinct lists of declared features, and the index of each node's list."""
        sets, of_node = self._of.declared_features
        return sets, of_node[self._rows]

    def images(self, names: Collection[str]) -> list[ImageState | None]:
        """Return the nodes that have each of the images, or None for an image on no node."""
        for name, state in zip(names, self._of.images(names), strict=True):
            if name not in self._images:
                self._images[name] = None if state is None else self._restrict_image(state)
        return [self._images[name] for name in names]

    def _restrict_image(self, state: ImageState) -> ImageState | None:
        """Return an image restricted to these nodes, or None if no node has it."""
        rows = self._row_in_subset[state.rows]
        is_kept = rows >= 0
        return ImageState(rows[is_kept], state.sizes[is_kept]) if is_kept.any() else None

    @cached_property
    def _row_in_subset(self) -> Ints:
        """Row of the other columns -> row of the subset, -1 for none."""
        row_of = np.full(len(self._of), -1, np.int32)
        row_of[self._rows] = np.arange(len(self._rows))
        return row_of

    def label(self, key: str) -> LabelColumn:
        """Return the column of one label key."""
        if key not in self._labels:
            column = self._of.label(key)
            self._labels[key] = LabelColumn(column.codes[self._rows], column.values)
        return self._labels[key]


class ClosedNodes:
    """The nodes of a fork that take no more pods, as a mask and as cordoned Node objects.

    They are valid only for pods that a cordon merely keeps off the node. Close a node before pods leave it and open it
    after they are back, so that caches see it change.
    """

    def __init__(self, nodes: int) -> None:
        self.mask: Bools = np.zeros(nodes, np.bool_)
        self.cordoned: dict[Row, Node] = {}

    def close(self, row: Row, cordoned: Node) -> None:
        """Keep further pods off the node, which `cordoned` is as a cordoned Node."""
        self.mask[row], self.cordoned[row] = True, cordoned

    def open(self, row: Row) -> None:
        """Let pods come to the node again."""
        self.mask[row] = False
        self.cordoned.pop(row, None)
