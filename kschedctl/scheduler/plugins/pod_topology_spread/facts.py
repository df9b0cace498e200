"""What stands behind a refusal of PodTopologySpread, with its words."""

from __future__ import annotations

from kschedctl.scheduler.framework.facts import Fact


class TooSkewed(Fact, frozen=True):
    """The ``domain`` of the topology ``key`` has more matching ``pods`` than the emptiest, which has ``fewest``."""

    key: str
    domain: str
    pods: int
    fewest: int
    skew: int
    max_skew: int

    def words(self) -> str:
        """
        >>> TooSkewed("zone", "a", pods=1, fewest=0, skew=2, max_skew=1).words()
        'zone=a has 1 matching pod, the emptiest domain 0: skew would be 2, at most 1 is allowed'
        """
        pods = f"{self.pods} matching pod{'s' * (self.pods != 1)}"
        skew = f"skew would be {self.skew}, at most {self.max_skew} is allowed"
        return f"{self.key}={self.domain} has {pods}, the emptiest domain {self.fewest}: {skew}"
