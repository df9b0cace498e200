"""A hypothesis about each node on its own: pods added to it, or removed from it, and nothing else changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Delta:
    """K changes in the order in which they happen: on node ``node[k]`` a pod like ``info[k]`` comes or goes.

    ``sign`` is +1 for an added and -1 for a removed pod. What a plugin then says of a node holds for a cluster in
    which only that node's changes took place.
    """

    node: npt.NDArray[np.int32]
    info: npt.NDArray[np.int32]
    sign: npt.NDArray[np.int64]

    def __bool__(self) -> bool:
        return len(self.node) > 0

    def counts(self, selected: npt.NDArray[np.bool_], nodes: int) -> npt.NDArray[np.int64]:
        """(N,): by how much the number of selected pods, (T,) by info, changes on each node."""
        changes = np.zeros(nodes, np.int64)
        np.add.at(changes, self.node, self.sign * selected[self.info])
        return changes

    def then(self, later: Delta) -> Delta:
        """These changes followed by others."""
        return Delta(
            np.concatenate((self.node, later.node)),
            np.concatenate((self.info, later.info)),
            np.concatenate((self.sign, later.sign)),
        )


NO_CHANGE = Delta(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.int64))
