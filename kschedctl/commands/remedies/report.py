"""What would let a pod schedule, as documents: apiVersion kschedctl.dev/v1, kinds Remedies and RemediesOfMany.

Each remedy was replayed: its changes, applied to the objects as they were read, are what was replayed, with all other
waiting pods in the queue.
"""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.commands.make_room.report import MakeRoom
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.remedy import Remedy
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, count_by_state
from kschedctl.text.counts import agreeing, counted


class SearchReport(Document, frozen=True):
    """Sets of up to ``max_changes`` were looked for, in so many ``replays``; ``complete``: time was enough for all."""

    max_changes: int
    replays: int
    complete: bool = True


class Remedies(Report, frozen=True):
    """The remedies of one pod, the best first. ``impossible``: why a kind of remedy cannot exist, with the figures.

    ``make_room``: the pods that have to move so that it fits, where no remedy is only that and there is a plan.
    ``verdict``, ``headline`` and the rest are as in its Explanation.
    """

    pod: str
    verdict: str
    headline: str
    remedies: tuple[Remedy, ...] = ()
    impossible: tuple[str, ...] = ()
    searched: SearchReport | None = None
    stands_for: str = ""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    make_room: MakeRoom | None = None
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The objects of the files whose pods kube-scheduler does not see yet, such as custom resources."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Remedies"

    def first_line(self) -> tuple[str, ...]:
        """The first line of its Explanation."""
        besides = f"; {count_by_state(self.waiting_elsewhere)}" if self.waiting_elsewhere else ""
        return (self.pod, f"{self.verdict}{describe_doubt(self.unknown)}:", self.headline + besides)

    def summarized(self, summary: Summary) -> Summary:
        fixes = tuple(remedy.shortened() for remedy in self.remedies)
        if self.make_room:
            fixes = (*fixes, self.make_room.shortened())
        return replace(summary, subject=self.pod, verdict=self.verdict, fixes=fixes, advice=self.impossible)


class ChosenRemedy(Document, frozen=True):
    """A remedy for many pods, and whom it clears beside those before it; ``workloads``: whose pods it changes."""

    remedy: Remedy
    clears: tuple[str, ...]
    workloads: tuple[str, ...] = ()


class HelplessPods(Document, frozen=True):
    """Pods alike that still wait with all the chosen remedies, and kube-scheduler's ``message`` then."""

    pods: tuple[str, ...]
    workload: str
    message: str
    impossible: tuple[str, ...] = ()


class RemediesOfMany(Report, frozen=True):
    """What clears most of the pods that wait once all have passed the queue.

    ``waiting``: how many those are; ``cleared``: how many of them get a node with the ``chosen`` remedies together. Of
    these each is the one that clears most of the rest, as simulations say in which all pending pods pass the queue:
    others may clear more together. ``complete``: all remedies that were found for single pods were tried.
    ``not_created``: the workloads that lack pods which could not be created, and so do not wait.
    """

    scope: str
    waiting: int
    cleared: int
    chosen: tuple[ChosenRemedy, ...] = ()
    left: tuple[HelplessPods, ...] = ()
    not_created: tuple[NotCreated, ...] = ()
    complete: bool = True
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    elsewhere: int = 0
    """The number of pods that wait in other namespaces, if none of the scope waits."""
    waiting_elsewhere: tuple[WaitingElsewhere, ...] = ()
    """The objects of the files whose pods kube-scheduler does not see yet, such as custom resources."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "RemediesOfMany"

    def first_line(self) -> tuple[str, ...]:
        """How many of the pods are cleared with how many changes."""
        if not self.waiting:
            where = self.scope + describe_doubt(self.unknown) + self._besides
            if not self.elsewhere:
                return ("No pod waits", where)
            wait = agreeing(self.elsewhere, "waits", "wait")
            return ("No pod waits", f"{where}; {counted(self.elsewhere, 'pod')} {wait} in other namespaces")
        number = sum(len(chosen.remedy.kinds) for chosen in self.chosen)
        changes = " with this change" if number == 1 else f" with these {number} changes"
        how = changes if self.chosen else ": nothing was found that helps more"
        get = agreeing(1 if self.waiting == 1 else self.cleared, "gets", "get")
        cleared = f"{self.cleared:,} of {counted(self.waiting, 'waiting pod')} {self.scope} {get} a node"
        return (f"{cleared}{how}{self._besides}{describe_doubt(self.unknown)}",)

    @property
    def _besides(self) -> str:
        """Return how many objects wait elsewhere, as the end of a line."""
        return f"; {count_by_state(self.waiting_elsewhere)}" if self.waiting_elsewhere else ""

    def summarized(self, summary: Summary) -> Summary:
        """With the changes that were chosen, and who waits all the same."""
        fixes = tuple(chosen.remedy.shortened(len(chosen.clears)) for chosen in self.chosen)
        left = tuple(ShortPods(len(group.pods), group.pods[0], group.workload, group.message) for group in self.left)
        figures = {"waiting": self.waiting, "cleared": self.cleared}
        if self.elsewhere:
            figures["elsewhere"] = self.elsewhere
        lacking = tuple(workload.shortened for workload in self.not_created)
        return replace(summary, subject=self.scope, fixes=fixes, pods=(*lacking, *left), figures=figures)
