"""The report of `make-room`: apiVersion kschedctl.dev/v1, kind MakeRoom."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kschedctl.api.resource_names import PODS, format_amounts_for_sentence
from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.placements import PoolChange
from kschedctl.reports.report import Report
from kschedctl.reports.summary import CostKind, FixCost, ShortFix, ShortPods, Summary
from kschedctl.reports.unknown import UnknownKind, describe_doubt
from kschedctl.text.counts import agreeing, counted, first_few, join_first_few, join_words


class PodMove(Document, frozen=True):
    """A pod to evict, with the node where kube-scheduler puts its replacement."""

    pod: Annotated[str, Column("evict", keep=True)]
    workload: Annotated[str, Column(narrow=True)]
    source: Annotated[str, Column("from", keep=True, beneath="from")]
    target: Annotated[str, Column("to", keep=True, beneath="to")]
    tied: Annotated[int, Column("equally good", show_above=1, form="")] = 1
    """The number of equally good nodes. The plan was replayed with several choices among them."""
    others: Annotated[tuple[str, ...], Column("or to")] = ()
    """The nodes of the replacement in other replays."""
    priority: Annotated[int, Column("priority", right=True)] = 0
    budgets: Annotated[tuple[str, ...], Column("PDBs")] = ()
    """PodDisruptionBudgets that select the pod and allow its eviction at this step."""
    loses: Annotated[str, Column("loses")] = ""
    """The data that is lost when the pod moves."""
    is_only_pod: bool = False
    """True if no other pod of the workload has a node, so that none runs until the replacement does."""

    @property
    def outage_sentence(self) -> str:
        """A sentence that says that the workload has no running pod for a while, or "" if it keeps one."""
        if not self.is_only_pod:
            return ""
        return f"{self.workload} has no running pod until the replacement of {self.pod} runs"

    def describe(self) -> str:
        """Describe the move for a comment: the pod with its nodes, and what is lost or interrupted."""
        text = f"{self.pod} is evicted from {self.source} and recreated on {self.target}"
        if self.loses:
            text += f", which loses {self.loses}"
        if self.is_only_pod:
            text += f" ({self.workload} has no running pod until then)"
        return text


class PlacedPod(Document, frozen=True):
    """A pod that fits in the end, and its node."""

    pod: Annotated[str, Column(keep=True)]
    node: Annotated[str, Column(keep=True)]


class FragmentedResource(Document, frozen=True):
    """A resource that is free in total, but not on a single node."""

    resource: str
    requested: int
    free: int
    """The free amount on all nodes that the pod may use."""
    on_one: int
    """The largest free amount on one of these nodes."""
    nodes: int
    """The number of these nodes with a free amount."""


class ResourceShortage(Document, frozen=True):
    """A resource of which the pods need more than any moves can free on the nodes that they may use."""

    resource: str
    needed: int
    """The amount that the pods request together."""
    free: int
    """The free amount on these nodes."""
    freed_by_moves: int
    """The amount that pods request there that may move to other nodes. It is an upper bound."""
    nodes: int
    """The number of these nodes."""
    pods: int
    """The number of pods that may run on no other nodes."""
    largest_request: int
    """The most that one of these pods requests."""
    example: str
    """The first of these pods."""
    largest_nodes: tuple[str, ...]
    """The node of each zone that offers most of the resource, the largest first."""
    on_largest_node: int
    """The allocatable amount on the first of them."""

    @property
    def obtainable(self) -> int:
        """The largest amount that can be free for the pods."""
        return self.free + self.freed_by_moves

    def describe(self, all_pods: int, placed_first: int = 0) -> str:
        """Describe how much the pods need and how much can be free.

        `all_pods` is the number of pods for which room is made, of which `self.pods` need the resource on these nodes.
        `placed_first` is the number of other waiting pods that got nodes before the free amount was counted.
        """
        amounts = format_amounts_for_sentence(self.resource, self.needed, self.free, self.freed_by_moves)
        (needed, free, freed_by_moves), unit = amounts
        suffix = amounts.unit_suffix
        if self.resource == PODS:
            unit = "places for pods"
        if all_pods == 1:
            subject = "it"
        elif self.pods == all_pods:
            subject = f"the {all_pods:,} pods"
        else:
            subject = f"{self.pods:,} of the {all_pods:,} pods"
        need, it_may = ("needs", "it may") if self.pods == 1 else ("need", "they may")
        nodes = agreeing(self.nodes, "node", f"{self.nodes:,} nodes")
        moves = (
            f", and moves to other nodes can free at most {freed_by_moves}{suffix} more" if self.freed_by_moves else ""
        )
        others = counted(placed_first, "other waiting pod gets its node", "other waiting pods get their nodes")
        after = f" after {others}" if placed_first else ""
        free_on_nodes = f"with only {free}{suffix} free on the {nodes} that {it_may} use{after}"
        return f"{subject} {need} {needed} {unit}, {free_on_nodes}{moves}"


class ProposedNodes(Document, frozen=True):
    """New nodes that the pods need if moves cannot make room for them."""

    like: tuple[str, ...]
    """The nodes that the new nodes copy."""
    count: int
    """The number of copies of each of these nodes."""
    enough: bool = True
    """True if a replay shows that all pods fit without moves. Otherwise, the number is a lower bound."""

    def describe(self, pods: int) -> str:
        """Describe the new nodes and whether they are enough, such as "with 2 more nodes like n1, it fits"."""
        each = "each of " if len(self.like) > 1 else ""
        nodes = f"{counted(self.count, 'more node')} like {each}{join_words(self.like)}"
        if not self.enough:
            return f"at least {nodes} {agreeing(self.count, 'is', 'are')} needed"
        return f"with {nodes}, {agreeing(pods, 'it fits', 'all of them fit')} without moves"


LARGEST_MAX_MOVES = 3
"""The largest number of moves per pod that a search tries. With more, too many plans would have to be replayed."""


class HeldPods(Document, frozen=True):
    """The number of pods that may not be moved for one reason."""

    why: Annotated[str, Column("reason")]
    pods: Annotated[int, Column("pods")]


class SearchedPlans(Document, frozen=True):
    """The extent of a search for plans."""

    max_moves: int
    """The maximum number of moves per pod."""
    plans: int
    """The number of plans that were replayed from beginning to end."""
    nodes: int
    """The number of nodes on which the last pod would fit without the pods that may be moved."""
    movable: int
    """The number of pods that may be moved."""
    complete: bool = True
    """True if no plan can have been missed. It is always false for several pods."""
    timed_out: bool = False
    """True if the search ended at its limit: a number of replays or, if one was given, the time limit."""
    pod: str = ""
    """The last pod for which plans were searched."""
    seconds: float | None = None
    """The time limit of the search for all pods, in seconds, if one was given; otherwise, replays are limited."""


class TerminatingRoom(Document, frozen=True):
    """Room for pods that do not fit without moves, once pods that are already terminating are gone."""

    nodes: tuple[str, ...]
    """The nodes with room."""
    pods: tuple[str, ...]
    """The terminating pods."""
    rivals: tuple[str, ...] = ()
    """Other waiting pods that take this room first. If there are none, waiting is enough."""
    overdue: str = ""
    """For how long the first of the pods should have been gone when the cluster was read; empty if unknown."""


class PreemptionMeanwhile(Document, frozen=True):
    """The preemption that a plan would cause before it is done, because it keeps nodes cordoned for a while."""

    pod: str
    """The pod for which room is made. The first eviction wakes it."""
    node: str
    """The node where it preempts."""
    evicted: tuple[str, ...]
    """The pods that it preempts."""
    cordoned: tuple[str, ...]
    """The nodes that are cordoned meanwhile."""

    def describe(self) -> str:
        """Return a clause that says when the pod preempts which pods."""
        are = agreeing(len(self.cordoned), "is", "are")
        evicted = join_first_few(self.evicted)
        return f"while {join_first_few(self.cordoned)} {are} cordoned, it would preempt {evicted} on {self.node}"


class MakeRoom(Report, frozen=True):
    """The moves after which the pods fit. Each move was replayed, and leaves no pod without a node."""

    pods: tuple[str, ...]
    fits: bool
    """True if all pods fit, with the moves if there are any."""
    moves: tuple[PodMove, ...] = ()
    placed: tuple[PlacedPod, ...] = ()
    """The pods with their nodes in the end."""
    also_placed: tuple[PlacedPod, ...] = ()
    """Other waiting pods that get a node as well. The plan has room for them."""
    missing: tuple[str, ...] = ()
    """The pods that do not fit."""
    message: str = ""
    """kube-scheduler's message for the first pod that does not fit."""
    outranking: tuple[str, ...] = ()
    """The moved pods with a higher priority than all pods for which room is made."""
    preempts: tuple[str, ...] = ()
    """Pods that kube-scheduler itself preempts for the first pod as soon as it tries that pod."""
    preemption_meanwhile: PreemptionMeanwhile | None = None
    """The preemption for which the best plan was discarded: moving pods would cost more than it gains."""
    preemptor: str = ""
    """The first pod that does not fit without moves; empty if all pods fit."""
    rivals: tuple[str, ...] = ()
    """Waiting pods of the same workload that kube-scheduler tries before the only pod, so that they take room first."""
    commands: tuple[str, ...] = ()
    """Commands to run in this order, each once the pod evicted before runs again."""
    pools: tuple[PoolChange, ...] = ()
    """Node pools before and after."""
    fragmented: tuple[FragmentedResource, ...] = ()
    placed_first: tuple[PlacedPod, ...] = ()
    """Other waiting pods that fit without moves. What is free is counted after they got these nodes."""
    preempted_first: tuple[str, ...] = ()
    """The pods that kube-scheduler preempts to place `placed_first`."""
    held: tuple[HeldPods, ...] = ()
    """Pods that may not be moved."""
    searched: SearchedPlans | None = None
    """The extent of the search; None if none was needed."""
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    cause: str = ""
    """The cause behind `message`, such as a missing StorageClass; empty if the message says it."""
    terminating_room: TerminatingRoom | None = None
    """The room that terminating pods leave, if it is what the pods need, so that no pod has to move."""
    shortages: tuple[ResourceShortage, ...] = ()
    """Resources of which the pods need more than moves can free, which proves that no moves make room for all pods."""
    new_nodes: ProposedNodes | None = None
    """The new nodes that the pods need, if moves cannot make room for them."""
    not_created: tuple[NotCreated, ...] = ()
    """The workloads of the manifests with pods that admission denies. No room is made for these pods."""
    kind: str = "MakeRoom"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return three texts: the verdict with the number of moves, the pods, and a sentence about these pods."""
        subject = first_few(self.pods)
        doubt = describe_doubt(self.unknown)
        fits = agreeing(len(self.pods), "fits", "fit")
        if self.fits and self.moves:
            wait = ""
            if self.terminating_room:
                wait = f"– but it is enough to wait: {self._describe_room_after_termination(self.terminating_room)}"
            return (f"Moving {counted(len(self.moves), 'pod')} makes room for", f"{subject}{doubt}", wait)
        if self.fits:
            return ("Nothing has to move:", subject, f"{fits} without moves{self._preemptions_clause}{doubt}")
        if self.terminating_room and not self.terminating_room.rivals:
            return (
                "Nothing has to move:",
                subject,
                f"– {self._describe_room_after_termination(self.terminating_room)}{doubt}",
            )
        if self.preemption_meanwhile is not None:
            why = self.preemption_meanwhile.describe()
            return ("No safe plan found for", first_few(self.missing), f"– {why}{doubt}")
        subject = first_few(self.missing)
        verdict, sentence = self._describe_failed_search()
        if self.terminating_room:
            sentence += f"; {self._describe_room_after_termination(self.terminating_room)}"
        return (verdict, subject, f"– {sentence}{doubt}")

    @property
    def _preemptions_clause(self) -> str:
        """A clause that names the pods that have to be preempted before the pods fit, or "" if there are none."""
        if not self.preempted_first:
            return ""
        return f" once kube-scheduler has preempted {join_first_few(self.preempted_first)} for other waiting pods"

    @property
    def headline_names_unread(self) -> bool:
        """Return True, since the headline names the unread kinds."""
        return True

    def _describe_failed_search(self) -> tuple[str, str]:
        """Return the verdict of a search without a plan, and a sentence on why there is none."""
        # A shortage proves that no plan makes room, however many plans were tried
        is_proven = bool(self.shortages) and not self._is_hopeless
        if self.searched and not self.searched.complete and not is_proven:
            return ("No room found yet for", self._describe_incomplete_search(self.searched))
        if self._is_hopeless:
            why = "no node takes it, whichever pods move"
        elif self.shortages:
            scarcest = self.shortages[0]
            why = scarcest.describe(len(self.pods), len(self.placed_first))
            if self.new_nodes:
                why += f"; {self.new_nodes.describe(len(self.pods))}"
        elif self.searched is None:
            why = f"no move makes room for {self._unplaced_pods_text}"
        else:
            most = self.searched.max_moves
            plan = "single move" if most == 1 else f"plan of up to {most:,} moves"
            further = "plans with more moves are not tried"
            if most < LARGEST_MAX_MOVES:
                further = f"--max-moves {LARGEST_MAX_MOVES} tries plans with more moves"
            why = f"no {plan} makes room for {self._unplaced_pods_text}, and {further}"
        return ("No room can be made:", why)

    def _describe_incomplete_search(self, searched: SearchedPlans) -> str:
        """Describe how far a search came that ended before all plans were tried."""
        if searched.plans:
            why = f"no plan tried makes room for {self._unplaced_pods_text}"
        else:
            why = f"no plan of up to {counted(searched.max_moves, 'move')} was found that could make room"
        if self.ended_at_limit:
            limit = "its limit of replays"
            if searched.seconds is not None:
                limit = f"its limit of {searched.seconds:g} {'second' if searched.seconds == 1 else 'seconds'}"
            why = f"the search stopped at {limit}, and {why}"
        return why

    def _describe_room_after_termination(self, room: TerminatingRoom) -> str:
        """Say which nodes take the pods once terminating pods have left, or which other waiting pods get these nodes.

        If the terminating pods are overdue, the sentence says by how long and what to check.
        """
        nodes = first_few(room.nodes)
        departure = counted(len(room.pods), "terminating pod leaves", "terminating pods leave")
        if room.overdue:
            departure += f", overdue by {room.overdue} (check finalizers, and the kubelet of {nodes})"
        condition = f"once {departure}: {first_few(room.pods)}"
        if room.rivals:
            take = agreeing(len(room.rivals), "takes", "take")
            return f"{first_few(room.rivals)} {take} {nodes} first, {condition}"
        take = agreeing(len(room.nodes), "takes", "take")
        pods = agreeing(len(self.pods), "it", "them")
        return f"{nodes} {take} {pods} {condition}"

    @property
    def rivals_sentence(self) -> str:
        """The sentence that other replicas take the room first, or "" if there are none."""
        if not self.rivals:
            return ""
        count = counted(len(self.rivals), "other pod", "other pods")
        takes = agreeing(len(self.rivals), "takes", "take")
        return (
            f"kube-scheduler first tries {count} of the same workload, which {takes} the room: "
            f"{first_few(self.rivals)}; to make room for all of them, name the workload"
        )

    @property
    def _is_hopeless(self) -> bool:
        """True if a single pod fits on no node even without the pods that may be moved."""
        searched = self.searched
        return len(self.pods) == 1 and searched is not None and not (searched.nodes or searched.plans)

    @property
    def ended_at_limit(self) -> bool:
        """True if pods do not fit, and a longer search could find a plan."""
        return not self.fits and not self.shortages and self.searched is not None and self.searched.timed_out

    @property
    def preemption_sentence(self) -> str:
        """The sentence that kube-scheduler preempts pods before the plan is carried out, or "" if it preempts none."""
        if not self.preempts:
            return ""
        pods = counted(len(self.preempts), "pod")
        pod = "this pod" if len(self.pods) == 1 else self.preemptor
        return f"kube-scheduler itself preempts {pods} as soon as it tries {pod}: {first_few(self.preempts)}"

    @property
    def outranking_sentence(self) -> str:
        """The sentence that pods of a higher priority have to move, or "" if none has."""
        if not self.outranking:
            return ""
        have = agreeing(len(self.outranking), "has", "have")
        pods = agreeing(len(self.pods), "the pod that needs", "the pods that need")
        return f"{first_few(self.outranking)} {have} to move, although of a higher priority than {pods} room"

    @property
    def _unplaced_pods_text(self) -> str:
        """The end of the sentence "no plan makes room for …": "it", "any of them", or "more than 2 of the 3 pods"."""
        if len(self.pods) == 1:
            return "it"
        placed = len(self.pods) - len(self.missing)
        return f"more than {placed:,} of the {len(self.pods):,} pods" if placed > 0 else "any of them"

    def describe_pods_not_created(self) -> tuple[str, ...]:
        """Return a sentence for each workload with pods that cannot be created, for which no room is made."""
        return tuple(
            f"no room is made for pods of {denied.workload} that cannot be created: {denied.headline}"
            for denied in self.not_created
        )

    def to_short_fix(self) -> ShortFix:
        """Return all moves as a single fix, with the pods that it evicts and the data that it loses.

        At most three target nodes are named. The fix has no commands, because running only some of them would do harm.
        """
        nodes = tuple(dict.fromkeys(placed.node for placed in self.placed))
        moves = f"move {', '.join(f'{move.pod} from {move.source} to {move.target}' for move in self.moves)}"
        costs: tuple[FixCost, ...] = ()
        if self.moves:
            evicts = "evicts that pod" if len(self.moves) == 1 else f"evicts these {len(self.moves):,} pods"
            losses = (f"{move.pod} loses {move.loses}" for move in self.moves if move.loses)
            costs = (
                FixCost(CostKind.EVICTS, evicts, pods=len(self.moves)),
                *(FixCost(CostKind.LOSES, loss) for loss in losses),
                *(FixCost(CostKind.LOSES, move.outage_sentence) for move in self.moves if move.is_only_pod),
            )
        drawbacks = "; ".join(cost.text for cost in costs)
        return ShortFix(
            summary=moves,
            owner="platform",
            but=drawbacks,
            nodes=nodes[:3],
            clears=len(self.placed),
            costs=costs,
        )

    def extend_summary(self, summary: Summary) -> Summary:
        """Add the verdict, the moves as a single fix, the pods that fit nowhere, and warnings to the summary.

        Warnings say that pods of the manifests cannot be created, that kube-scheduler preempts pods before the plan is
        carried out, or that other replicas get the freed room first.
        """
        missing_pods: tuple[ShortPods, ...] = ()
        if self.missing:
            missing_pods = (ShortPods(pods=len(self.missing), such_as=self.missing[0], workload="", why=self.message),)
        return replace(
            summary,
            subject=", ".join(self.pods),
            verdict="Fits" if self.fits else "NoPlan",
            warnings=(
                *self.describe_pods_not_created(),
                *filter(None, (self.preemption_sentence, self.rivals_sentence, self.outranking_sentence)),
            ),
            fixes=(self.to_short_fix(),) if self.moves else (),
            pods=missing_pods,
            figures={"moves": len(self.moves), "missing": len(self.missing)},
        )
