"""What is asked about priorities."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PriorityLimits:
    """``grow``: by how many pods the top tier, or the one of this name or value, grows; 0: it does not.

    ``starving_seconds``: pods that wait longer starve.
    """

    grow: int = 10
    tier: str = ""
    starving_seconds: float = 3600.0
