"""Choose the few fixes that clear most waiting pods, greedily: at each step the fix that leaves the fewest waiting.

Fixes that give up a guarantee or lose something are chosen only if no other fix helps any more.

The fixes to choose from are the smallest fixes of each group of similar waiting pods. Changes that the author makes are
made for the whole group. The effect of a fix is simulated: it is applied to the settled cluster, in which the pods
that need no fix have their nodes, and all pods that still wait pass the queue. A fix is not simulated again if it
cleared fewer pods before than another clears now, since it is assumed to clear no more pods after other fixes than
alone (lazy greedy choice: Minoux, 1978).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from msgspec import structs

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.cycle_report import explain_pod
from kschedctl.commands.explain.fixes import find_uncalled_extenders, search_fixes, should_search_fixes
from kschedctl.commands.remedies.report import ChosenRemedy, HelplessPods, RemediesOfMany
from kschedctl.fixes.document import build_remedy, find_author
from kschedctl.fixes.impossible import explain_impossible_fixes
from kschedctl.fixes.ranking import (
    RankedFix,
    Rollouts,
    build_cost_key,
    get_trial_price,
    gives_up_guarantees,
    harms_nobody,
)
from kschedctl.fixes.rollout_results import RolloutResult
from kschedctl.fixes.search import RemedyCriteria, count_affordable_replays
from kschedctl.fixes.trial.changes import EditedObject, Fix, apply_fixes, build_object_reader
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trials import Trials, apply_edits_to_cluster
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.edits import ObjectKey
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pending_pods import find_pending_pods
from kschedctl.replay.settling import SettledCluster, UnexplainedSettling, settle
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import merge_unknown_kinds
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.scheduler import Scheduler

MAX_FIXES_PER_GROUP = 3
"""The maximum number of fixes that are tried for each group of similar pods."""
GUESSED_PODS_PER_NODE = 10
"""The guessed number of pods that one node takes, by which the first change to try is chosen."""
MAX_ADDED_NODES = 64
"""The maximum number of nodes that one change adds."""
SEARCH_BUDGET = 10_000
"""The replays that the searches of all groups may cost: about 15 seconds. The report says if they were not enough."""
SIMULATION_BUDGET = 15_000
"""The cost of all simulations of the greedy choice: about 30 seconds. The report says if they were not enough."""


@dataclass(frozen=True)
class SimilarWaitingPods:
    """Waiting pods of one workload with equal requests, and the fixes found for the first pod."""

    pods: tuple[Pod, ...]
    fixes: tuple[RankedFix, ...] = ()
    impossible: tuple[str, ...] = ()
    """The reasons why kinds of fixes cannot exist."""
    replays: int = 1
    """The number of cycles that were replayed to find the fixes."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A fix found for the first of some pods, to be made for all of them."""

    pods: tuple[Pod, ...]
    fix: RankedFix
    may_help: frozenset[str]
    """Keys of the pods that the fix may help, which are more than `pods` if the fix was merged from several groups."""

    @property
    def key(self) -> ObjectKey:
        """The key of the pod for which the fix was found."""
        return ObjectKey.of(self.pods[0])

    @property
    def special_nodes(self) -> int:
        """The number of added nodes that only some pods need."""
        if all(fix.needs_special_node is None for fix in self.fix.trial.changes):
            return 0
        return self.added_nodes

    @property
    def added_nodes(self) -> int:
        """The number of added nodes."""
        return sum(key.kind == "Node" and edit.before is None for key, edit in self.fix.trial.edits.items())

    def replay_with_node_count(self, count: int) -> Proposal | None:
        """Replay the fix with `count` added nodes instead of one, and return the resulting proposal.

        At most MAX_ADDED_NODES nodes are added. Return None if the count is less than 2, if the fix does anything but
        add a node, or if no scheduling cycle was replayed because no profile serves the pod or admission denies it.
        """
        trial = self.fix.trial
        is_only_adding_node = [fix.kind for fix in trial.changes] == [FixKind.ADD_NODE]
        if count < 2 or not is_only_adding_node or trial.cycle is None:
            return None
        build_multiplied_fix = trial.changes[0].with_node_count
        assert build_multiplied_fix is not None  # all fixes of this kind have the function
        multiplied_fix = build_multiplied_fix(min(count, MAX_ADDED_NODES))
        target_pod = self.pods[0]  # the pod for which the fix was found
        multiplied_trial = Trials(trial.scheduler, target_pod).replay_changes((multiplied_fix,))
        return replace(self, fix=self.fix._replace(trial=multiplied_trial))


def merge_group_proposals(groups: Iterable[SimilarWaitingPods]) -> list[Proposal]:
    """Return proposals for the best fixes of each group, at most MAX_FIXES_PER_GROUP for a group.

    Equal fixes of several groups become one proposal. Fixes that change pods are merged only within a workload, whose
    pods have one template. The merged proposal then changes the pods of all these groups.
    """
    proposals: dict[object, Proposal] = {}
    for group in groups:
        keys = frozenset(pod.key for pod in group.pods)
        for fix in group.fixes[:MAX_FIXES_PER_GROUP]:
            proposal = Proposal(group.pods, fix, keys)
            changes = frozenset(fix.trial.changes)
            changes_pods = proposal.key in fix.trial.edits
            identity = (changes, find_owner(group.pods[0])) if changes_pods else changes
            earlier = proposals.setdefault(identity, proposal)
            if earlier is not proposal:
                pods = (*earlier.pods, *group.pods) if changes_pods else earlier.pods
                proposals[identity] = replace(earlier, pods=pods, may_help=earlier.may_help | keys)
    return list(proposals.values())


class ChosenProposal(NamedTuple):
    """A proposal that was chosen, with the keys of the pods that it cleared."""

    proposal: Proposal
    cleared: Collection[str]

    @property
    def changes(self) -> frozenset[Fix]:
        """The changes of the proposal as a set."""
        return frozenset(self.proposal.fix.trial.changes)


@dataclass
class GreedyChoice:
    """A greedy choice among proposals, and its state."""

    cluster: Cluster
    """The settled cluster without any proposal, in which the fixes were found."""
    proposals: list[Proposal]
    settled: SettledCluster
    """The settled cluster with the chosen proposals applied."""
    advance: Callable[[int], None]
    """Called with 1 for each proposal that is simulated."""
    progress: Progress = NO_PROGRESS
    call_extender: CallExtender | None = None
    rollouts: Rollouts = field(default_factory=Rollouts)
    chosen: list[ChosenProposal] = field(default_factory=list)
    cleared: dict[Proposal, int] = field(default_factory=dict)
    """The number of pods that each proposal cleared when it was last tried."""
    fruitless: set[frozenset[Fix]] = field(default_factory=set)
    """The changes of proposals that placed none of the pods for which they were found when they were last tried."""
    simulations: int = 0
    """The number of simulated proposals."""
    other_waiting_pods: frozenset[str] = frozenset()
    """Waiting pods that take part in the queue but are not the pods to help."""
    complete: bool = True
    timed_out: bool = False
    interrupted: bool = False

    def choose_proposals(self, max_changes: int, max_simulations: int, deadline: float) -> None:
        """Choose proposals that together have at most `max_changes` changes, in at most `max_simulations` simulations.

        The choice ends early if no relevant pod waits, if no proposal helps, or at the deadline by the monotonic clock.
        If the user interrupts, the proposals chosen so far remain. The first choice gets the largest share of the
        simulations, because it has the most proposals to try.
        """
        for number in range(1, max_changes + 1):
            remaining_changes = max_changes - sum(len(chosen.proposal.fix.trial.changes) for chosen in self.chosen)
            if not remaining_changes or not self._count_relevant_pods(self.settled.waiting):
                return
            # The first choice may take a bit more than half of the simulations, and each further one an equal share.
            # With N changes, choice K ends after (N + K) / 2N of them.
            simulation_limit = max_simulations * (max_changes + number) // (2 * max_changes)
            try:
                if not self._choose_next_proposal(remaining_changes, simulation_limit, deadline):
                    return
            except KeyboardInterrupt:
                self.interrupted = True
                self.complete = False
                return

    def _choose_next_proposal(self, remaining_changes: int, simulation_limit: int, deadline: float) -> bool:
        """Choose the harmless proposal of at most `remaining_changes` changes that leaves the fewest pods waiting.

        Return whether a proposal was chosen. Proposals that cannot be better than the best one so far are not
        simulated. A proposal that adds a node is also tried with several nodes. If only some pods need the added nodes,
        the proposal is chosen only if at least as many of these pods stop waiting as it adds nodes. The choice is not
        `complete` if the simulations or the time is used up. Raises KeyboardInterrupt if the user interrupts.
        """
        best: tuple[Proposal, UnexplainedSettling] | None = None  # with the cluster after the proposal
        queue = self._rank_promising_proposals(remaining_changes)
        on_considered = self.progress.begin("simulating remedies", len(queue))
        while queue:
            on_considered(1)
            proposal = queue.pop(0)
            if best and self._cannot_be_better(proposal, *best):
                continue
            self.timed_out = self.timed_out or time.monotonic() > deadline
            if self.timed_out or self.simulations >= simulation_limit:
                self.complete = False
                break
            after = self._settle_with_proposal(proposal)
            self.simulations += 1
            if after.simulation.interrupted:
                raise KeyboardInterrupt
            self.advance(1)

            # Remember the proposal if it is the best so far, and try it with more nodes as well.
            cleared, helped = self._record_effect(proposal, after)
            is_worthwhile = cleared > 0 and helped >= proposal.special_nodes
            if is_worthwhile and self._is_new_best(proposal, after, best):
                best = proposal, after
            if proposal.special_nodes and not helped:
                continue  # more nodes of this kind would be taken by pods that do not need them
            larger_proposal = self._raise_node_count(proposal, cleared, after)
            if larger_proposal is not None:
                queue.append(larger_proposal)
        if best is None:
            return False
        self._add_chosen_proposal(*self._reduce_node_count(*best, simulation_limit, deadline))
        return True

    def _reduce_node_count(
        self, proposal: Proposal, after: UnexplainedSettling, simulation_limit: int, deadline: float
    ) -> tuple[Proposal, UnexplainedSettling]:
        """Return the proposal with the fewest added nodes that leave no more pods waiting, and the cluster after it.

        `after` is the cluster after the proposal. The number of nodes was estimated from the pods that a single node
        clears, and is reduced by bisection. A proposal with one added node is returned unchanged. The choice is not
        `complete` if the simulations or the time is used up. Raises KeyboardInterrupt if the user interrupts.
        """
        too_few = 1  # the largest count that is known not to be enough
        enough = proposal.added_nodes  # the smallest count that is known to be enough
        waiting = self._count_relevant_pods(after.waiting)
        while enough - too_few > 1:
            self.timed_out = self.timed_out or time.monotonic() > deadline
            if self.timed_out or self.simulations >= simulation_limit:
                self.complete = False
                break
            count = (too_few + enough) // 2
            smaller_proposal = proposal.replay_with_node_count(count)
            if smaller_proposal is None:
                break
            after_smaller = self._settle_with_proposal(smaller_proposal)
            self.simulations += 1
            if after_smaller.simulation.interrupted:
                raise KeyboardInterrupt
            self.advance(1)
            if self._count_relevant_pods(after_smaller.waiting) > waiting:
                too_few = count
                continue
            enough = count
            proposal, after = smaller_proposal, after_smaller
            self._record_effect(proposal, after)
        return proposal, after

    def _record_effect(self, proposal: Proposal, after: UnexplainedSettling) -> tuple[int, int]:
        """Record a proposal's effect, and return how many relevant pods and how many pods in `may_help` it clears.

        `after` is the cluster after the proposal, in which cleared pods no longer wait. If no pod in `may_help` is
        cleared, the proposal is fruitless.
        """
        cleared = self._count_relevant_pods(self.settled.waiting) - self._count_relevant_pods(after.waiting)
        self.cleared[proposal] = cleared
        helped = sum(key in self.settled.waiting and key not in after.waiting for key in proposal.may_help)
        if not helped:
            self.fruitless.add(frozenset(proposal.fix.trial.changes))
        return cleared, helped

    def _is_new_best(
        self, proposal: Proposal, after: UnexplainedSettling, best: tuple[Proposal, UnexplainedSettling] | None
    ) -> bool:
        """Return whether the proposal is harmless and better than the best one so far. `after` is its result."""
        if best is not None and self._is_no_better(proposal, self._count_relevant_pods(after.waiting), *best):
            return False
        return self.rollouts.is_harmless(proposal.fix.trial)

    def _raise_node_count(self, proposal: Proposal, cleared: int, after: UnexplainedSettling) -> Proposal | None:
        """Return a one-node proposal with enough nodes for all pods it may help, or None if more nodes are of no use.

        More nodes are of no use if the proposal already has several, or if one node is enough or takes no pods.
        `cleared` is the number of relevant pods that one node clears. If it is 0, other pods took the node `after` the
        proposal, and the returned proposal has enough nodes for these pods as well.
        """
        has_several_nodes = proposal not in self.proposals  # the original proposals add at most one
        if has_several_nodes:
            return None
        pods_in_need = self._count_waiting_pods_to_help(proposal)
        pods_per_node = cleared
        if cleared <= 0:  # other pods took the node
            pods_per_node = len(self.settled.waiting) - len(after.waiting)
            pods_in_need += sum(key in self.other_waiting_pods for key in self.settled.waiting)
        if pods_per_node <= 0:
            return None
        return proposal.replay_with_node_count(ceil(pods_in_need / pods_per_node))

    def _count_relevant_pods(self, waiting: Iterable[str]) -> int:
        """Count the pods with these keys that are to be helped, and the pods that the chosen fixes displace."""
        return sum(key not in self.other_waiting_pods for key in waiting)

    def _cannot_be_better(self, proposal: Proposal, best: Proposal, after: UnexplainedSettling) -> bool:
        """Return whether the proposal cannot be better than the best one, even if it clears as many pods as possible.

        `after` is the cluster after the best proposal.
        """
        waiting = self._count_relevant_pods(self.settled.waiting)
        max_cleared = min(self.cleared.get(proposal, waiting), self._count_reachable_pods(proposal))
        return self._is_no_better(proposal, waiting - max_cleared, best, after)

    def _is_no_better(self, proposal: Proposal, waiting: int, best: Proposal, after: UnexplainedSettling) -> bool:
        """Return whether a proposal that leaves `waiting` pods is no better than the best one.

        `after` is the cluster after the best proposal.
        """
        best_rank = _get_proposal_sort_key(best, self._count_relevant_pods(after.waiting))
        return _get_proposal_sort_key(proposal, waiting) >= best_rank

    def _count_reachable_pods(self, proposal: Proposal) -> int:
        """Return the maximum number of waiting pods that the proposal can help.

        A proposal that changes pods only helps these pods. Any other proposal may help all relevant pods.
        """
        if proposal.key in proposal.fix.trial.edits:
            return self._count_waiting_pods_to_help(proposal)
        return self._count_relevant_pods(self.settled.waiting)

    def _add_chosen_proposal(self, proposal: Proposal, after: UnexplainedSettling) -> None:
        """Add a proposal to the chosen ones, with the pods that it clears, and continue from the cluster `after` it.

        Remaining proposals are dropped if they have the same edits, or if they would edit an object that the chosen one
        creates.
        """
        settled = after.explain()
        cleared = [key for key in self.settled.waiting if key not in settled.waiting]
        self.chosen.append(ChosenProposal(proposal, cleared))
        edits = proposal.fix.trial.edits
        created_keys = {key for key, edit in edits.items() if edit.before is None}
        self.proposals = [
            remaining
            for remaining in self.proposals
            if remaining.fix.trial.edits != edits and created_keys.isdisjoint(remaining.fix.trial.edits)
        ]
        self.settled = settled

    def _settle_with_proposal(self, proposal: Proposal) -> UnexplainedSettling:
        """Settle the cluster with the chosen proposals and this proposal applied."""
        changed = apply_edits_to_cluster(self.cluster, self._collect_edits(proposal), with_pods_and_nodes=True)
        return UnexplainedSettling.settle(changed, self.call_extender)

    def count_cleared_pods(self, changes: frozenset[Fix]) -> int | None:
        """Return how many pods these changes cleared when they were last tried, or None if they were not tried."""
        numbers = (number for proposal, number in self.cleared.items() if set(proposal.fix.trial.changes) == changes)
        return max(numbers, default=None)

    def _count_waiting_pods_to_help(self, proposal: Proposal) -> int:
        """Count the pods that the proposal may help and that still wait."""
        return sum(key in self.settled.waiting for key in proposal.may_help)

    def _rank_promising_proposals(self, remaining_changes: int) -> list[Proposal]:
        """Return the proposals that may help waiting pods. Those expected to clear the most pods come first.

        Only proposals with at most `remaining_changes` changes are included.
        """
        promising_proposals = [
            proposal
            for proposal in self.proposals
            if len(proposal.fix.trial.changes) <= remaining_changes and self._count_waiting_pods_to_help(proposal)
        ]

        def build_sort_key(proposal: Proposal) -> _ProposalRank:
            """Return the rank of the proposal. Clearing many pods ranks like leaving few pods waiting."""
            return _get_proposal_sort_key(proposal, waiting=-self._estimate_cleared_pods(proposal))

        return sorted(promising_proposals, key=build_sort_key)

    def _estimate_cleared_pods(self, proposal: Proposal) -> int:
        """Return how many pods the proposal cleared when it was last tried, or a guess from the number of nodes."""
        if proposal in self.cleared:
            return self.cleared[proposal]
        guess = GUESSED_PODS_PER_NODE * len(proposal.fix.trial.feasible_or_nominated_nodes)
        return min(self._count_waiting_pods_to_help(proposal), guess)

    def _collect_edits(self, next_proposal: Proposal) -> dict[ObjectKey, EditedObject]:
        """Return the edits of all chosen proposals and of `next_proposal`, by object key.

        The edit of a pod is applied to all pods of its group.
        """
        edits: dict[ObjectKey, EditedObject] = {}
        proposals = [*(chosen.proposal for chosen in self.chosen), next_proposal]
        for proposal in proposals:
            edits |= build_edits_for_all_pods(self.cluster, proposal, edits)
        return edits


class _ProposalRank(NamedTuple):
    """The sort key of a proposal, smallest for the best. Earlier fields decide before later ones."""

    gives_up_guarantees: bool
    waiting: int
    """The number of pods that wait afterwards."""
    price: Price
    """The price of the dearest change."""
    cost: float


def _get_proposal_sort_key(proposal: Proposal, waiting: int) -> _ProposalRank:
    """Return the sort key of a proposal after which `waiting` pods wait."""
    prices, cost = build_cost_key(proposal.fix.trial.changes)
    return _ProposalRank(gives_up_guarantees(proposal.fix.trial), waiting, prices[0], cost)


def build_edits_for_all_pods(
    cluster: Cluster, proposal: Proposal, earlier_edits: Mapping[ObjectKey, EditedObject] = MappingProxyType({})
) -> dict[ObjectKey, EditedObject]:
    """Return the proposal's edits, with the edit of its first pod applied to all of its pods.

    The proposal is applied to the objects as `earlier_edits` left them. The field `before` of each returned edit is
    still the object in the cluster.
    """
    read_from_cluster = build_object_reader(cluster)

    def read(key: ObjectKey) -> Struct | None:
        """Return the object as the earlier edits left it, or None if it does not exist."""
        return earlier_edits[key].after if key in earlier_edits else read_from_cluster(key)

    # Edit objects other than the pods.
    fixes = proposal.fix.trial.changes
    edits = apply_fixes(fixes, read)
    for key in edits.keys() & earlier_edits.keys():
        edits[key] = edits[key]._replace(before=earlier_edits[key].before)

    # Edit all pods like the first one.
    if edits.pop(proposal.key, None) is not None:
        pod_changes = [edit.change for fix in fixes for edit in fix.edits if edit.key == proposal.key]
        for pod in proposal.pods:
            after: Pod = pod
            for change in pod_changes:
                changed_pod = change(after)
                assert isinstance(changed_pod, Pod)
                after = changed_pod
            edits[ObjectKey.of(pod)] = EditedObject(pod, after)
    return edits


def find_remedies_of_many(
    cluster: Cluster,
    keys: Collection[str],
    scope: str,
    criteria: RemedyCriteria = RemedyCriteria(smallest=True),
    advance: Callable[[int], None] = lambda _: None,
    *,
    progress: Progress = NO_PROGRESS,
    call_extender: CallExtender | None = None,
    manifest_by_pod: Mapping[str, Struct] | None = None,
) -> RemediesOfMany:
    """Find up to `criteria.max_changes` changes that clear most of the waiting pods with these keys (`namespace/name`).

    `scope` describes the pods in words. `advance` is called for each searched group and for each simulated fix.
    `manifest_by_pod` has the manifests of pods that do not exist yet, by the pods' keys. The report says if the
    search was cut short or the user interrupted.
    """
    deadline = time.monotonic() + criteria.seconds
    initial = settle(cluster, call_extender=call_extender)
    scheduler = Scheduler(initial.cluster, call_extender)
    waiting = [key for key in initial.waiting if key in keys]
    pending_keys = {pod.key for pod in find_pending_pods(cluster, namespace=None)}.intersection(keys)

    # Find the fixes of each group, as far as the replays suffice.
    groups = [] if initial.interrupted else _group_similar_pods(scheduler, waiting)
    nodes = len(scheduler.view.nodes)
    max_replays = count_affordable_replays(SEARCH_BUDGET, nodes)
    on_searched = progress.begin("searching remedies", len(groups))
    searched_groups: list[SimilarWaitingPods] = []
    interrupted = initial.interrupted
    try:
        for searched_group in _iter_searched_groups(
            scheduler, groups, criteria, advance, deadline=deadline, max_replays=max_replays
        ):
            searched_groups.append(searched_group)  # one by one, so that an interruption leaves the earlier ones
            on_searched(1)
    except KeyboardInterrupt:
        interrupted = True
    groups_without_search = groups[len(searched_groups) :]

    # Choose among these fixes by simulation.
    other_waiting_pods = frozenset(initial.waiting).difference(keys)
    proposals = merge_group_proposals(searched_groups)
    choice = GreedyChoice(
        initial.cluster,
        proposals,
        settled=initial,
        advance=advance,
        progress=progress,
        call_extender=call_extender,
        other_waiting_pods=other_waiting_pods,
    )
    if not interrupted:
        choice.choose_proposals(criteria.max_changes, _count_affordable_simulations(len(groups), nodes), deadline)

    is_complete = choice.complete and not groups_without_search
    manifests = manifest_by_pod or {}

    # A later change can displace a pod that an earlier one cleared, and can place a pod that an earlier one evicted.
    placed = set(initial.waiting).difference(choice.settled.waiting)

    # Pods that end with a failed Job neither wait nor get a node
    ended = pending_keys.intersection(pod for job in initial.failed_jobs for pod in job.pods)

    uncalled_extenders = find_uncalled_extenders(chosen.proposal.fix for chosen in choice.chosen)
    unknown = merge_unknown_kinds((initial.unknown, choice.settled.unknown, uncalled_extenders))
    return RemediesOfMany(
        scope=scope,
        waiting=len(waiting),
        fitting=0 if initial.interrupted else len(pending_keys) - len(waiting) - len(ended),
        ended=tuple(sorted(ended)),
        preempted=tuple(dict.fromkeys(initial.evicted)),
        failed_jobs=initial.failed_jobs,
        cleared=len(placed.intersection(waiting)),
        chosen=tuple(
            _build_chosen_remedy(
                chosen.proposal,
                placed.intersection(chosen.cleared),
                other_waiting_pods,
                initial.cluster,
                choice.rollouts.replay(chosen.proposal.fix.trial),
                manifest=manifests.get(chosen.proposal.pods[0].key),
            )
            for chosen in choice.chosen
        ),
        left=tuple(_iter_helpless_pods([*searched_groups, *groups_without_search], choice, initial, manifests)),
        max_changes=criteria.max_changes,
        complete=is_complete,
        stopped_after=criteria.seconds if not is_complete and time.monotonic() > deadline else 0,
        interrupted=interrupted or choice.interrupted,
        **build_cluster_basis(unknown, scheduler),
    )


def _group_similar_pods(scheduler: Scheduler, keys: Iterable[str]) -> list[SimilarWaitingPods]:
    """Group the pods with these keys by their workload and PodInfo, the largest groups first."""
    columns = scheduler.view.pods
    groups: dict[object, list[Pod]] = {}
    for key in keys:
        position = columns.index[key]
        pod = columns.objects[position]
        workload_and_info = find_owner(pod), int(columns.info[position])
        groups.setdefault(workload_and_info, []).append(pod)
    return [SimilarWaitingPods(tuple(pods)) for pods in sorted(groups.values(), key=len, reverse=True)]


def _count_affordable_simulations(groups: int, nodes: int) -> int:
    """Return the maximum number of simulations for the greedy choice.

    The more groups of similar waiting pods and the more nodes there are, the fewer simulations are affordable.
    """
    return SIMULATION_BUDGET // (10 + groups * (1000 + nodes) // 1000)


def _iter_searched_groups(
    scheduler: Scheduler,
    groups: Iterable[SimilarWaitingPods],
    criteria: RemedyCriteria,
    advance: Callable[[int], None],
    *,
    deadline: float,
    max_replays: int,
) -> Iterator[SimilarWaitingPods]:
    """Yield the groups with their fixes, as `_find_group_fixes` returns them.

    No further group is searched after the deadline, or after at least `max_replays` replays.
    """
    replays = 0
    for group in groups:
        if time.monotonic() >= deadline or replays >= max_replays:
            return
        searched_group = _find_group_fixes(scheduler, group, criteria, advance, deadline)
        replays += searched_group.replays
        yield searched_group


def _find_group_fixes(
    scheduler: Scheduler,
    group: SimilarWaitingPods,
    criteria: RemedyCriteria,
    advance: Callable[[int], None],
    deadline: float,
) -> SimilarWaitingPods:
    """Search for fixes of the group's first pod, and return the group with these fixes.

    The group is returned unchanged if no change can help the pod. `advance` is called with 1 after a search, and
    `deadline` is a time of the monotonic clock. Raises KeyboardInterrupt if the user interrupts.
    """
    target = TargetPod(scheduler, scheduler.view.build_stored_pod(group.pods[0]))
    if not should_search_fixes(explain_pod(scheduler, target.pod, nodes=False), target):
        return group
    search, ranked_fixes = search_fixes(target, criteria, deadline=deadline)
    if search.interrupted:
        raise KeyboardInterrupt
    advance(1)
    replays = 1 + search.trials.replayed
    return replace(group, fixes=tuple(ranked_fixes), impossible=explain_impossible_fixes(search), replays=replays)


def _build_chosen_remedy(
    proposal: Proposal,
    cleared: Collection[str],
    other_waiting_pods: Collection[str],
    cluster: Cluster,
    rollout: RolloutResult | None,
    *,
    manifest: Struct | None,
) -> ChosenRemedy:
    """Build the report about a chosen remedy, with the changes of all pods that it changes.

    `cleared` has the keys of the pods that get a node with the remedy. `other_waiting_pods` are not among the pods to
    help, so the report lists them separately. `rollout` is the replayed rollout, or None if there was none. `manifest`
    creates the proposal's pods, and is None if they exist.
    """
    trial = proposal.fix.trial
    # A change of the pod template in the manifest changes all pods, so that only existing pods are changed one by one.
    all_edits = build_edits_for_all_pods(cluster, proposal) if manifest is None else None
    remedy = build_remedy(proposal.fix, proposal.key, manifest, edits=all_edits, rollout=rollout)
    also_placed = tuple(sorted(key for key in cleared if key in other_waiting_pods))
    changes_pods = proposal.key in trial.edits
    workloads = dict.fromkeys(str(find_author(pod, manifest)) for pod in proposal.pods) if changes_pods else {}
    clears = tuple(sorted(key for key in cleared if key not in other_waiting_pods))
    return ChosenRemedy(structs.replace(remedy, also_places=also_placed), clears, tuple(workloads))


def _iter_helpless_pods(
    groups: Iterable[SimilarWaitingPods],
    choice: GreedyChoice,
    initial: SettledCluster,
    manifest_by_pod: Mapping[str, Struct],
) -> Iterable[HelplessPods]:
    """Yield the pods of each group that still wait with the chosen proposals, with kube-scheduler's message.

    The message is about the `initial` cluster, which lacks the nodes that the proposals add. The best fix of the group
    is named if it is harmless and was not chosen. `manifest_by_pod` has the manifests of pods that do not exist yet.
    """
    helpless_groups = []
    wanted: Counter[frozenset[Fix]] = Counter()  # the changes of a fix -> the number of pods that need it
    for group in groups:
        waiting = tuple(pod.key for pod in group.pods if pod.key in choice.settled.waiting)
        if not waiting:
            continue
        unchosen_fix = _find_harmless_unchosen_fix(group, choice)
        helpless_groups.append((group, waiting, unchosen_fix))
        if unchosen_fix is not None:
            wanted[frozenset(unchosen_fix.trial.changes)] += len(waiting)

    for group, waiting, unchosen_fix in helpless_groups:
        first_pod = group.pods[0]
        helpless = HelplessPods(
            waiting,
            workload=str(find_author(first_pod, manifest_by_pod.get(first_pod.key))),
            message=initial.waiting[waiting[0]],
            impossible=group.impossible,
        )
        if unchosen_fix is not None:
            changes = frozenset(unchosen_fix.trial.changes)
            # A fix that changes pods concerns only this workload, whereas other workloads may need other fixes as well
            changes_pods = ObjectKey.of(first_pod) in unchosen_fix.trial.edits
            helpless = structs.replace(
                helpless,
                alone=build_remedy(unchosen_fix, ObjectKey.of(first_pod)).summary,
                alone_is_taken=changes in choice.fruitless,
                alone_clears=None if changes_pods else choice.count_cleared_pods(changes),
                alone_wanted=len(waiting) if changes_pods else wanted[changes],
            )
        yield helpless


def _find_harmless_unchosen_fix(group: SimilarWaitingPods, choice: GreedyChoice) -> RankedFix | None:
    """Return the group's best fix, or None if there is none, if it was chosen, or if it harms other pods."""
    best_fix = _choose_best_fix(group, choice.fruitless)
    if best_fix is None:
        return None
    is_chosen = any(frozenset(best_fix.trial.changes) == chosen.changes for chosen in choice.chosen)
    is_harmless = harms_nobody(best_fix.trial) and choice.rollouts.is_harmless(best_fix.trial)
    return best_fix if is_harmless and not is_chosen else None


def _choose_best_fix(group: SimilarWaitingPods, fruitless: Collection[frozenset[Fix]]) -> RankedFix | None:
    """Return the group's best fix. If it is `fruitless`, prefer the next fix of no higher price that is not.

    If all such fixes are `fruitless`, return the best fix. Return None if the group has no fixes.
    """
    if not group.fixes:
        return None
    best_fix = group.fixes[0]
    highest_price = get_trial_price(best_fix.trial)
    fruitful_fixes = (fix for fix in group.fixes if frozenset(fix.trial.changes) not in fruitless)
    return next((fix for fix in fruitful_fixes if get_trial_price(fix.trial) <= highest_price), best_fix)
