"""How nodes were searched, where a part of them was looked at, as parts of other documents."""

from __future__ import annotations

from kschedctl.reports.document import Document


class SearchStart(Document, frozen=True):
    """``index``: where, of the nodes in the scheduler's order, the first search began; ``known``: it was given.

    The scheduler's own index is known to nobody but itself. Of several runs this is the first one's; where it is not
    known the others begin elsewhere.
    """

    index: int
    known: bool


class SearchedNodes(Document, frozen=True):
    """The search for one pod: of ``nodes`` nodes, ``examined`` were looked at from ``start`` on, the next begins at
    ``next``; ``found`` fit.
    """

    start: SearchStart
    nodes: int
    examined: int
    found: int
    next: int
