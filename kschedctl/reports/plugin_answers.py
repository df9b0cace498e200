"""What plugins and extenders answered, as part of several reports."""

from __future__ import annotations

from kschedctl.reports.document import Document

EXTENDER_INPUT_NOTE = "extenders got of pods what kube-scheduler's plugins read: no annotations, no environment"


class StatusReport(Document, frozen=True):
    """What a plugin answered: upstream's code and words."""

    code: str
    reasons: tuple[str, ...] = ()


class FirstFailReport(Document, frozen=True):
    plugin: str
    code: str
    reasons: tuple[str, ...] = ()


class ExtenderCallReport(Document, frozen=True):
    """A call of the extender at a URL: about which ``nodes``; ``full``: they were sent whole, not by name."""

    extender: str
    verb: str
    nodes: tuple[str, ...]
    full: bool = False


class ExtenderErrorReport(Document, frozen=True):
    """Why a call gave no answer that counts: kube-scheduler's words, or why the answer is not known."""

    extender: str
    verb: str
    error: str


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
