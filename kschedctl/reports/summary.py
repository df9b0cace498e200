"""What people in a chat, and language models, need of an answer, and no more: kind Summary, at most 12 KB of JSON."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kschedctl.reports.document import Document
from kschedctl.reports.fix_costs import FixCost

MOST_BYTES, MOST_ENTRIES, LONGEST, MOST_COMMANDS = 12_000, 8, 400, 3
"""How long the JSON, a list and a text (in characters) may be; how many commands it ends with."""
LISTS = ("pods", "closest", "causes", "fixes", "victims", "advice", "doubts")
"""What is shortened where a summary is too long still."""


class ShortCause(Document, frozen=True):
    """A reason in kube-scheduler's words, how many nodes it stands against, and the figures on the closest one.

    ``conflict``: the demand of the pod behind it that excludes another one.
    """

    reason: str
    nodes: int
    plugin: str = ""
    of_nodes: int = 0
    closest: str = ""
    fact: str = ""
    conflict: str = ""


def standing_against(nodes: int, within: int, total: int) -> str:
    """Which nodes a reason stands against: so many of those ``within`` reach, of the cluster's where none is.

    >>> standing_against(9, 9, 12), standing_against(2, 9, 12), standing_against(2, 2, 12), standing_against(5, 0, 12)
    ('all 9 eligible nodes', '2 of 9 eligible nodes', 'both eligible nodes', '5 of 12 nodes')
    """
    if total == 1:
        return ""
    if within == nodes == 1:
        return "the only eligible node"
    among, of = (within, "eligible nodes") if 0 < within < total else (total, "nodes")
    if nodes < among:
        return f"{nodes:,} of {among:,} {of}"
    return f"both {of}" if nodes == 2 else f"all {nodes:,} {of}"


class ShortNodes(Document, frozen=True):
    """Refused nodes that are alike: how many, their pools, one of them, and what refuses it."""

    nodes: int
    pools: tuple[str, ...]
    such_as: str
    refused_by: tuple[str, ...]


class ShortFix(Document, frozen=True):
    """A change that was replayed. ``owner``: app or platform team; ``but``: its drawbacks, such as what it gives up."""

    summary: str
    owner: str
    but: str = ""
    nodes: tuple[str, ...] = ()
    clears: int = 0
    commands: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    """Some of the waiting pods that take the room first, so that the pod still waits; empty if the fix holds."""
    rival_count: int = 0
    """The number of pods that take the room first."""
    also_places: int = 0
    """The number of other waiting pods that get a node with the fix, and get none without it."""
    costs: tuple[FixCost, ...] = ()
    """The costs of the fix. No form of an answer shows its commands without them."""

    @property
    def words(self) -> str:
        """The summary with what is against the fix."""
        return f"{self.summary}, but {self.but}" if self.but else self.summary


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
    preemption: str = ""
    """Why preemption cannot help, if it is because of the priorities of the pods."""
    figures: dict[str, int] = {}
    doubts: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    left_out: dict[str, int] = {}
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Summary"

    def fitting(self) -> Summary:
        """With a few of each list; with ever fewer, and in the end without commands, until it has MOST_BYTES."""
        summary = self._with_entries(MOST_ENTRIES)
        for entries in range(MOST_ENTRIES, 0, -1):
            if len(msgspec.json.encode(summary)) <= MOST_BYTES:
                return summary
            summary = summary._with_entries(entries)
        return replace(summary, fixes=tuple(replace(fix, commands=()) for fix in summary.fixes), next=())

    def _with_entries(self, entries: int) -> Summary:
        """With so many entries of each list at most, and no text longer than LONGEST."""
        whole = {name: getattr(self, name) for name in LISTS}
        left_out = {name: max(len(values) - entries, 0) + self.left_out.get(name, 0) for name, values in whole.items()}
        kept = {name: _cut(values[:entries]) for name, values in whole.items()}
        texts = {name: _cut(getattr(self, name)) for name in ("subject", "headline", "message")}
        return replace(self, **kept, **texts, left_out={name: number for name, number in left_out.items() if number})


def _cut(value: object) -> object:
    """The value with long texts cut, but for commands, which are of use as a whole alone."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    if isinstance(value, tuple):
        return tuple(map(_cut, value))
    if isinstance(value, msgspec.Struct):
        return replace(value, **{f: _cut(getattr(value, f)) for f in value.__struct_fields__ if f != "commands"})
    return value
