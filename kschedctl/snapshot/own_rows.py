"""Some nodes of a fork, for plugins that read only a node's own row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NoReturn, TypeVar

from kschedctl.api.arrays import Amounts, Counts, Rows
from kschedctl.snapshot.changed_nodes import NodeSubset
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

V = TypeVar("V")


class OwnRows:
    """Some rows (M,) of a fork, as if each had `more` (M,) additional pods like `info`. Columns are as in a Fork."""

    def __init__(self, of: Fork, rows: Rows, more: Counts | None = None, info: int = 0) -> None:
        self.fork, self.rows = of, rows
        self.nodes = NodeSubset(of.nodes, rows)
        self.objects = of.objects
        self.allocatable = of.allocatable.take(rows, axis=0)
        self.requested = of.requested.take(rows, axis=0)
        self.nonzero_requested = of.nonzero_requested.take(rows, axis=0)
        self.resources = of.resources
        self.requests = of.requests
        self.nonzero_requests = of.nonzero_requests
        if more is not None:
            self.requested += more[:, None] * of.requests[info]
            self.nonzero_requested += more[:, None] * of.nonzero_requests[info]

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError for attributes of a Fork that such a plugin must not read."""
        raise AttributeError(f"a plugin that declares Reads.OWN_ROW cannot read {name}: it judges each node by itself")

    def matrix(self, rows: Sequence[Mapping[str, int]]) -> Amounts:
        """Convert amounts by resource name to a matrix with R columns."""
        return self.fork.matrix(rows)

    def memo(self, key: Hashable, make: Callable[[], V], info: PodInfo | None = None) -> V:
        """Return a cached result as `Fork.memo` does."""
        return self.fork.memo(key, make, info)


NodeView = Fork | OwnRows
"""The view that a plugin gets which reads only a node's own row."""


def get_whole_fork(view: NodeView) -> Fork:
    """Return the fork of which the view shows some rows, or the view itself if it is a fork."""
    return view.fork if isinstance(view, OwnRows) else view
