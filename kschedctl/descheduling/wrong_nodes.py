"""Pods that their node would not get any more: by its taints, or by their node affinity.

Upstream: pkg/framework/plugins/removepodsviolatingnodetaints and removepodsviolatingnodeaffinity.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.node_selector import NodeSelectorError, compile_preferred_terms
from kschedctl.api.objects import NodeAffinity, Pod, Taint, Toleration
from kschedctl.api.tolerations import find_untolerated
from kschedctl.descheduling.arguments import (
    PREFERRED,
    REQUIRED,
    RemovePodsViolatingNodeAffinityArgs,
    RemovePodsViolatingNodeTaintsArgs,
)
from kschedctl.descheduling.plugin import DeschedulerPlugin


class RemovePodsViolatingNodeTaints(DeschedulerPlugin[RemovePodsViolatingNodeTaintsArgs]):
    """Pods that do not tolerate a taint NoSchedule of their node; on demand PreferNoSchedule too."""

    name = "RemovePodsViolatingNodeTaints"

    def run(self) -> None:
        selected = self.seen.chosen(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.evictable(selected)
        self.evict_node_by_node(positions[self._violates(positions)].tolist())

    def _violates(self, positions: Rows) -> Bools:
        """Which of the pods do not tolerate what counts."""
        effects = ("NoSchedule", *(("PreferNoSchedule",) * self.arguments.include_prefer_no_schedule))
        taint_sets, taint_set = self.view.nodes.taint_sets
        counted = [[t for t in taints if t.effect in effects and self._counts(t)] for taints in taint_sets]
        numbers, sets = self.seen.info[positions], taint_set[self.view.node[positions]].astype(np.int64)
        codes, which = np.unique(numbers * len(taint_sets) + sets, return_inverse=True)
        violates = [
            find_untolerated(counted[code % len(taint_sets)], self._tolerations(code // len(taint_sets)), None, True)
            is not None
            for code in codes.tolist()
        ]
        return np.array(violates, np.bool_)[which]

    def _tolerations(self, number: int) -> tuple[Toleration, ...]:
        return self.seen.infos[number].spec.tolerations

    def _counts(self, taint: Taint) -> bool:
        """Whether it is included, and not excluded, by its key or ``key=value``."""
        names = {taint.key, f"{taint.key}={taint.value}"} if taint.value else {taint.key}
        included = self.arguments.included_taints
        return names.isdisjoint(self.arguments.excluded_taints) and (included is None or not names.isdisjoint(included))


class RemovePodsViolatingNodeAffinity(DeschedulerPlugin[RemovePodsViolatingNodeAffinityArgs]):
    """Pods on nodes that their required node affinity does not match, or that others would suit better."""

    name = "RemovePodsViolatingNodeAffinity"

    def run(self) -> None:
        for kind in self.arguments.node_affinity_type:
            if kind == REQUIRED:
                self._run(self.seen.where(_requires), self._refused)
            elif kind == PREFERRED:
                self._run(self.seen.where(_prefers), self._could_be_better)

    def _run(self, having: Bools, violates: Callable[[Rows], Bools]) -> None:
        """Evict the pods of infos (T,) ``having`` such an affinity that fit somewhere and violate it."""
        selected = having & self.seen.chosen(self.arguments.namespaces, self.arguments.label_selector)
        positions = self.evictable(selected)
        positions = positions[violates(positions)]
        self.evict_node_by_node(positions[self.here.fit.anywhere(positions, self.seen.ready)].tolist())

    def _refused(self, positions: Rows) -> Bools:
        """Which of the pods are on a node that they may not be on."""
        numbers, rows, which = self.pairs(positions)
        fit = self.here.fit
        refused = [not fit.allowed(number)[row] for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)]
        return np.array(refused, np.bool_)[which]

    def _could_be_better(self, positions: Rows) -> Bools:
        """Which of the pods prefer another node to their own."""
        numbers, rows, which = self.pairs(positions)
        weights = {number: self._weights(number) for number in np.unique(numbers).tolist()}
        best = {number: int(of_nodes[self.seen.ready].max(initial=0)) for number, of_nodes in weights.items()}
        better = [
            best[number] > weights[number][row] for number, row in zip(numbers.tolist(), rows.tolist(), strict=True)
        ]
        return np.array(better, np.bool_)[which]

    def _weights(self, number: int) -> Counts:
        """(N,): what an info's preferred terms give the nodes; nothing where one of them cannot be read."""
        affinity = _node_affinity(self.seen.infos[number].pod)
        try:
            terms = compile_preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution)
        except NodeSelectorError:
            return np.zeros(len(self.view.nodes), np.int64)
        return self.view.nodes.evaluate(terms.score, terms.keys, terms.names, np.int64).astype(np.int64)


def _node_affinity(pod: Pod) -> NodeAffinity:
    affinity = pod.spec.affinity
    return (affinity.node_affinity if affinity else None) or NodeAffinity()


def _requires(pod: Pod) -> bool:
    return _node_affinity(pod).required_during_scheduling_ignored_during_execution is not None


def _prefers(pod: Pod) -> bool:
    return bool(_node_affinity(pod).preferred_during_scheduling_ignored_during_execution)
