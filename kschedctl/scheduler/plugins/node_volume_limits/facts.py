"""What stands behind a refusal of NodeVolumeLimits, with its words."""

from __future__ import annotations

from kschedctl.scheduler.framework.facts import Detail, Fact
from kschedctl.text.counts import counted


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
