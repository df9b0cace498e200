"""The answers of plugins and extenders in a cycle, and recorded extender answers: kind ExtenderAnswers."""

from __future__ import annotations

from typing import Any

from kschedctl.reports.document import Document, RootDocument

EXTENDER_INPUT_NOTE = (
    "extenders got pods with only the fields that kube-scheduler's plugins read: no annotations, no environment"
)


class StatusReport(Document, frozen=True):
    """A plugin's answer: upstream's code and reasons."""

    code: str
    reasons: tuple[str, ...] = ()


class FirstFailReport(Document, frozen=True):
    """The answer of the first plugin that rejects a pod."""

    plugin: str
    code: str
    reasons: tuple[str, ...] = ()


class ExtenderCallReport(Document, frozen=True):
    """A call of the extender at a URL."""

    extender: str
    verb: str
    nodes: tuple[str, ...]
    """The nodes in the request."""
    full: bool = False
    """True if the nodes were sent as whole objects instead of names."""


class ExtenderErrorReport(Document, frozen=True):
    """A call without a usable answer."""

    extender: str
    verb: str
    error: str
    """kube-scheduler's words, or why the answer is not known."""


class SearchStart(Document, frozen=True):
    """The node at which the first search for nodes starts. Further runs start elsewhere if this is not known."""

    index: int
    """The index in the scheduler's order of nodes."""
    known: bool
    """True if the index was given. Otherwise only the scheduler knows it."""


class SearchedNodes(Document, frozen=True):
    """The search for nodes for one pod."""

    start: SearchStart
    nodes: int
    """The number of nodes to search."""
    examined: int
    """The number of nodes that were examined."""
    found: int
    """The number of feasible nodes that were found."""
    next: int
    """The index at which the next search starts."""


class ExtenderAnswer(Document, frozen=True):
    """The answer of the extender at a URL about a pod and some nodes."""

    extender: str
    verb: str
    pod: str
    nodes: tuple[str, ...]
    question: str
    """A hash of the whole request, without the pod's status and times."""
    status: int = 0
    body: Any = None
    """The decoded JSON of a response with status 200."""
    error: str = ""
    """The reason why the call failed, in kube-scheduler's words."""
    whole: bool = False
    """True if the pod was sent with its annotations and volumes, which are not recorded."""


class ExtenderAnswers(RootDocument, frozen=True):
    """Recorded answers, in the order of the calls."""

    answers: tuple[ExtenderAnswer, ...] = ()
    kind: str = "ExtenderAnswers"
