"""What people in a chat, and language models, need of an answer, and no more: kind Summary, at most 12 KB of JSON."""

from __future__ import annotations

from kschedctl.reports.document import Document


class ShortCause(Document, frozen=True):
    """A reason in kube-scheduler's words, how many nodes it stands against, and the figures on the closest one."""

    reason: str
    nodes: int
    plugin: str = ""
    of_nodes: int = 0
    closest: str = ""
    fact: str = ""


class ShortNodes(Document, frozen=True):
    """Refused nodes that are alike: how many, their pools, one of them, and what refuses it."""

    nodes: int
    pools: tuple[str, ...]
    such_as: str
    refused_by: tuple[str, ...]


class ShortFix(Document, frozen=True):
    """A change that was verified by replay. ``owner``: app or platform team; ``but``: what it gives up."""

    summary: str
    owner: str
    but: str = ""
    nodes: tuple[str, ...] = ()
    clears: int = 0
    commands: tuple[str, ...] = ()


class ShortPods(Document, frozen=True):
    """Pods with one fate: how many, one of them, and why."""

    pods: int
    such_as: str
    workload: str
    why: str


class Summary(Document, frozen=True):
    """``summarizes`` is the kind of the full document, ``headline`` its first line.

    ``best``: nodes that take the pod, the best first, with their scores; ``victims``: whom preemption would evict, on
    ``nominated``. ``figures``: the numbers of the answer by name. ``doubts``: what was not read or is not replayed.
    ``next``: command lines that tell more. ``left_out``: how many entries of a list did not fit in, by its name.
    """

    summarizes: str
    subject: str
    verdict: str
    headline: str
    message: str = ""
    undecided: bool = False
    causes: tuple[ShortCause, ...] = ()
    closest: tuple[ShortNodes, ...] = ()
    best: dict[str, int] = {}
    nominated: str = ""
    victims: tuple[str, ...] = ()
    pods: tuple[ShortPods, ...] = ()
    fixes: tuple[ShortFix, ...] = ()
    advice: tuple[str, ...] = ()
    figures: dict[str, int] = {}
    doubts: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    left_out: dict[str, int] = {}
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Summary"
