"""How many volumes nodes themselves say that they take, as ``attachable-volumes-*`` of their allocatable resources.

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
    """Which of N nodes name a limit: masks (N,), by resource."""

    def __init__(self, nodes: NodeColumns) -> None:
        self.by_resource: dict[str, Bools] = {}
        self.any = np.zeros(len(nodes), np.bool_)
        for row, node in enumerate(nodes.objects):
            for name in node.status.allocatable:
                if name.startswith(ATTACHABLE_VOLUMES_PREFIX):
                    self.by_resource.setdefault(name, np.zeros(len(nodes), np.bool_))[row] = True
                    self.any[row] = True


def nodes_with_limits(view: Fork) -> NodesWithLimits:
    """The nodes of a fork that limit volumes themselves, found out once."""
    return view.objects.index(NodesWithLimits, lambda: NodesWithLimits(view.nodes), of=(view.nodes,))


def node_limits(view: Fork, resource: str) -> Counts:
    """(N,): how many volumes the nodes take by a resource, NO_LIMIT where they do not name it. Raises InputError."""
    named = nodes_with_limits(view).by_resource.get(resource)
    if named is None:
        return np.full(len(view.nodes), NO_LIMIT)
    return np.where(named, view.allocatable[:, view.resources[resource]], NO_LIMIT)


def csi_limit_resource(driver: str) -> str:
    """The resource that limits a driver's volumes.

    >>> csi_limit_resource("ebs.csi.aws.com")
    'attachable-volumes-csi-ebs.csi.aws.com'
    """
    if len(CSI_PREFIX) + len(driver) < MAX_NAME_LENGTH:
        return CSI_PREFIX + driver
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few drivers have names that long

    digest = hashlib.sha1(driver.encode(), usedforsecurity=False).hexdigest()
    return CSI_PREFIX + driver[:DRIVER_LENGTH] + digest[:HASH_LENGTH]


class DriverLimit(Detail, frozen=True):
    """A CSI driver that has ``attached`` volumes, and would get as many ``more`` with the pod, over its ``limit``."""

    driver: str
    attached: int
    limit: int
    more: int


class TooManyVolumes(Fact, frozen=True):
    drivers: tuple[DriverLimit, ...]

    def words(self) -> str:
        """
        >>> TooManyVolumes((DriverLimit("csi", attached=2, limit=2, more=1),)).words()
        'driver csi has 2 of 2 volumes attached, the pod brings 1 more'
        """
        return "; ".join(
            f"driver {d.driver} has {d.attached} of {counted(d.limit, 'volume')} attached, the pod brings {d.more} more"
            for d in self.drivers
        )
