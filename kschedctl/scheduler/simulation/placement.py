"""The choice of nodes for pods that are placed one after another on a fork of the snapshot.

The answer is that of a full cycle (scheduler/engine/cycle.py) at every step. Answers that identical pods have in common
are cached (scheduler/simulation/alike_pods.py).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from kschedctl.api.arrays import NO_ROW, Bools, Position, Row, Rows, Scores
from kschedctl.scheduler.engine import unsure_nominations
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.dry_run_cache import VictimCache
from kschedctl.scheduler.engine.extenders import is_any_extender_called
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.engine.reserve import uses_claims
from kschedctl.scheduler.engine.sampling import Sampling
from kschedctl.scheduler.framework import PluginError, PreFilterResult
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.queueing.pods_on_nodes import Choice, IncomingPods, Tied
from kschedctl.scheduler.simulation.claim_answers import depends_on_other_nodes
from kschedctl.scheduler.simulation.local_scores import NO_ROWS, LocalScores
from kschedctl.snapshot.delta import NO_CHANGE, Delta
from kschedctl.snapshot.fork import Fork, drop_oldest_if_full
from kschedctl.snapshot.pod_info import PodInfo

if TYPE_CHECKING:
    from kschedctl.scheduler.simulation.alike_pods import AlikePods

CACHED_KINDS = 1024
"""Number of kinds of identical pods whose answers each simulation caches."""
CACHED_KINDS_WHEN_CLOSING = 32 * CACHED_KINDS
"""Number of cached kinds if nodes are closed in turn, when all kinds come repeatedly and need little memory."""
FULL_CYCLES_PER_KIND = 2
"""Number of identical pods that get full cycles before answers are cached for the further ones."""
MAX_FULL_CYCLES_WITH_NODE = 100
"""The number of full cycles that find a node after which no more are run, since most pods seem to fit."""
NODE_DOES_NOT_EXIST = (
    "the best node does not exist: an extender returned it, and kube-scheduler would bind the pod to it"
)
Column = TypeVar("Column", Bools, Scores)
NodeChooser = Callable[[], Choice | None]
"""A function that returns the node for the next copy of a pod, or None if only a full attempt can tell."""


class _LatestCycle(NamedTuple):
    """The cycle in which the latest pod was tried, valid for this pod until a pod moves."""

    position: int
    trail_length: int
    cycle: Cycle


class Placements(IncomingPods):
    """Chooses nodes for the pods of a fork, with ties broken by the seed.

    With `sampling`, only the nodes that upstream examines are searched. Extenders are called for each pod separately.
    """

    def __init__(self, view: Fork, seed: int = 0, sampling: Sampling | None = None) -> None:
        super().__init__(view)
        self.sampling = sampling
        self.random = random.Random(seed)
        self._alike_pods_cache: dict[tuple[FrameworkLike, int | None], AlikePods] = {}
        self._local_scores_cache: dict[tuple[FrameworkLike, int, bool], LocalScores] = {}
        self._columns: dict[bytes, Any] = {}
        self._claim_users: dict[int | None, bool] = {}
        self._expected_counts: dict[int, int] = {}
        """The number of pods with each PodInfo that are about to be placed, as far as they were announced."""
        self._full_cycle_counts: Counter[tuple[FrameworkLike, int | None]] = Counter()
        """The number of pods of each kind that got a full cycle although cached answers would have sufficed."""
        self._full_cycles_with_node = 0
        """The number of these full cycles that found a node."""
        self._latest_cycle: _LatestCycle | None = None
        self._victim_cache = VictimCache()
        self.unheard: dict[Unknown, None] = {}
        """Answers of extenders on which placements depend but that are missing."""
        self._nominated_before = frozenset(view.snapshot.pods.nominated_positions)
        """The pods that were nominated when the snapshot was taken."""
        self._has_unsure_nominations = len(view.unsure_nominations[0]) > 0

    def announce_pods(self, positions: Sequence[Position]) -> None:
        """Announce the pods that are about to be placed, so that answers for many identical pods are prepared at once.

        The placements do not depend on the announcement.
        """
        numbers, counts = np.unique(self.view.pods.info[np.array(positions, np.int64)], return_counts=True)
        self._expected_counts = dict(zip(numbers.tolist(), counts.tolist(), strict=True))

    def choose_node(self, framework: FrameworkLike, position: Position) -> Choice | None:
        """Return the node that the scheduler would choose for a pod now, or None if none is feasible.

        Uncertain nominations that could change the choice are recorded in `unheard`. Raises PluginError if a plugin
        fails.
        """
        choice = self._choose_with_cache(framework, position)
        if choice and self._has_unsure_nominations and not is_any_extender_called(framework.extenders, choice.info.pod):
            unknown = unsure_nominations.find_choice_unknown(choice.info, choice.row, framework, self.view)
            if unknown is not None:
                self.unheard[unknown] = None
        return choice

    def build_node_chooser(self, framework: FrameworkLike, position: Position) -> NodeChooser | None:
        """Return a function that chooses the node of the next copy of a pod as `choose_node` does.

        Return None if copies may get different answers: if the pod has claims or was nominated, if extenders are
        called, or if it is uncertain which pods are nominated. Also return None if a plugin fails.
        """
        info = self.build_arriving_info(position)
        is_nominated = position in self._nominated_before or self.view.get_nominated_row(position) != NO_ROW
        if is_nominated or self._has_unsure_nominations or self._uses_claims_cached(info):
            return None
        if is_any_extender_called(framework.extenders, info.pod):
            return None
        try:
            alike_pods = self.get_alike_pods(framework, info, self.view.pods.get_info_number(position))
            ranking = None if self.sampling or self._has_nominations else alike_pods.build_copy_ranking()
        except PluginError:
            return None

        def choose_node_of_copy() -> Choice | None:
            """Choose a node from cached answers. Return None if no node is feasible or a plugin fails."""
            try:
                best_rows = ranking.find_best_rows() if ranking else None
                tied, feasible = best_rows or alike_pods.find_best_rows(
                    info, self.sampling, self._get_pods_nominated_ahead(info)
                )
            except PluginError:
                return None
            return self._pick_node(info, tied, feasible, pre_filter_results={})

        return choose_node_of_copy

    def _choose_with_cache(self, framework: FrameworkLike, position: Position) -> Choice | None:
        """Choose a node from cached answers if they suffice, otherwise by a full cycle.

        A full cycle is needed if the pod lost its nomination, if extenders are called for it, or if a plugin fails. A
        nominated pod needs a full cycle unless it surely fits on its nominated node. The first pods of a kind get full
        cycles if that is faster. Return None if no node is feasible. Raises PluginError if a plugin fails in the full
        cycle, too.
        """
        info = self.build_arriving_info(position)
        is_nominated = self.view.get_nominated_row(position) != NO_ROW
        lost_nomination = not is_nominated and position in self._nominated_before
        if lost_nomination or is_any_extender_called(framework.extenders, info.pod):
            return self._choose_by_full_cycle(framework, position)
        if self._is_full_cycle_faster(framework, info):
            return self._choose_by_faster_full_cycle(framework, position, info)

        # A plugin's error needs a full cycle, because it would not count on a node that another plugin rejects.
        with suppress(PluginError):
            alike_pods = self.get_alike_pods(framework, info, self.view.pods.get_info_number(position))
            if not is_nominated:
                tied, feasible = alike_pods.find_best_rows(info, self.sampling, self._get_pods_nominated_ahead(info))
                return self._pick_node(info, tied, feasible, alike_pods.claim_pre_filter_results)
            choice = self._choose_nominated_node(alike_pods, position, info)
            if choice is not None:
                return choice
        return self._choose_by_full_cycle(framework, position)

    def _choose_by_faster_full_cycle(
        self, framework: FrameworkLike, position: Position, info: PodInfo
    ) -> Choice | None:
        """Choose a node by a full cycle although cached answers would suffice, and count the cycle.

        Return None if no node is feasible. Raises PluginError if a plugin fails.
        """
        self._full_cycle_counts[framework, info.alike] += 1
        choice = self._choose_by_full_cycle(framework, position, keeps_cycle=True)
        if choice is not None:
            self._full_cycles_with_node += 1
        return choice

    def _choose_nominated_node(self, alike_pods: AlikePods, position: Position, info: PodInfo) -> Choice | None:
        """Choose the pod's nominated node, or return None if it is uncertain whether the pod fits there.

        Raises PluginError if a plugin fails.
        """
        row = self.view.get_nominated_row(position)
        nominated_ahead = self.view.build_nominated_delta_besides(position, info.priority)
        if not alike_pods.is_certain_to_fit(row, nominated_ahead):
            return None
        # The nominated node is tried first, so it is the only feasible node if the pod fits there.
        return Choice(info, row, tied=np.array([row]), feasible=1, claim_results={})

    def _is_full_cycle_faster(self, framework: FrameworkLike, info: PodInfo) -> bool:
        """Return whether a full cycle takes less time than preparing cached answers for identical pods.

        This is assumed for the first FULL_CYCLES_PER_KIND pods of a kind, until MAX_FULL_CYCLES_WITH_NODE full cycles
        have found a node. If such a pod fits nowhere, its cycle also serves the search for victims.

        Return False if a later call for the same pod may need another cycle although no pod has moved: if only some
        nodes are searched, if pods are nominated, or if there are gangs. Also return False if many forks or states of
        the same nodes share cached answers.
        """
        view = self.view
        shares_answers = view.part_of is not None or view.closed is not None
        has_groups = view.group_since is not None or view.gang_history is not None
        if self.sampling or shares_answers or has_groups or self._nominated_before or self._has_nominations:
            return False
        if self._full_cycles_with_node >= MAX_FULL_CYCLES_WITH_NODE:
            return False
        key = framework, info.alike
        return self._full_cycle_counts[key] < FULL_CYCLES_PER_KIND and key not in self._alike_pods_cache

    def find_feasible_mask(self, framework: FrameworkLike, position: Position) -> Bools | None:
        """Return a mask (N,) of the nodes on which a pod fits now.

        Return None if the answer depends on pods on other nodes, if the pod has claims, or if a plugin fails.
        """
        info = self.build_arriving_info(position)
        number = self.view.pods.get_info_number(position)
        try:
            return self.get_alike_pods(framework, info, number).find_feasible_mask()
        except PluginError:
            return None

    def find_locally_feasible_mask(self, framework: FrameworkLike, position: Position) -> Bools:
        """Return a mask (N,) of the nodes that pass the filters which read only the node's own row.

        Raises PluginError if a plugin fails.
        """
        info = self.build_arriving_info(position)
        number = self.view.pods.get_info_number(position)
        local = self._get_local_scores(framework, info, number)
        local.bring_up_to_date(NO_ROWS)
        return np.asarray(local.scores >= 0)

    def score_feasible_rows(self, framework: FrameworkLike, position: Position) -> tuple[Rows, Scores] | None:
        """Return the feasible rows and the pod's total scores there.

        Plugins that score all nodes equally are left out of the totals, because they do not change the order. Return
        None if the pod is or was nominated, or if an extender is called for it. Raises PluginError if a plugin fails.
        """
        info = self.build_arriving_info(position)
        was_nominated = position in self._nominated_before
        is_nominated = self.view.get_nominated_row(position) != NO_ROW
        if was_nominated or is_nominated or is_any_extender_called(framework.extenders, info.pod):
            return None

        info_number = self.view.pods.get_info_number(position)
        alike_pods = self.get_alike_pods(framework, info, info_number)
        return alike_pods.score_feasible_rows(info)

    def get_equivalence_key(self, framework: FrameworkLike, position: Position) -> Hashable:
        """Return a key that is equal for pods that get the same answers in the current state.

        The key is the number of the PodInfo. For pods with claims, it has the plugins' answers about the claims, so
        that the claims' names do not matter. A pod that is or was nominated, or for which extenders are called, gets a
        unique key.
        """
        if position in self._nominated_before or self.view.get_nominated_row(position) != NO_ROW:
            return (position,)
        number = self.view.pods.get_info_number(position)
        info = self.build_arriving_info(position)
        if is_any_extender_called(framework.extenders, info.pod):
            return (position,)
        if not self._uses_claims_cached(info):
            return number
        try:
            claims = self.get_alike_pods(framework, info, number).claims
            claims_key = None if claims is None else claims.build_claims_key(info)
        except PluginError:  # it will fail for each pod of this PodInfo
            return number
        return number if claims_key is None else (info.alike, claims_key)

    def depends_on_other_nodes(self, framework: FrameworkLike, position: Position) -> bool:
        """Return whether a plugin may reject a node for this pod because of pods on other nodes.

        Return False if the pod can never fit on any node, and True if a plugin fails.
        """
        number = self.view.pods.get_info_number(position)
        info = self.build_arriving_info(position)
        cycle = self._find_latest_cycle(position)
        if cycle is not None and cycle.error is None:
            return depends_on_other_nodes(
                framework, info, cycle.pre_filter.results, has_claims=self._uses_claims_cached(info)
            )
        try:
            alike_pods = self.get_alike_pods(framework, info, number)
        except PluginError:
            return True
        return not alike_pods.hopeless and bool(alike_pods.changing_filters)

    def run_cycle(self, framework: FrameworkLike, position: Position, sampling: Sampling | None = None) -> Cycle:
        """Run a pod's full cycle in the current state, which also finds rejection reasons and prepares preemption.

        Nodes closed by a cordon count as cordoned. If the pod's latest cycle was stored and no pod has moved since, the
        stored cycle is returned.
        """
        latest_cycle = self._find_latest_cycle(position)
        if latest_cycle is not None:
            return latest_cycle
        info = self.build_arriving_info(position)
        if self._nominated_before or self._has_nominations:
            info = info.for_pod(self.build_waiting_pod(position))
        closed = self.view.closed
        if closed and closed.cordoned:
            view_with_cordons = self.view.with_changes(self.view.cluster, closed.cordoned)
            return run_cycle(framework, info, view_with_cordons, sampling)
        return replace(run_cycle(framework, info, self.view, sampling), victim_cache=self._victim_cache)

    def _find_latest_cycle(self, position: Position) -> Cycle | None:
        """Return the stored cycle if it is this pod's and no pod has moved since, otherwise None."""
        latest = self._latest_cycle
        if latest and (latest.position, latest.trail_length) == (position, len(self.view.trail)):
            return latest.cycle
        return None

    @property
    def _has_nominations(self) -> bool:
        """True if pods are nominated now."""
        rows, _ = self.view.nominations
        return len(rows) > 0

    def _get_pods_nominated_ahead(self, info: PodInfo) -> Delta:
        """Return the nominated pods that count as placed for this pod, because their priority is not lower."""
        return self.view.get_nominated_delta(info.priority) if self._has_nominations else NO_CHANGE

    def get_alike_pods(self, framework: FrameworkLike, info: PodInfo, number: int) -> AlikePods:
        """Return the answers for pods that differ at most in their claims, from a cache if possible.

        `number` is the number of the PodInfo. If the cache is full, its oldest entries are dropped.
        """
        from kschedctl.scheduler.simulation.alike_pods import AlikePods  # noqa: PLC0415 - only for pods that are alike

        key = framework, info.alike
        alike_pods = self._alike_pods_cache.get(key)
        if alike_pods is None or alike_pods.local.is_outdated:
            max_kinds = CACHED_KINDS if self.view.closed is None else CACHED_KINDS_WHEN_CLOSING
            drop_oldest_if_full(self._alike_pods_cache, max_kinds)
            local = self._get_local_scores(framework, info, number)
            claiming = self._uses_claims_cached(info)
            alike_pods = AlikePods(
                framework,
                info,
                local,
                claiming=claiming,
                shared=self._share_column,
                expected=self._expected_counts.get(number, 0),
            )
            self._alike_pods_cache[key] = alike_pods
        return alike_pods

    def drop_cached_answers(self) -> None:
        """Free the memory of cached answers about identical pods.

        The answers are computed anew if they are needed again.
        """
        self._alike_pods_cache.clear()
        self._local_scores_cache.clear()
        self._columns.clear()

    def _share_column(self, column: Column, /) -> Column:
        """Return an equal column (N,) that was shared earlier, or share and return this column.

        Sharing saves memory, since most kinds of pods fit on the same nodes.
        """
        shared: Column = self._columns.setdefault(column.tobytes(), column)
        return shared

    def _uses_claims_cached(self, info: PodInfo) -> bool:
        """Return whether the pod uses volume claims or device claims, from a cache if possible."""
        claiming = self._claim_users.get(info.alike)
        if claiming is None:
            claiming = self._claim_users[info.alike] = uses_claims(info, self.view)
        return claiming

    def _get_local_scores(self, framework: FrameworkLike, info: PodInfo, number: int) -> LocalScores:
        """Return the local scores for pods with the same requests as `info`, from a cache if possible.

        `number` is the number of the PodInfo. Pods that had a node do not share scores with pods that never had one.
        """
        requests = int(self.view.pods.distinct.demand[number])
        # The incoming PodInfo is the stored one unless the pod had a node, which is taken out of its copy.
        never_had_node = self.get_incoming_info(number) is self.view.pods.infos[number]
        key = (framework, requests, never_had_node)
        local = self._local_scores_cache.get(key)
        if local is None or local.is_outdated:
            drop_oldest_if_full(self._local_scores_cache, CACHED_KINDS)
            local = LocalScores(framework, info, number, view=self.view, key=key)
            self._local_scores_cache[key] = local
        return local

    def _choose_by_full_cycle(
        self, framework: FrameworkLike, position: Position, *, keeps_cycle: bool = False
    ) -> Choice | None:
        """Choose a node by a full cycle of the pod, or return None if no node is feasible.

        If `keeps_cycle` is true, the cycle is stored for later calls. Raises PluginError if a plugin fails.
        """
        cycle = self._run_placing_cycle(framework, position, keeps_cycle=keeps_cycle)
        if cycle.error is not None:
            raise PluginError(cycle.error)
        info = self.build_arriving_info(position)
        return self._pick_node(info, cycle.scores.best, len(cycle.passed.rows), cycle.pre_filter.results)

    def _run_placing_cycle(self, framework: FrameworkLike, position: Position, *, keeps_cycle: bool) -> Cycle:
        """Run the cycle in which a pod is placed.

        With `keeps_cycle`, or if extenders were called, the cycle is stored for later calls. Missing answers of
        extenders are recorded.
        """
        cycle = self.run_cycle(framework, position, self.sampling)
        if keeps_cycle or cycle.consultation.extenders:
            self._latest_cycle = _LatestCycle(position, len(self.view.trail), cycle)
            self.unheard.update(cycle.consultation.unknown)
        return cycle

    def _pick_node(
        self, info: PodInfo, best: Tied, feasible: int, pre_filter_results: Mapping[str, PreFilterResult]
    ) -> Choice | None:
        """Pick one of the best nodes by seeded random choice, or return None if no node is feasible.

        `feasible` is the number of feasible nodes. `pre_filter_results` are passed on with the choice, by plugin.
        Raises PluginError if the node does not exist, which an extender's answer may cause.
        """
        if not feasible:
            return None
        place = self.random.randrange(len(best)) if len(best) > 1 else 0
        row = int(best[place])
        if row == NO_ROW:
            raise PluginError(NODE_DOES_NOT_EXIST)
        return Choice(info, Row(row), best, feasible=feasible, claim_results=pre_filter_results)
