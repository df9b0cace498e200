"""CSINode objects as columns: each node's drivers, attach limits and migrated plugins.

Upstream: pkg/scheduler/framework/plugins/{nodevolumelimits,volumebinding} (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import CSINode
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import migrated_plugins

Limits = npt.NDArray[np.int64]
NO_LIMIT = -1


class CSINodes:
    """The CSINodes of N nodes, as columns (N,)."""

    def __init__(self, names: Iterable[str], csi_nodes: Iterable[CSINode]) -> None:
        by_name = {node.metadata.name: node for node in csi_nodes}
        self.nodes = tuple(map(by_name.get, names))

    @cached_property
    def present(self) -> Bools:
        """(N,) a mask of the nodes that have a CSINode."""
        return np.array([node is not None for node in self.nodes], np.bool_)

    @cached_property
    def limited(self) -> Bools:
        """(N,) a mask of the nodes on which some driver has a limit."""
        mask = np.zeros(len(self.nodes), np.bool_)
        for limits in self._limits_by_driver.values():
            mask |= limits != NO_LIMIT
        return mask

    def limits(self, driver: str) -> Limits:
        """Return (N,) how many volumes the driver can attach, or NO_LIMIT."""
        return self._limits_by_driver.get(driver, np.full(len(self.nodes), NO_LIMIT))

    def has_driver(self, driver: str) -> Bools:
        """Return (N,) a mask of the nodes on which the driver is installed."""
        return np.array([driver in (d.name for d in node.spec.drivers) if node else False for node in self.nodes])

    def migrated(self, plugin: str) -> Bools:
        """Return (N,) a mask of the nodes that use the in-tree plugin's volumes through CSI."""
        return np.array([plugin in migrated_plugins(node) for node in self.nodes], np.bool_)

    @cached_property
    def _limits_by_driver(self) -> dict[str, Limits]:
        """Driver -> (N,) how many volumes it can attach."""
        limits: dict[str, Limits] = {}
        for row, node in enumerate(self.nodes):
            for driver in node.spec.drivers if node else ():
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    none = np.full(len(self.nodes), NO_LIMIT)
                    limits.setdefault(driver.name, none)[row] = driver.allocatable.count
        return limits
