"""What plugins and extenders answered, as part of several reports."""

from __future__ import annotations

from kschedctl.reports.document import Document


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
