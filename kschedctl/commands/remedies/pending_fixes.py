"""The greedy choice of the few changes that clear most waiting pods: at each step, the change that leaves the fewest.

A change is not tried again if it cleared fewer pods before than another clears now: a change is assumed to clear no
more pods after others are made than alone (lazy greedy choice: Minoux, 1978). The effect of a change is simulated: all
pending pods pass the queue of the cluster with it. The changes to try are the smallest fixes of groups of similar
waiting pods. Changes that the author makes are made for the whole group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from msgspec import structs

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.cycle_report import explain_pod
from kschedctl.commands.explain.fixes import find_uncalled_extenders, search_fixes, should_search_fixes
from kschedctl.commands.remedies.report import ChosenRemedy, HelplessPods, RemediesOfMany
from kschedctl.fixes.document import build_remedy
from kschedctl.fixes.impossible import explain_impossible_fixes
from kschedctl.fixes.ranking import RankedFix, build_cost_key
from kschedctl.fixes.rollouts import RolloutResult, Rollouts
from kschedctl.fixes.search import RemedyWishes
from kschedctl.fixes.trial.changes import EditedObject, apply_fixes, build_object_reader
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trials import Trials, apply_edits_to_cluster
from kschedctl.fixes.ways.new_nodes import build_added_nodes_fix
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.edits import ObjectKey
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
SEARCH_SECONDS = 15.0
"""The time for the search for remedies of all groups. The report says if it was not enough."""
SIMULATION_SECONDS = 30.0
"""The time for the greedy choice. The report says if it was not enough."""
Progress = Callable[[int], None]


@dataclass(frozen=True)
class SimilarWaitingPods:
    """Waiting pods of one workload with equal requests, and the fixes of the first of them."""

    pods: tuple[Pod, ...]
    fixes: tuple[RankedFix, ...] = ()
    impossible: tuple[str, ...] = ()
    """The reasons why kinds of fixes cannot exist."""


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

    def with_node_count(self, count: int) -> Proposal | None:
        """Replay the proposal with `count` nodes, at most MAX_ADDED_NODES, instead of one.

        Return None if the count is less than 2, or if the proposal does more than add a node.
        """
        trial = self.fix.trial
        if count < 2 or trial.cycle is None or [fix.kind for fix in trial.changes] != [FixKind.ADD_NODE]:
            return None
        (adding_fix,) = trial.changes
        node_edit = adding_fix.edits[0]
        view = trial.scheduler.view
        model = view.nodes.objects[view.nodes.index[node_edit.like]]
        multiplied_fix = build_added_nodes_fix(view, model, min(count, MAX_ADDED_NODES))
        multiplied_trial = Trials(trial.scheduler, self.pods[0]).replay((multiplied_fix,))
        return replace(self, fix=self.fix._replace(trial=multiplied_trial))


def merge_group_proposals(groups: Iterable[SimilarWaitingPods]) -> list[Proposal]:
    """Return the best fixes of each group, merging equal fixes that do not change the pods themselves."""
    proposals: dict[object, Proposal] = {}
    for group in groups:
        keys = frozenset(pod.key for pod in group.pods)
        for remedy in group.fixes[:MAX_FIXES_PER_GROUP]:
            proposal = Proposal(group.pods, remedy, keys)
            fixes = frozenset(remedy.trial.changes)
            changes_pods = proposal.key in remedy.trial.edits
            name = (fixes, group.pods[0].key) if changes_pods else fixes
            if name in proposals:
                merged_keys = proposals[name].may_help | keys
                proposals[name] = replace(proposals[name], may_help=merged_keys)
            else:
                proposals[name] = proposal
    return list(proposals.values())


@dataclass
class GreedyChoice:
    """A greedy choice among proposals, and its state."""

    cluster: Cluster
    proposals: list[Proposal]
    settled: SettledCluster
    """The settled cluster with the chosen proposals applied."""
    progress: Progress
    call_extender: CallExtender | None = None
    rollouts: Rollouts = field(default_factory=Rollouts)
    chosen: list[tuple[Proposal, Collection[str]]] = field(default_factory=list)
    """The chosen proposals, each with the keys of the pods that it cleared."""
    cleared: dict[Proposal, int] = field(default_factory=dict)
    """The number of pods that each proposal cleared when it was last tried."""
    outside: frozenset[str] = frozenset()
    """Waiting pods that take part in the queue but are not the pods to help."""
    complete: bool = True
    interrupted: bool = False

    def run(self, max_changes: int, seconds: float) -> None:
        """Choose up to `max_changes` changes within the time.

        The first choice, which has the most to try, gets the largest share of the time.
        """
        begin = time.monotonic()
        for number in range(1, max_changes + 1):
            remaining_changes = max_changes - sum(len(chosen.fix.trial.changes) for chosen, _ in self.chosen)
            if not remaining_changes or not self._count_relevant(self.settled.waiting):
                return
            # The first choice may take a bit more than half of the time, and each further one an equal share.
            deadline = begin + seconds * (max_changes + number) / (2 * max_changes)
            if not self._choose_next(remaining_changes, deadline):
                return

    def _choose_next(self, remaining_changes: int, deadline: float) -> bool:
        """Choose the proposal, of at most `remaining_changes` changes, that leaves the fewest pods waiting.

        Return whether one was chosen. Proposals that cannot be better than the best so far are not simulated.
        """
        best: tuple[Proposal, UnexplainedSettling] | None = None
        queue = self._rank_promising_proposals(remaining_changes)
        while queue:
            proposal = queue.pop(0)
            if best and self._cannot_be_better(proposal, *best):
                continue
            if time.monotonic() > deadline:
                self.complete = False
                break
            after = self._simulate(proposal)
            if after.simulation.interrupted:
                self.interrupted = True
                self.complete = False
                return False
            self.progress(1)

            waiting_after = self._count_relevant(after.waiting)
            cleared = self._count_relevant(self.settled.waiting) - waiting_after
            self.cleared[proposal] = cleared
            is_better = cleared > 0 and (best is None or not self._is_no_better(proposal, waiting_after, *best))
            if is_better and self.rollouts.is_harmless(proposal.fix.trial):
                best = proposal, after
            multiplied = self._multiply_nodes(proposal, cleared, after)
            if multiplied is not None:
                queue.append(multiplied)
        if best is None:
            return False
        self._add_chosen(*best)
        return True

    def _multiply_nodes(self, proposal: Proposal, cleared: int, after: UnexplainedSettling) -> Proposal | None:
        """Return the proposal with as many nodes as its pods may need, or None if it cannot be multiplied.

        If one node clears none of the pods, pods outside took it, so the nodes have to suffice for those pods, too.
        """
        if proposal not in self.proposals:
            return None  # it has several nodes already
        pods_in_need = self._count_hopeful_pods(proposal)
        if cleared <= 0:
            cleared = len(self.settled.waiting) - len(after.waiting)
            pods_in_need += sum(key in self.outside for key in self.settled.waiting)
        if cleared <= 0:
            return None
        node_count = -(-pods_in_need // cleared)  # rounded up
        return proposal.with_node_count(node_count)

    def _count_relevant(self, waiting: Iterable[str]) -> int:
        """Count the waiting pods to help, including those that the chosen fixes displace."""
        return sum(key not in self.outside for key in waiting)

    def _cannot_be_better(self, proposal: Proposal, best: Proposal, after: UnexplainedSettling) -> bool:
        """Return whether the proposal cannot beat the best one, even if it clears as many pods as possible."""
        waiting = self._count_relevant(self.settled.waiting)
        max_cleared = min(self.cleared.get(proposal, waiting), self._count_reachable(proposal))
        return self._is_no_better(proposal, waiting - max_cleared, best, after)

    def _is_no_better(self, proposal: Proposal, waiting: int, best: Proposal, after: UnexplainedSettling) -> bool:
        """Return whether a proposal that leaves `waiting` pods is no better than the best one, which leaves `after`."""
        return _build_proposal_rank(proposal, waiting) >= _build_proposal_rank(
            best, self._count_relevant(after.waiting)
        )

    def _count_reachable(self, proposal: Proposal) -> int:
        """Return the maximum number of waiting pods that the proposal can help.

        A changed request helps only the pods whose request changes.
        """
        if proposal.key in proposal.fix.trial.edits:
            return self._count_hopeful_pods(proposal)
        return self._count_relevant(self.settled.waiting)

    def _add_chosen(self, proposal: Proposal, after: UnexplainedSettling) -> None:
        """Add a proposal to the chosen ones, and drop proposals that would create objects with the same names."""
        settled = after.explain()
        self.chosen.append((proposal, [key for key in self.settled.waiting if key not in settled.waiting]))
        edits = proposal.fix.trial.edits
        created_keys = {key for key, edit in edits.items() if edit.before is None}
        self.proposals = [
            remaining
            for remaining in self.proposals
            if remaining.fix.trial.edits != edits and created_keys.isdisjoint(remaining.fix.trial.edits)
        ]
        self.settled = settled

    def _simulate(self, proposal: Proposal) -> UnexplainedSettling:
        """Return the settled cluster with the chosen proposals and this one."""
        changed = apply_edits_to_cluster(self.cluster, self._collect_edits(proposal), with_pods_and_nodes=True)
        return UnexplainedSettling.settle(changed, self.call_extender)

    def _count_hopeful_pods(self, proposal: Proposal) -> int:
        """Count the pods that still wait and that the proposal may help."""
        return sum(key in self.settled.waiting for key in proposal.may_help)

    def _rank_promising_proposals(self, remaining_changes: int) -> list[Proposal]:
        """Return the proposals that may help waiting pods, those expected to clear the most first.

        Only proposals with at most `remaining_changes` changes are included.
        """
        promising_proposals = [
            proposal
            for proposal in self.proposals
            if len(proposal.fix.trial.changes) <= remaining_changes and self._count_hopeful_pods(proposal)
        ]

        def build_sort_key(proposal: Proposal) -> tuple[int, Price, float]:
            """Return the rank of the proposal, by the pods that it probably clears instead of those that it leaves."""
            return _build_proposal_rank(proposal, waiting=-self._estimate_cleared(proposal))

        return sorted(promising_proposals, key=build_sort_key)

    def _estimate_cleared(self, proposal: Proposal) -> int:
        """Return the number of pods the proposal cleared when last tried, or a guess from the nodes it opens."""
        if proposal in self.cleared:
            return self.cleared[proposal]
        return min(self._count_hopeful_pods(proposal), GUESSED_PODS_PER_NODE * len(proposal.fix.trial.opens))

    def _collect_edits(self, next_proposal: Proposal) -> dict[ObjectKey, EditedObject]:
        """Return the edits of all chosen proposals and one more, each made for all pods of its group."""
        edits: dict[ObjectKey, EditedObject] = {}
        proposals = [*(proposal for proposal, _ in self.chosen), next_proposal]
        for proposal in proposals:
            edits |= build_edits_for_all_pods(self.cluster, proposal, edits)
        return edits


def _build_proposal_rank(proposal: Proposal, waiting: int) -> tuple[int, Price, float]:
    """Return the sort key of a proposal: waiting pods afterwards, then price, then cost."""
    prices, cost = build_cost_key(proposal.fix.trial.changes)
    return waiting, prices[0], cost


def build_edits_for_all_pods(
    cluster: Cluster, proposal: Proposal, before: dict[ObjectKey, EditedObject] | None = None
) -> dict[ObjectKey, EditedObject]:
    """Return the proposal's edits, with the edit of its first pod made for all of its pods.

    The edits come on top of the edits made `before`, but compare objects with the cluster.
    """
    earlier_edits = before or {}
    read_from_cluster = build_object_reader(cluster)

    def read(key: ObjectKey) -> Struct | None:
        """Return the object as the earlier edits left it."""
        return earlier_edits[key].after if key in earlier_edits else read_from_cluster(key)

    fixes = proposal.fix.trial.changes
    edits = apply_fixes(fixes, read)
    for key in edits.keys() & earlier_edits.keys():
        edits[key] = edits[key]._replace(before=earlier_edits[key].before)

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
    wishes: RemedyWishes = RemedyWishes(smallest=True),
    progress: Progress = lambda _: None,
    *,
    call_extender: CallExtender | None = None,
) -> RemediesOfMany:
    """Return up to `wishes.max_changes` remedies for the pods with these keys (`namespace/name`).

    `scope` describes the pods as text. `progress` is called for each group that is searched and each change that is
    simulated.
    """
    initial = settle(cluster, call_extender=call_extender)
    scheduler = Scheduler(initial.cluster, call_extender)
    waiting = [key for key in initial.waiting if key in keys]

    # Find the fixes of each group, as far as the time suffices.
    groups = [] if initial.interrupted else _group_similar_pods(scheduler, waiting)
    deadline = time.monotonic() + SEARCH_SECONDS
    searched_groups = [
        _find_group_fixes(scheduler, group, wishes, progress) for group in groups if time.monotonic() < deadline
    ]
    groups_without_search = groups[len(searched_groups) :]

    # Choose among these fixes by simulation.
    outside = frozenset(initial.waiting).difference(keys)
    proposals = merge_group_proposals(searched_groups)
    choice = GreedyChoice(cluster, proposals, initial, progress, call_extender, outside=outside)
    choice.run(wishes.max_changes, SIMULATION_SECONDS)

    # A later change can displace a pod that an earlier one cleared, and can place a pod that an earlier one evicted.
    placed = set(initial.waiting).difference(choice.settled.waiting)

    uncalled_extenders = find_uncalled_extenders(proposal.fix for proposal, _ in choice.chosen)
    unknown = merge_unknown_kinds((initial.unknown, choice.settled.unknown, uncalled_extenders))
    return RemediesOfMany(
        scope=scope,
        waiting=len(waiting),
        cleared=len(placed.intersection(waiting)),
        chosen=tuple(
            _build_chosen_remedy(
                proposal, placed.intersection(cleared), outside, cluster, choice.rollouts.replay(proposal.fix.trial)
            )
            for proposal, cleared in choice.chosen
        ),
        left=tuple(_iter_helpless_pods([*searched_groups, *groups_without_search], choice.settled)),
        complete=choice.complete and not groups_without_search,
        interrupted=initial.interrupted or choice.interrupted,
        **build_cluster_basis(unknown, scheduler),
    )


def _group_similar_pods(scheduler: Scheduler, keys: Iterable[str]) -> list[SimilarWaitingPods]:
    """Group the pods by workload and requests, the largest groups first."""
    columns = scheduler.view.pods
    groups: dict[object, list[Pod]] = {}
    for key in keys:
        position = columns.index[key]
        pod = columns.objects[position]
        name = find_owner(pod), int(columns.info[position])
        groups.setdefault(name, []).append(pod)
    return [SimilarWaitingPods(tuple(pods)) for pods in sorted(groups.values(), key=len, reverse=True)]


def _find_group_fixes(
    scheduler: Scheduler, group: SimilarWaitingPods, wishes: RemedyWishes, progress: Progress
) -> SimilarWaitingPods:
    """Return the group with the fixes of its first pod, or as it is if no change can help that pod."""
    target = TargetPod(scheduler, scheduler.view.stored(group.pods[0]))
    if not should_search_fixes(explain_pod(scheduler, target.pod, nodes=False), target):
        return group
    search, best = search_fixes(target, wishes)
    progress(1)
    return replace(group, fixes=tuple(best), impossible=explain_impossible_fixes(search))


def _build_chosen_remedy(
    proposal: Proposal,
    cleared: Collection[str],
    outside: Collection[str],
    cluster: Cluster,
    rollout: RolloutResult | None,
) -> ChosenRemedy:
    """Build the report about a chosen remedy, with the changes to all pods that it is for."""
    trial = proposal.fix.trial
    all_edits = build_edits_for_all_pods(cluster, proposal)
    remedy = build_remedy(proposal.fix, proposal.key, edits=all_edits, rollout=rollout)
    outside_pods = tuple(sorted(key for key in cleared if key in outside))
    changes_pods = proposal.key in trial.edits
    workloads = dict.fromkeys(str(find_owner(pod)) for pod in proposal.pods) if changes_pods else {}
    clears = tuple(sorted(key for key in cleared if key not in outside))
    return ChosenRemedy(structs.replace(remedy, also_places=outside_pods), clears, tuple(workloads))


def _iter_helpless_pods(groups: Iterable[SimilarWaitingPods], settled: SettledCluster) -> Iterable[HelplessPods]:
    """Yield the groups' pods that still wait in the settled cluster, with the scheduler's message."""
    for group in groups:
        waiting = tuple(pod.key for pod in group.pods if pod.key in settled.waiting)
        if waiting:
            yield HelplessPods(waiting, str(find_owner(group.pods[0])), settled.waiting[waiting[0]], group.impossible)
