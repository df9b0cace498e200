"""The descheduler plugins RemovePodsViolatingNodeTaints and RemovePodsViolatingNodeAffinity.

Upstream: pkg/framework/plugins/removepodsviolatingnodetaints and removepodsviolatingnodeaffinity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.node_selector import NodeSelectorError, compile_preferred_terms
from kschedctl.api.objects import NodeAffinity, Pod, Taint
from kschedctl.api.tolerations import find_untolerated_taint
from kschedctl.descheduling.arguments import (
    PREFERRED,
    REQUIRED,
    RemovePodsViolatingNodeAffinityArgs,
    RemovePodsViolatingNodeTaintsArgs,
)
from kschedctl.descheduling.plugin import DeschedulerPlugin


class RemovePodsViolatingNodeTaints(DeschedulerPlugin[RemovePodsViolatingNodeTaintsArgs]):
    """A plugin that evicts pods that do not tolerate the taints of their node.

    Only taints with the effect NoSchedule and, if configured, PreferNoSchedule are considered.
    """

    name = "RemovePodsViolatingNodeTaints"

    def run(self) -> None:
        """Evict the pods that do not tolerate a considered taint of their node."""
        selected = self.seen.select_matching_infos(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.find_evictable_pods(selected)
        self.evict_node_by_node(positions[self._find_pods_violating_taints(positions)].tolist())

    def _find_pods_violating_taints(self, positions: Rows) -> Bools:
        """Return a mask of the pods at these positions that do not tolerate every considered taint of their node."""
        taint_sets, taint_set_of_node = self.view.nodes.taint_sets
        considered_taints = [[taint for taint in taints if self._is_considered_taint(taint)] for taints in taint_sets]

        # Check each distinct pair of a PodInfo and a taint set once. The code of a pair combines both numbers.
        set_numbers = taint_set_of_node[self.view.node[positions]].astype(np.int64)
        codes = self.seen.info[positions] * len(taint_sets) + set_numbers
        distinct_codes, code_index = np.unique(codes, return_inverse=True)
        violates = []
        for code in distinct_codes.tolist():
            info_number, set_number = divmod(code, len(taint_sets))
            tolerations = self.seen.infos[info_number].spec.tolerations
            violates.append(
                find_untolerated_taint(considered_taints[set_number], tolerations, comparison_operators=True)
                is not None
            )
        return np.array(violates, np.bool_)[code_index]

    def _is_considered_taint(self, taint: Taint) -> bool:
        """Return whether the arguments consider a taint: its effect matches, and it is included and not excluded.

        Taints are included and excluded by key or as ``key=value``.
        """
        arguments = self.arguments
        considered_effects = {"NoSchedule"}
        if arguments.include_prefer_no_schedule:
            considered_effects.add("PreferNoSchedule")
        if taint.effect not in considered_effects:
            return False
        names = {taint.key, f"{taint.key}={taint.value}"} if taint.value else {taint.key}
        if not names.isdisjoint(arguments.excluded_taints):
            return False
        return arguments.included_taints is None or not names.isdisjoint(arguments.included_taints)


class RemovePodsViolatingNodeAffinity(DeschedulerPlugin[RemovePodsViolatingNodeAffinityArgs]):
    """A plugin that evicts pods whose nodes violate their required or preferred node affinity.

    A node violates preferred affinity if another ready node has a higher weight.
    """

    name = "RemovePodsViolatingNodeAffinity"

    def run(self) -> None:
        """Evict the pods that violate a configured type of node affinity, one type after the other."""
        for kind in self.arguments.node_affinity_type:
            if kind == REQUIRED:
                self._evict_violating_pods(
                    self.seen.select_infos(_has_required_affinity), self._find_pods_violating_required_affinity
                )
            elif kind == PREFERRED:
                self._evict_violating_pods(
                    self.seen.select_infos(_has_preferred_affinity), self._find_pods_preferring_other_nodes
                )

    def _evict_violating_pods(self, has_affinity: Bools, violates: Callable[[Rows], Bools]) -> None:
        """Evict the pods that violate their affinity if a ready node would accept them.

        ``has_affinity`` is a (T,) mask of the PodInfos with such an affinity. ``violates`` returns a mask of the pods
        at given positions that violate it. Only evictable pods that match the plugin's arguments are considered.
        """
        selected = has_affinity & self.seen.select_matching_infos(
            self.arguments.namespaces, self.arguments.label_selector
        )
        evictable = self.find_evictable_pods(selected)
        violating = evictable[violates(evictable)]
        fits = self.current_round.fit.find_pods_fitting_anywhere(violating, self.seen.ready)
        self.evict_node_by_node(violating[fits].tolist())

    def _find_pods_violating_required_affinity(self, positions: Rows) -> Bools:
        """Return a mask of the pods at these positions whose required affinity excludes their node."""
        pairs = self.find_distinct_pairs(positions)
        fit = self.current_round.fit
        violates = [
            not fit.find_affinity_nodes(info_number)[row]
            for info_number, row in zip(pairs.info_numbers.tolist(), pairs.rows.tolist(), strict=True)
        ]
        return np.array(violates, np.bool_)[pairs.pair_index]

    def _find_pods_preferring_other_nodes(self, positions: Rows) -> Bools:
        """Return a mask of the pods at these positions whose preferred node affinity favors another ready node."""
        pairs = self.find_distinct_pairs(positions)
        prefers_other = np.zeros(len(pairs.rows), np.bool_)  # one element per pair
        for info_number in np.unique(pairs.info_numbers).tolist():
            weights = self._compute_preference_weights(info_number)
            best_weight = weights[self.seen.ready].max(initial=0)
            is_of_info = pairs.info_numbers == info_number
            prefers_other[is_of_info] = weights[pairs.rows[is_of_info]] < best_weight
        return prefers_other[pairs.pair_index]

    def _compute_preference_weights(self, info_number: int) -> Counts:
        """Return an (N,) array of the total weight of a PodInfo's preferred node affinity terms on each node.

        The weights are zero if a term is invalid.
        """
        affinity = _get_node_affinity(self.seen.infos[info_number].pod)
        try:
            terms = compile_preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution)
        except NodeSelectorError:
            return np.zeros(len(self.view.nodes), np.int64)
        return self.view.nodes.weigh_preferred_terms(terms)


def _get_node_affinity(pod: Pod) -> NodeAffinity:
    """Return the pod's node affinity, or an empty node affinity if it has none."""
    affinity = pod.spec.affinity
    return (affinity.node_affinity if affinity else None) or NodeAffinity()


def _has_required_affinity(pod: Pod) -> bool:
    """Return whether the pod has a required node affinity."""
    return _get_node_affinity(pod).required_during_scheduling_ignored_during_execution is not None


def _has_preferred_affinity(pod: Pod) -> bool:
    """Return whether the pod has preferred node affinity terms."""
    return bool(_get_node_affinity(pod).preferred_during_scheduling_ignored_during_execution)
