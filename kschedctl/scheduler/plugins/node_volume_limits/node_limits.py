"""Limits of attached volumes in the allocatable resources of nodes (`attachable-volumes-*`), and the facts about
limits.

Upstream: pkg/scheduler/framework/plugins/nodevolumelimits/utils.go and pkg/volume/util/attach_limit.go (v1.31).
"""

from __future__ import annotations

import numpy as np

from kschedctl.api.arrays import Bools, Counts
from kschedctl.api.resource_names import ATTACHABLE_VOLUMES_PREFIX
from kschedctl.scheduler.framework.facts import Detail, Fact
from kschedctl.scheduler.plugins.helper.volumes.csi_nodes import NO_LIMIT
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import NodeColumns
from kschedctl.text.counts import counted

CSI_PREFIX = f"{ATTACHABLE_VOLUMES_PREFIX}csi-"
MAX_NAME_LENGTH = 63
DRIVER_LENGTH, HASH_LENGTH = 23, 16
"""What is left of the name of a driver that is too long, and of its hash."""


class NodesWithLimits:
    """Masks (N,) of the nodes that declare limits, by resource and in total."""

    def __init__(self, nodes: NodeColumns) -> None:
        self.by_resource: dict[str, Bools] = {}
        self.any = np.zeros(len(nodes), np.bool_)
        for row, node in enumerate(nodes.objects):
            for name in node.status.allocatable:
                if name.startswith(ATTACHABLE_VOLUMES_PREFIX):
                    self.by_resource.setdefault(name, np.zeros(len(nodes), np.bool_))[row] = True
                    self.any[row] = True


def find_nodes_with_limits(view: Fork) -> NodesWithLimits:
    """Return which nodes of the fork declare limits, computed once."""
    return view.objects.index(NodesWithLimits, lambda: NodesWithLimits(view.nodes), of=(view.nodes,))


def find_node_limits(view: Fork, resource: str) -> Counts:
    """Return (N,) how many volumes the nodes allow by the resource, or NO_LIMIT."""
    declares_limit = find_nodes_with_limits(view).by_resource.get(resource)
    if declares_limit is None:
        return np.full(len(view.nodes), NO_LIMIT)
    return np.where(declares_limit, view.allocatable[:, view.resources[resource]], NO_LIMIT)


def build_limit_resource(driver: str) -> str:
    """Return the resource that limits the driver's volumes.

    >>> build_limit_resource("ebs.csi.aws.com")
    'attachable-volumes-csi-ebs.csi.aws.com'
    """
    if len(CSI_PREFIX) + len(driver) < MAX_NAME_LENGTH:
        return CSI_PREFIX + driver
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few drivers have names that long

    digest = hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()
    return CSI_PREFIX + driver[:DRIVER_LENGTH] + digest[:HASH_LENGTH]


class DriverLimit(Detail, frozen=True):
    """A CSI driver that would exceed its limit on a node."""

    driver: str
    attached: int
    """The number of its volumes that are attached."""
    limit: int
    more: int
    """The number of volumes that the pod adds."""


class TooManyVolumes(Fact, frozen=True):
    """The CSI drivers that would exceed their limits on a node."""

    drivers: tuple[DriverLimit, ...]

    def words(self) -> str:
        """Return the fact as a sentence.

        >>> TooManyVolumes((DriverLimit("csi", attached=2, limit=2, more=1),)).words()
        'driver csi has 2 of 2 volumes attached, the pod brings 1 more'
        """
        return "; ".join(
            f"driver {d.driver} has {d.attached} of {counted(d.limit, 'volume')} attached, the pod brings {d.more} more"
            for d in self.drivers
        )
