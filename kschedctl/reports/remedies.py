"""What would let a pod schedule, as documents: apiVersion kschedctl.dev/v1, kinds Remedies and RemediesOfMany.

Each remedy was replayed: its changes, applied to the objects as they were read, are what was replayed, with all other
waiting pods in the queue.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kschedctl.api.json_values import JsonDict
from kschedctl.reports.document import Document
from kschedctl.reports.eviction_chain import EvictionChain
from kschedctl.reports.fix_costs import CostKind, FixCost, clauses
from kschedctl.reports.make_room import MakeRoom
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.summary import Report, ShortFix, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, doubt
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, count_by_state
from kschedctl.text.counts import agreeing, counted, first_few

OWNERS = {"author": "app", "operator": "platform"}
"""Who makes a change: the team of the workload, or that of the cluster."""


class Remedy(Document, frozen=True):
    """The smallest changes that let the pod schedule: none of them can be left out.

    ``by``: who makes them, "author" of the workload or "operator" of the cluster, who could make all. ``weakens``: the
    guarantees that are given up, None for none. ``opens``: the nodes that then take the pod. ``commands``: what can be
    typed, or read, to make the changes. ``kinds``: of each change, for --only and --without. ``victims``: the pods that
    the scheduler then evicts to make room, where the workload's other pods change with it in its whole rollout.
    ``restarts``: so many of its pods that run now are replaced. ``alternatives``: where the same can be done as well,
    each replayed too. ``step``: what the dearest change costs, by which fixes are ordered: "patience", "correction",
    "room", "neighbour", "wish", "guarantee" or "loss".

    ``changes``: of each object, as it was read, either ``{"kind", "namespace", "name", "patch"}`` with RFC 6902
    operations, or ``{"create": object}``, or ``{"delete": {"kind", "namespace", "name"}}``. ``"anew": true`` beside a
    patch: the API server refuses it as an update, so the object is deleted and created so. ``owner_patch``: what the
    pod asks for otherwise, as strategic merge patch of the ``owner`` that makes it; empty where it stays as it is.
    """

    summary: str
    by: str
    weakens: str | None
    opens: tuple[str, ...]
    commands: tuple[str, ...]
    changes: tuple[JsonDict, ...]
    kinds: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    owner: str = ""
    owner_patch: JsonDict = {}
    restarts: int = 0
    step: str = ""
    chain: EvictionChain | None = None
    """What becomes of the victims once their controllers recreate them; None without victims."""
    holds: bool | None = None
    """Whether the pod gets a node when, after the fix, all waiting pods are tried in the queue's order; None if this
    was not replayed."""
    rivals: tuple[str, ...] = ()
    """The waiting pods that take the room that the fix makes, so that the pod still waits; empty if the fix holds."""
    also_places: tuple[str, ...] = ()
    """The other waiting pods that get a node with the fix, and get none without it."""
    needs_values: tuple[str, ...] = ()
    """The fields whose values only the user knows. A fix with such a field is described, and never called verified."""
    manifests: tuple[JsonDict, ...] = ()
    """The objects to complete and to create after the commands. The API server refuses them while a field is empty."""
    costs: tuple[FixCost, ...] = ()
    """The costs of the fix itself. ``weakens`` has most of them as one text."""

    @property
    def all_costs(self) -> tuple[FixCost, ...]:
        """Return the costs of the fix, after the pods that take the room first."""
        costs = self.costs
        if not costs and self.weakens:
            costs = (FixCost(CostKind.GIVES_UP, self.weakens),)
        if self.rivals:
            verb = "takes" if len(self.rivals) == 1 else "take"
            text = f"the pod still waits: {first_few(self.rivals)} {verb} the room first"
            return (FixCost(CostKind.STILL_WAITS, text), *costs)
        if self.holds is False:
            return (FixCost(CostKind.STILL_WAITS, "the pod still waits once all waiting pods were tried"), *costs)
        return costs

    @property
    def drawbacks(self) -> tuple[str, ...]:
        """Return what is against the fix, as clauses that follow "but", without what the summary says itself."""
        return clauses(self.all_costs)

    @property
    def gain(self) -> str:
        """Return how many other waiting pods the fix places, as a clause; empty for none."""
        return f"also places {counted(len(self.also_places), 'other')}" if self.also_places else ""

    def shortened(self, clears: int = 0) -> ShortFix:
        """``clears``: how many pods get a node with it."""
        return ShortFix(
            summary=self.summary,
            owner=OWNERS[self.by],
            but="; ".join(self.drawbacks),
            nodes=self.opens[:3],
            clears=clears,
            commands=self.commands if len(self.commands) <= MOST_FIX_COMMANDS else (),
            costs=self.all_costs,
            rivals=self.rivals[:3],
            rival_count=len(self.rivals),
            also_places=len(self.also_places),
        )


def complete_first(remedies: Iterable[Remedy]) -> tuple[Remedy, ...]:
    """Return the remedies with those that need values last, otherwise in the same order."""
    return tuple(sorted(remedies, key=lambda remedy: bool(remedy.needs_values)))


MOST_FIX_COMMANDS = 4
"""The number of commands that a summary may have for a fix. Of more commands it has none: a part could do harm."""


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
        return (self.pod, f"{self.verdict}{doubt(self.unknown)}:", self.headline + besides)

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
            where = self.scope + doubt(self.unknown) + self._besides
            if not self.elsewhere:
                return ("No pod waits", where)
            wait = agreeing(self.elsewhere, "waits", "wait")
            return ("No pod waits", f"{where}; {counted(self.elsewhere, 'pod')} {wait} in other namespaces")
        number = sum(len(chosen.remedy.kinds) for chosen in self.chosen)
        changes = " with this change" if number == 1 else f" with these {number} changes"
        how = changes if self.chosen else ": nothing was found that helps more"
        get = agreeing(1 if self.waiting == 1 else self.cleared, "gets", "get")
        cleared = f"{self.cleared:,} of {counted(self.waiting, 'waiting pod')} {self.scope} {get} a node"
        return (f"{cleared}{how}{self._besides}{doubt(self.unknown)}",)

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
