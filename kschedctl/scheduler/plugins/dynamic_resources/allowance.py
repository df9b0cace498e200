"""What the selectors of all devices may cost together: each has a limit of its own, and there may be many devices.

Upstream gives up on a node after ten seconds; this ends at the same place every time.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Allowance:
    """``left`` of it, in units of cost; evaluations that are ``cheap`` take nothing."""

    left: int = 30_000_000
    cheap: int = 10_000

    def take(self, cost: int) -> None:
        """Count an evaluation."""
        self.left -= cost if cost > self.cheap else 0
