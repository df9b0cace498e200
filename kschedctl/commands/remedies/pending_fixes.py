"""Which few changes clear most of the pods that wait? Chosen greedily: each time the one after which fewest wait.

A change is not tried again where it cleared fewer pods before than another clears now: once others are made, it is
taken to clear no more than it would have alone (lazy greedy choice: Minoux, 1978).

What a change does is simulated: all pending pods pass the queue of the cluster with it. The changes that are tried are
the smallest remedies of pods that wait and are alike, what the author changes being changed for all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from msgspec import structs

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.cycle_report import explain_pod
from kschedctl.commands.explain.fixes import find_unheard_extenders, may_be_fixed, run_search
from kschedctl.commands.remedies.report import ChosenRemedy, HelplessPods, RemediesOfMany
from kschedctl.fixes.document import build_remedy
from kschedctl.fixes.impossible import explain_impossible_fixes
from kschedctl.fixes.ranking import RankedFix, build_cost_key
from kschedctl.fixes.rollouts import RolloutResult, Rollouts
from kschedctl.fixes.search import RemedyWishes
from kschedctl.fixes.trial.changes import EditedObject, apply_fixes, build_object_reader
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.trials import Trials, apply_edits_to_cluster
from kschedctl.fixes.ways.new_nodes import more_like
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.settling import SettledCluster, UnexplainedSettling, settle
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.scheduler import Scheduler

TRIED_OF_EACH = 3
GUESSED = 10
"""So many pods a node takes, to guess what to try first."""
MOST_MORE = 64
"""So many nodes are added at most."""
SEARCHED, SIMULATED = 15.0, 30.0
"""So many seconds are searched for remedies and simulated; where that is not enough for all, the answer says so."""
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Alike:
    """Pods of one workload that ask for the same and wait; and what helps one of them."""

    pods: tuple[Pod, ...]
    found: tuple[RankedFix, ...] = ()
    impossible: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Proposal:
    """A remedy of the first of some pods, for all of them; ``hopes``: whom it may help."""

    pods: tuple[Pod, ...]
    remedy: RankedFix
    hopes: frozenset[str]

    @property
    def own(self) -> ObjectKey:
        return ObjectKey.of(self.pods[0])

    def of_nodes(self, count: int) -> Proposal | None:
        """The proposal with so many nodes in the place of one, where it adds one and does nothing else."""
        trial = self.remedy.trial
        if count < 2 or trial.cycle is None or [fix.kind for fix in trial.changes] != ["AddNode"]:
            return None
        model, view = trial.changes[0].edits[0].like, trial.scheduler.view
        fix = more_like(view, view.nodes.objects[view.nodes.index[model]], min(count, MOST_MORE))
        return replace(self, remedy=self.remedy._replace(trial=Trials(trial.scheduler, self.pods[0]).replay((fix,))))


def proposals_of(groups: Iterable[Alike]) -> list[Proposal]:
    """The best remedies of each group; what is no change of the pods themselves is one for all whom it helps."""
    proposals: dict[object, Proposal] = {}
    for group in groups:
        keys = frozenset(pod.key for pod in group.pods)
        for remedy in group.found[:TRIED_OF_EACH]:
            proposal = Proposal(group.pods, remedy, keys)
            fixes = frozenset(remedy.trial.changes)
            shared = proposal.own not in remedy.trial.edits
            name = fixes if shared else (fixes, group.pods[0].key)
            known = proposals.get(name)
            proposals[name] = replace(known, hopes=known.hopes | keys) if known else proposal
    return list(proposals.values())


@dataclass
class GreedyChoice:
    """The choice as it proceeds, of the ``proposals``; ``rest`` is the cluster at rest with those that are chosen.

    ``cleared``: how many pods each proposal cleared when it was last tried. ``outside``: waiting pods that nobody asks
    about, which take part in the queue and do not count.
    """

    cluster: Cluster
    proposals: list[Proposal]
    rest: SettledCluster
    progress: Progress
    call_extender: CallExtender | None = None
    rollouts: Rollouts = field(default_factory=Rollouts)
    chosen: list[tuple[Proposal, Collection[str]]] = field(default_factory=list)
    cleared: dict[Proposal, int] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()
    complete: bool = True
    interrupted: bool = False

    def run(self, most: int, seconds: float) -> None:
        """Choose up to so many changes, each within a share of the time: for the first most have to be tried."""
        begin = time.monotonic()
        for number in range(1, most + 1):
            left = most - sum(len(chosen.remedy.trial.changes) for chosen, _ in self.chosen)
            if (
                not left
                or not self._count(self.rest.waiting)
                or not self._choose(left, begin + seconds * (most + number) / (2 * most))
            ):
                return

    def _choose(self, left: int, until: float) -> bool:
        """Take the proposal of at most so many changes after which fewest pods wait; whether there is one."""
        best: tuple[Proposal, UnexplainedSettling] | None = None
        queue = self._promising(left)
        while queue:
            proposal = queue.pop(0)
            if best and self._known_worse(proposal, *best):
                continue
            if time.monotonic() > until:
                self.complete = False
                break
            after = self._tried(proposal)
            if after.simulation.interrupted:
                self.interrupted, self.complete = True, False
                return False
            self.progress(1)
            cleared = self.cleared[proposal] = self._count(self.rest.waiting) - self._count(after.waiting)
            better = cleared > 0 and (best is None or not self._no_better(proposal, self._count(after.waiting), *best))
            if better and self.rollouts.holds(proposal.remedy.trial):
                best = proposal, after
            if more := self._with_more_nodes(proposal, cleared, after):
                queue.append(more)
        if best is None:
            return False
        self._choose_this(*best)
        return True

    def _with_more_nodes(self, proposal: Proposal, cleared: int, after: UnexplainedSettling) -> Proposal | None:
        """Return the proposal with as many nodes as its pods may need, None if it adds none or was multiplied already.

        If one node clears none of the pods, those outside took it: the nodes have to be enough for them, too.
        """
        if proposal not in self.proposals:
            return None
        needed = self._hoped(proposal)
        if cleared <= 0:
            cleared = len(self.rest.waiting) - len(after.waiting)
            needed += sum(key in self.outside for key in self.rest.waiting)
        return proposal.of_nodes(-(-needed // cleared)) if cleared > 0 else None

    def _count(self, waiting: Iterable[str]) -> int:
        """Return the number of the waiting pods that are asked about, or that wait because of what is chosen."""
        return sum(key not in self.outside for key in waiting)

    def _known_worse(self, proposal: Proposal, best: Proposal, after: UnexplainedSettling) -> bool:
        """Whether, clearing as many as it can at most, it would be no better than the best."""
        waiting = self._count(self.rest.waiting)
        clears = min(self.cleared.get(proposal, waiting), self._reached(proposal))
        return self._no_better(proposal, waiting - clears, best, after)

    def _no_better(self, proposal: Proposal, waiting: int, best: Proposal, after: UnexplainedSettling) -> bool:
        """Return whether a proposal after which so many pods wait is no better than the best."""
        return _worth(proposal, waiting) >= _worth(best, self._count(after.waiting))

    def _reached(self, proposal: Proposal) -> int:
        """How many that wait it can help: who asks for less gets a node, and nobody else does."""
        return self._hoped(proposal) if proposal.own in proposal.remedy.trial.edits else self._count(self.rest.waiting)

    def _choose_this(self, proposal: Proposal, after: UnexplainedSettling) -> None:
        """Add a proposal to the chosen ones, and drop those that would create objects of the same names."""
        rest = after.explain()
        self.chosen.append((proposal, [key for key in self.rest.waiting if key not in rest.waiting]))
        edits = proposal.remedy.trial.edits
        created = {key for key, edit in edits.items() if edit.before is None}
        self.proposals = [
            other
            for other in self.proposals
            if other.remedy.trial.edits != edits and created.isdisjoint(other.remedy.trial.edits)
        ]
        self.rest = rest

    def _tried(self, proposal: Proposal) -> UnexplainedSettling:
        changed = apply_edits_to_cluster(self.cluster, self._edits(proposal), whole=True)
        return UnexplainedSettling.settle(changed, self.call_extender)

    def _hoped(self, proposal: Proposal) -> int:
        """How many of those that it may help still wait."""
        return sum(key in self.rest.waiting for key in proposal.hopes)

    def _promising(self, left: int) -> list[Proposal]:
        """Proposals that may help pods that still wait, those first that cleared most, or else may help most."""
        small = (
            option for option in self.proposals if len(option.remedy.trial.changes) <= left and self._hoped(option)
        )
        return sorted(small, key=lambda option: _worth(option, -self._promise(option)))

    def _promise(self, proposal: Proposal) -> int:
        """How many pods it cleared when it was last tried, or may clear: a node takes only so many."""
        guessed = min(self._hoped(proposal), GUESSED * len(proposal.remedy.trial.opens))
        return self.cleared.get(proposal, guessed)

    def _edits(self, more: Proposal) -> dict[ObjectKey, EditedObject]:
        """What all the chosen and one more change; what is asked of one pod is asked of all alike."""
        edits: dict[ObjectKey, EditedObject] = {}
        for proposal in (*(chosen for chosen, _ in self.chosen), more):
            edits |= edits_for_all(self.cluster, proposal, edits)
        return edits


def _worth(proposal: Proposal, waiting: int) -> tuple[int, Price, float]:
    """The fewer wait afterwards the better, then the cheaper the dearest of its changes, then how much they are."""
    prices, cost = build_cost_key(proposal.remedy.trial.changes)
    return waiting, prices[0], cost


def edits_for_all(
    cluster: Cluster, proposal: Proposal, before: dict[ObjectKey, EditedObject] | None = None
) -> dict[ObjectKey, EditedObject]:
    """What the proposal changes, after what is changed ``before``."""
    known, read = before or {}, build_object_reader(cluster)
    own = proposal.own
    fixes = proposal.remedy.trial.changes
    changed = apply_fixes(fixes, lambda key: known[key].after if key in known else read(key))
    edits = {
        key: edit._replace(before=known[key].before if key in known else edit.before)
        for key, edit in changed.items()
        if key != own
    }
    if own in changed:
        for pod in proposal.pods:
            after: Pod = pod
            for edit in (edit for fix in fixes for edit in fix.edits if edit.key == own):
                now = edit.change(after)
                assert isinstance(now, Pod)
                after = now
            edits[ObjectKey.of(pod)] = EditedObject(pod, after)
    return edits


def remedies_of_many(
    cluster: Cluster,
    keys: Collection[str],
    scope: str,
    wishes: RemedyWishes = RemedyWishes(smallest=True),
    progress: Progress = lambda _: None,
    *,
    call_extender: CallExtender | None = None,
) -> RemediesOfMany:
    """Up to ``wishes.max_changes`` remedies for the pods of these keys, ``namespace/name``; ``scope``: in words."""
    first = settle(cluster, call_extender=call_extender)
    scheduler = Scheduler(first.cluster, call_extender)
    groups = _alike(scheduler, [key for key in first.waiting if key in keys and not first.interrupted])
    searched_until = time.monotonic() + SEARCHED
    helped = [_helped(scheduler, group, wishes, progress) for group in groups if time.monotonic() < searched_until]
    outside = frozenset(first.waiting).difference(keys)
    choice = GreedyChoice(cluster, proposals_of(helped), first, progress, call_extender, outside=outside)
    choice.run(wishes.max_changes, SIMULATED)
    waiting = [key for key in first.waiting if key in keys]
    unknown = merge_unknown_kinds(
        (first.unknown, choice.rest.unknown, find_unheard_extenders(entry.remedy for entry, _ in choice.chosen))
    )
    return RemediesOfMany(
        scope=scope,
        waiting=len(waiting),
        cleared=sum(key not in choice.rest.waiting for key in waiting),
        chosen=tuple(
            _chosen(proposal, cleared, outside, cluster, choice.rollouts.replay(proposal.remedy.trial))
            for proposal, cleared in choice.chosen
        ),
        left=tuple(_left([*helped, *groups[len(helped) :]], choice.rest)),
        complete=choice.complete and len(helped) == len(groups),
        interrupted=first.interrupted or choice.interrupted,
        **build_cluster_basis(unknown, scheduler),
    )


def _alike(scheduler: Scheduler, keys: Iterable[str]) -> list[Alike]:
    """The pods by workload and what they ask for, the most first."""
    columns = scheduler.view.pods
    alike: dict[object, list[Pod]] = {}
    for key in keys:
        position = columns.index[key]
        pod = columns.objects[position]
        alike.setdefault((find_owner(pod), int(columns.info[position])), []).append(pod)
    return [Alike(tuple(pods)) for pods in sorted(alike.values(), key=len, reverse=True)]


def _helped(scheduler: Scheduler, group: Alike, wishes: RemedyWishes, progress: Progress) -> Alike:
    """The pods with what helps the first of them."""
    asked = TargetPod(scheduler, scheduler.view.stored(group.pods[0]))
    if not may_be_fixed(explain_pod(scheduler, asked.pod, nodes=False), asked):
        return group
    search, best = run_search(asked, wishes)
    progress(1)
    return replace(group, found=tuple(best), impossible=explain_impossible_fixes(search))


def _chosen(
    proposal: Proposal,
    cleared: Collection[str],
    outside: Collection[str],
    cluster: Cluster,
    rolled: RolloutResult | None,
) -> ChosenRemedy:
    """Build the report of a chosen remedy, with the changes of all the pods that it is for."""
    trial = proposal.remedy.trial
    everywhere = edits_for_all(cluster, proposal)
    remedy = build_remedy(proposal.remedy, proposal.own, edits=everywhere, rollout=rolled)
    others = tuple(sorted(key for key in cleared if key in outside))
    workloads = dict.fromkeys(str(find_owner(pod)) for pod in proposal.pods) if proposal.own in trial.edits else {}
    clears = tuple(sorted(key for key in cleared if key not in outside))
    return ChosenRemedy(structs.replace(remedy, also_places=others), clears, tuple(workloads))


def _left(groups: Iterable[Alike], rest: SettledCluster) -> Iterable[HelplessPods]:
    for group in groups:
        waiting = tuple(pod.key for pod in group.pods if pod.key in rest.waiting)
        if waiting:
            yield HelplessPods(waiting, str(find_owner(group.pods[0])), rest.waiting[waiting[0]], group.impossible)
