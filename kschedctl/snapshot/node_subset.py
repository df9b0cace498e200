"""Columns for some of a snapshot's nodes, gathered from the columns of all nodes on first use."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Ints, Rows
from kschedctl.api.objects import Node, Taint
from kschedctl.snapshot.nodes import ImageState, LabelColumn, NodeColumns


class NodeSubset(NodeColumns):
    """The nodes at the rows (M,) of other columns, in that order. A label may keep values that no node has."""

    def __init__(self, of: NodeColumns, rows: Rows) -> None:
        super().__init__()
        self._of, self._rows, self._all = of, rows, np.arange(len(rows))
        self._labels: dict[str, LabelColumn] = {}
        self._images: dict[str, ImageState | None] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def rows(self) -> Rows:
        return self._all

    @cached_property
    def objects(self) -> tuple[Node, ...]:
        return tuple(map(self._of.objects.__getitem__, self._rows.tolist()))

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(map(self._of.names.__getitem__, self._rows.tolist()))

    @cached_property
    def unschedulable(self) -> Bools:
        return self._of.unschedulable[self._rows]

    @cached_property
    def taint_sets(self) -> tuple[list[tuple[Taint, ...]], Ints]:
        sets, of_node = self._of.taint_sets
        return sets, of_node[self._rows]

    @cached_property
    def declared_features(self) -> tuple[list[tuple[str, ...]], Ints]:
        sets, of_node = self._of.declared_features
        return sets, of_node[self._rows]

    def images(self, names: Collection[str]) -> list[ImageState | None]:
        for name, state in zip(names, self._of.images(names), strict=True):
            if name not in self._images:
                self._images[name] = None if state is None else self._restrict_image(state)
        return [self._images[name] for name in names]

    def _restrict_image(self, state: ImageState) -> ImageState | None:
        """Restrict an image to these nodes; None if no node has it."""
        rows = self._row_of[state.rows]
        kept = rows >= 0
        return ImageState(rows[kept], state.sizes[kept]) if kept.any() else None

    @cached_property
    def _row_of(self) -> Ints:
        """Row of the other columns -> row of these, -1 for none."""
        row_of = np.full(len(self._of), -1, np.int32)
        row_of[self._rows] = np.arange(len(self._rows))
        return row_of

    def label(self, key: str) -> LabelColumn:
        if key not in self._labels:
            column = self._of.label(key)
            self._labels[key] = LabelColumn(column.codes[self._rows], column.values)
        return self._labels[key]
