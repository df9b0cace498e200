"""What another supposition about a pod changes of the answer."""

from __future__ import annotations

from kschedctl.reports.document import Document


class RefusingReason(Document, frozen=True):
    """How many nodes are reported with one reason of one plugin, ``before`` and ``after``."""

    plugin: str
    reason: str
    before: int
    after: int


class ChangedAnswer(Document, frozen=True):
    """``fit``: how many nodes take the pod before and after; ``gained`` and ``lost``: which; ``best``: the tied best.

    ``reasons``: those of which the number of nodes is another.
    """

    fit: tuple[int, int]
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    best: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    reasons: tuple[RefusingReason, ...] = ()
