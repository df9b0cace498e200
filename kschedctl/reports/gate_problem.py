"""What a CI gate objects to in a report: pods without a node, evictions, blocked drains."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.text.counts import counted


class GateProblem(NamedTuple):
    """One objection of a CI gate."""

    rule: str
    """The id of a rule in ``RULES`` of the gates."""
    object: str
    """Such as ``Pod shop/web``."""
    message: str
    fix: str = ""
    """What helps, or an empty string for the fix of the rule."""


def with_pod_count(pods: int, message: str) -> str:
    """Return the message, after the number of pods if there are several.

    >>> with_pod_count(2, "Insufficient cpu")
    '2 pods: Insufficient cpu'
    """
    return message if pods == 1 else f"{counted(pods, 'pod')}: {message}"
