"""Nodes that differ from a snapshot's nodes: subsets, changed and added nodes, and nodes closed to further pods.

Only differences are recomputed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TypeVar

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Row, Rows
from kschedctl.api.node_selector import RequiredNodeAffinity
from kschedctl.api.objects import Node, Taint
from kschedctl.snapshot.nodes import ImageState, LabelColumn, NodeColumns

T = TypeVar("T")


class ChangedNodes(NodeColumns):
    """The rows of other node columns, some with another node, followed by a row for each of `added`.

    A changed node has the images of the node that it replaces. Added nodes have none.
    """

    def __init__(self, base: NodeColumns, changed: Mapping[Row, Node], added: Sequence[Node] = ()) -> None:
        super().__init__()
        new_nodes = dict(changed)
        for row, node in enumerate(added, start=len(base)):
            new_nodes[Row(row)] = node
        self._base = base
        self._added_count = len(added)
        self._new_nodes = new_nodes
        if isinstance(base, ChangedNodes):  # flatten, so that a chain of changes does not become deep
            self._base = base._base
            self._added_count = base._added_count + len(added)
            self._new_nodes = {**base._new_nodes, **new_nodes}
        self._labels: dict[str, LabelColumn] = {}

    def __len__(self) -> int:
        return len(self._base) + self._added_count

    @cached_property
    def objects(self) -> tuple[Node, ...]:
        """The nodes, some of them changed or added."""
        nodes = list(self._base.objects)
        count_before = len(nodes)
        nodes += (self._new_nodes[Row(row)] for row in range(count_before, len(self)))
        for row, node in self._new_nodes.items():
            nodes[row] = node
        return tuple(nodes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes. A changed node keeps its name, and added nodes come last."""
        names_before = self._base.names
        if not self._added_count:
            return names_before
        return (
            *names_before,
            *(node.metadata.name for row, node in self._new_nodes.items() if row >= len(names_before)),
        )

    @cached_property
    def index(self) -> dict[str, Row]:
        """The row of each node, by name. Without added nodes, the dict of the other columns is shared."""
        if not self._added_count:
            return self._base.index
        count_before = len(self._base)
        return self._base.index | {name: Row(row) for row, name in enumerate(self.names[count_before:], count_before)}

    @cached_property
    def unschedulable(self) -> Bools:
        """The cordoned nodes, as a mask."""
        unschedulable = np.append(self._base.unschedulable, np.zeros(self._added_count, np.bool_))
        for row, node in self._new_nodes.items():
            unschedulable[row] = node.spec.unschedulable
        return unschedulable

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[Taint, ...]], Ints]:
        """The distinct lists of taints, and the index of each node's list."""
        sets, set_of_node = self._base.taint_sets
        changed = {row: node.spec.taints for row, node in self._new_nodes.items()}
        return self._recode_changed_values(sets, set_of_node, changed)

    @cached_property
    def declared_features(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The distinct lists of declared features, and the index of each node's list."""
        sets, set_of_node = self._base.declared_features
        changed = {row: node.status.declared_features for row, node in self._new_nodes.items()}
        return self._recode_changed_values(sets, set_of_node, changed)

    def find_image_states(self, names: Collection[str]) -> list[ImageState | None]:
        """Return the nodes that have each of the images, or None for an image on no node."""
        return self._base.find_image_states(names)

    @cached_property
    def has_same_labels(self) -> bool:
        """Return whether no node was added and no node's labels changed.

        This is the case if nodes were only cordoned.
        """
        if self._added_count:
            return False
        nodes_before = self._base.objects
        for row, node in self._new_nodes.items():
            metadata, metadata_before = node.metadata, nodes_before[row].metadata
            if metadata is not metadata_before and metadata.labels != metadata_before.labels:
                return False
        return True

    def label(self, key: str) -> LabelColumn:
        """Return the column of one label key, in which changed nodes have their new values. Columns are cached."""
        if self.has_same_labels:
            return self._base.label(key)
        if key not in self._labels:
            # Find the new values, and the nodes that have no such label any more.
            column = self._base.label(key)
            changed: dict[Row, str] = {}
            rows_without: list[Row] = []
            for row, node in self._new_nodes.items():
                value = node.metadata.labels.get(key)
                if value is None:
                    rows_without.append(row)
                else:
                    changed[row] = value

            values, codes = self._recode_changed_values(column.values, column.codes, changed)
            codes[rows_without] = -1
            self._labels[key] = LabelColumn(codes, tuple(values))
        return self._labels[key]

    def _recode_changed_values(
        self, values: Sequence[T], codes: Ints, changed: Mapping[Row, T]
    ) -> tuple[list[T], Ints]:
        """Return the distinct values and each node's index among them after giving nodes in `changed` their new values.

        New distinct values come last. An added node that is not in `changed` gets index 0.
        """
        code_by_value = {value: code for code, value in enumerate(values)}
        extended = np.append(codes, np.zeros(self._added_count, codes.dtype))
        for row, value in changed.items():
            extended[row] = code_by_value.setdefault(value, len(code_by_value))
        return list(code_by_value), extended


class NodeSubset(NodeColumns):
    """The nodes at some rows (M,) of other columns, in that order. A label may have values that no node has."""

    def __init__(self, base: NodeColumns, rows: Rows) -> None:
        super().__init__()
        self._base = base
        self._rows = rows
        self._all = np.arange(len(rows))
        self._labels: dict[str, LabelColumn] = {}
        self._images: dict[str, ImageState | None] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Rows:
        """All rows of the subset, which are numbered from 0, in order."""
        return self._all

    @cached_property
    def objects(self) -> tuple[Node, ...]:
        """The nodes of the subset."""
        return tuple(map(self._base.objects.__getitem__, self._rows.tolist()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes."""
        return tuple(map(self._base.names.__getitem__, self._rows.tolist()))

    @cached_property
    def unschedulable(self) -> Bools:
        """Return whether each node is cordoned."""
        return self._base.unschedulable[self._rows]

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[Taint, ...]], Ints]:
        """The distinct lists of taints, and the index of each node's list."""
        sets, of_node = self._base.taint_sets
        return sets, of_node[self._rows]

    @cached_property
    def declared_features(self) -> tuple[list[tuple[str, ...]], Ints]:
        """The distinct lists of declared features, and the index of each node's list."""
        sets, of_node = self._base.declared_features
        return sets, of_node[self._rows]

    def find_image_states(self, names: Collection[str]) -> list[ImageState | None]:
        """Return the nodes that have each of the images, or None for an image on no node. Results are cached."""
        for name, state in zip(names, self._base.find_image_states(names), strict=True):
            if name not in self._images:
                self._images[name] = None if state is None else self._restrict_image_to_subset(state)
        return [self._images[name] for name in names]

    def match_required_affinity(self, required: RequiredNodeAffinity) -> Bools:
        """Return a mask (N,) of the nodes of the subset that a pod's nodeSelector and required terms match."""
        return self._base.match_required_affinity(required)[self._rows]

    def _restrict_image_to_subset(self, state: ImageState) -> ImageState | None:
        """Return an image's state on the nodes of the subset, or None if no node of the subset has the image.

        The rows in the result are the nodes' rows in the subset.
        """
        rows = self._row_in_subset[state.rows]
        is_in_subset = rows >= 0
        if not is_in_subset.any():
            return None
        return ImageState(rows[is_in_subset], state.sizes[is_in_subset])

    @cached_property
    def _row_in_subset(self) -> Ints:
        """The row in the subset for each row of the other columns, or -1 if the subset lacks the row's node."""
        row_in_subset = np.full(len(self._base), -1, np.int32)
        row_in_subset[self._rows] = np.arange(len(self._rows))
        return row_in_subset

    def label(self, key: str) -> LabelColumn:
        """Return the column of one label key for the nodes of the subset. Columns are cached."""
        if key not in self._labels:
            column = self._base.label(key)
            self._labels[key] = LabelColumn(column.codes[self._rows], column.values)
        return self._labels[key]


class ClosedNodes:
    """The nodes of a fork that take no more pods, as a mask and as cordoned Node objects.

    They are valid only for pods that a cordon keeps off a node. Close a node before pods leave it, and open it after
    they are back, so that caches see the node change.
    """

    def __init__(self, nodes: int) -> None:
        self.mask: Bools = np.zeros(nodes, np.bool_)
        self.cordoned: dict[Row, Node] = {}

    def close_node(self, row: Row, cordoned: Node) -> None:
        """Keep further pods off the node on this row. `cordoned` is the same node with a cordon."""
        self.mask[row] = True
        self.cordoned[row] = cordoned

    def open_node(self, row: Row) -> None:
        """Let pods come to the node on this row again."""
        self.mask[row] = False
        self.cordoned.pop(row, None)
