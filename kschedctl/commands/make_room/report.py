"""Room made for pods that fit nowhere, as a document: apiVersion kschedctl.dev/v1, kind MakeRoom."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.fix_costs import CostKind, FixCost
from kschedctl.reports.pool_change import PoolChange
from kschedctl.reports.report import Report
from kschedctl.reports.summary import ShortFix, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, doubt
from kschedctl.text.counts import counted, first_few


class PodMove(Document, frozen=True):
    """A pod that is evicted, and where kube-scheduler puts the one that its controller makes instead.

    ``tied``: how many nodes are equally good; the plan was replayed with several choices among them. ``others``: where
    it went in other replays, by such a choice, as pods that wait were tried before it, or as the evicted pod still
    terminated. ``budgets``: those that select
    it, which allow the eviction at this step. ``loses``: what does not come along.
    """

    pod: Annotated[str, Column("evict", keep=True)]
    workload: Annotated[str, Column(narrow=True)]
    source: Annotated[str, Column("from", keep=True, beneath="from")]
    target: Annotated[str, Column("goes to", keep=True, beneath="to")]
    tied: Annotated[int, Column("equally good", above=1, form="")] = 1
    others: Annotated[tuple[str, ...], Column("or to")] = ()
    priority: Annotated[int, Column("priority", right=True)] = 0
    budgets: Annotated[tuple[str, ...], Column("budgets")] = ()
    loses: Annotated[str, Column("loses")] = ""


class PlacedPod(Document, frozen=True):
    """A pod that fits in the end, and where."""

    pod: Annotated[str, Column(keep=True)]
    node: Annotated[str, Column(keep=True)]


class FragmentedResource(Document, frozen=True):
    """``free``: how much of a resource the nodes together have left that the pod may use, the most ``on_one`` of them;
    so many ``nodes`` have some of it left.
    """

    resource: str
    requested: int
    free: int
    on_one: int
    nodes: int


class HeldPods(Document, frozen=True):
    """How many pods may not be moved, and why."""

    why: Annotated[str, Column("why")]
    pods: Annotated[int, Column("pods")]


class SearchedPlans(Document, frozen=True):
    """The extent of a search for plans."""

    max_moves: int
    """Moves per pod, at most."""
    plans: int
    """Plans that were replayed from beginning to end."""
    nodes: int
    """Nodes on which the last pod would fit without the pods that may be moved."""
    movable: int
    """Pods that may be moved."""
    complete: bool = True
    """True if no plan can have been missed. Always False for several pods."""
    timed_out: bool = False
    """True if the search ran out of time."""


class MakeRoom(Report, frozen=True):
    """The moves, in their order, after which the pods fit: each was replayed, and leaves nobody without a node.

    ``fits``: all the pods do, without moves where there are none. ``placed``: where, in the end; ``also_placed``: other
    pods that wait and may take the room, so that the plan has some for them, too; ``missing``: those that do not fit,
    and kube-scheduler's ``message`` for the first. ``preempts``: whom kube-scheduler itself evicts for
    the first pod as soon as it tries it. ``commands``: to be typed in this order, each once the pod that was evicted
    before runs again. ``pools``: before and after. ``held``: pods that may not be moved.
    ``searched``: None where nothing had to be. ``cause``: what is behind ``message``, such as a StorageClass that does
    not exist, empty if the message says it.
    """

    pods: tuple[str, ...]
    fits: bool
    moves: tuple[PodMove, ...] = ()
    placed: tuple[PlacedPod, ...] = ()
    also_placed: tuple[PlacedPod, ...] = ()
    missing: tuple[str, ...] = ()
    message: str = ""
    preempts: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    pools: tuple[PoolChange, ...] = ()
    fragmented: tuple[FragmentedResource, ...] = ()
    held: tuple[HeldPods, ...] = ()
    searched: SearchedPlans | None = None
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    cause: str = ""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "MakeRoom"

    def first_line(self) -> tuple[str, ...]:
        """Whether room can be made, with how many moves."""
        moves = counted(len(self.moves), "pod")
        subject = first_few(self.pods)
        if self.fits:
            verdict = f"Move {moves}:" if self.moves else "Nothing has to move:"
            suffix = "– fits then" if len(self.pods) == 1 else "– fit then"
            if not self.moves:
                suffix = "– fits as it is" if len(self.pods) == 1 else "– fit as it is"
            return (verdict, subject, f"{suffix}{doubt(self.unknown)}")
        most = f"{counted(self.searched.max_moves, 'move')} or fewer" if self.searched else "moves"
        if self.searched and not self.searched.complete:
            return (
                "No room found:",
                subject,
                f"– of the plans tried none lets {self._whoever} fit{doubt(self.unknown)}",
            )
        lets = "single move lets" if self.searched and self.searched.max_moves == 1 else f"{most} let"
        return ("No room can be made:", subject, f"– no {lets} {self._whoever} fit{doubt(self.unknown)}")

    @property
    def _whoever(self) -> str:
        return "it" if len(self.pods) == 1 else f"{len(self.missing):,} of them"

    def shortened(self) -> ShortFix:
        """All the moves as one fix; its commands are many, and a part of them would do harm."""
        nodes = tuple(dict.fromkeys(placed.node for placed in self.placed))
        moves = f"move {', '.join(f'{move.pod} from {move.source}' for move in self.moves)}"
        evicted = f"evicts {counted(len(self.moves), 'pod')}"
        costs = (FixCost(CostKind.EVICTS, evicted, len(self.moves)),) if self.moves else ()
        but = evicted if self.moves else ""
        return ShortFix(moves, "platform", but=but, nodes=nodes[:3], clears=len(self.placed), costs=costs)

    def summarized(self, summary: Summary) -> Summary:
        """With the moves as one fix, or the pods that fit nowhere."""
        left = (ShortPods(len(self.missing), self.missing[0], "", self.message),) if self.missing else ()
        return replace(
            summary,
            subject=", ".join(self.pods),
            verdict="Fits" if self.fits else "NoPlan",
            fixes=(self.shortened(),) if self.moves else (),
            pods=left,
            figures={"moves": len(self.moves), "missing": len(self.missing)},
        )
