"""Where remedies are looked for: nodes that the same things stand against are one case, the nearest stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Ints, Row
from kschedctl.scheduler.engine.cycle import Cycle, Verdicts
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.framework import Rejection
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient
from kschedctl.scheduler.registry.facts import AnyFact, as_fact
from kschedctl.studies.remedies.claimed import claim_columns
from kschedctl.studies.remedies.trials import RemedyTrial

ONE_CHANGE = (
    frozenset({"NodeUnschedulable", "TaintToleration"}),
    frozenset({"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"}),
)
"""What one change can clear together: a cordon is a mark and a taint; all the others look at one volume."""
INDIRECT = frozenset({"PodTopologySpread", "InterPodAffinity"})
"""Other changes may clear these besides: which nodes count for them follows from the pod's node selection."""
MOST_SITES_OF_TRIAL = 60
"""So many nodes are looked at, or one of each case where there are more cases."""
MOST_LABEL_VALUES = 40
"""A label with more values tells nodes apart one by one, as a host name does; its nodes are one case."""


class NodeRefusal(NamedTuple):
    """What a plugin has against a node."""

    plugin: str
    reason: str
    fact: AnyFact | None
    rejection: Rejection | None = None


@dataclass(frozen=True)
class Site:
    """A node, or where there is none to speak of all of them, in a trial; a change is looked for there."""

    trial: RemedyTrial
    row: Row | None

    @property
    def cycle(self) -> Cycle:
        assert self.trial.cycle is not None
        return self.trial.cycle

    @property
    def at(self) -> Row:
        """The row of a site that is a node."""
        assert self.row is not None
        return self.row

    def refusals(self) -> list[NodeRefusal]:
        """What stands against the node, in the profile's order; what PreFilter says against all nodes comes alone."""
        if self.trial.cycle is None:
            return []
        outcome = self.cycle.pre_filter
        if outcome.status.rejected and outcome.plugin:
            result = outcome.results[outcome.plugin]
            return [NodeRefusal(outcome.plugin, reason, as_fact(result.fact)) for reason in outcome.status.reasons]
        if self.row is None:
            return []
        found = [
            NodeRefusal(plugin, rejection.reason, _fact(rejection, self.row), rejection)
            for plugin, verdict in self._verdicts(self.row).items()
            for rejection in verdict.rejections
            if rejection.mask[self.row]
        ]
        if not selected_by_name(outcome, self.cycle.view)[self.row]:
            refusing = {refusal.plugin for refusal in found}
            found += [NodeRefusal(plugin, "", None) for plugin in outcome.narrowed_by if plugin not in refusing]
        return found

    def _verdicts(self, row: Row) -> Verdicts:
        outcome = self.cycle.filter
        return outcome.with_nominated if outcome.by_nominated[row] else outcome.verdicts


def _fact(rejection: Rejection, row: Row) -> AnyFact | None:
    return as_fact(rejection.fact(row)) if rejection.fact else None


def least_changes(refusals: list[NodeRefusal]) -> int:
    """No fewer changes than this clear what stands against a node: a pod that goes may free several resources."""
    plugins = {refusal.plugin for refusal in refusals} - INDIRECT
    together = sum(max(len(plugins & alike) - 1, 0) for alike in ONE_CHANGE)
    return max(1, len(plugins) - together)


def _hopelessness(site: Site) -> tuple[int, int]:
    refusals = site.refusals()
    return least_changes(refusals), len({r.fact.resource for r in refusals if isinstance(r.fact, Insufficient)})


def sites(trial: RemedyTrial) -> Iterator[Site]:
    """Nodes of each case, the least hopeless first; where there are too many, the nearest of each case."""
    cycle = trial.cycle
    if cycle is None or (cycle.pre_filter.status.rejected and cycle.pre_filter.plugin):
        yield Site(trial, None)
        return
    cases = [_nearest(cycle, rows) for rows in _cases(cycle)]
    by_turns = (row for turn in zip_longest(*cases) for row in turn if row is not None)
    found = [Site(trial, Row(row)) for row in islice(by_turns, max(MOST_SITES_OF_TRIAL, len(cases)))]
    yield from sorted(found, key=_hopelessness)


def _cases(cycle: Cycle) -> list[Ints]:
    """The rows of the nodes that the same refusals, and taints, labels, volumes and devices that matter tell alike."""
    nodes, outcome = cycle.view.nodes, cycle.filter
    group = np.zeros(len(nodes), np.int64)
    columns: list[Ints] = [nodes.taint_sets[1], *_labels(cycle), *claim_columns(cycle)]
    for plugin, verdict in outcome.verdicts.items():
        both = [verdict, *((outcome.with_nominated[plugin],) if plugin in outcome.with_nominated else ())]
        columns += [rejection.mask for each in both for rejection in each.rejections if rejection.mask.any()]
    for column in columns:
        _, group = np.unique(group * (int(column.max(initial=0)) + 2) + column + 1, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []


def _labels(cycle: Cycle) -> Iterator[Ints]:
    """The columns of the labels by which the pod chooses nodes or counts pods."""
    for key in sorted(label_keys(cycle)):
        column = cycle.view.nodes.label(key)
        if len(column.values) <= MOST_LABEL_VALUES:
            yield column.codes


def label_keys(cycle: Cycle) -> set[str]:
    """The labels of nodes that the pod's own constraints name."""
    spec = cycle.info.spec
    found = {*spec.node_selector, *(constraint.topology_key for constraint in spec.topology_spread_constraints)}
    own = spec.affinity.node_affinity if spec.affinity else None
    required = own.required_during_scheduling_ignored_during_execution if own else None
    for term in required.node_selector_terms if required else ():
        found |= {requirement.key for requirement in term.match_expressions}
    for terms in (cycle.info.required_affinity, cycle.info.required_anti_affinity):
        found |= {term.topology_key for term in terms}
    return found


def _nearest(cycle: Cycle, rows: Ints) -> list[int]:
    """Rows of a case: the freest in each resource that the pod asks for, the first, those that lack least of all."""
    view = cycle.view
    wanted = {view.resources[name]: n for name, n in cycle.info.incoming_requests.items() if name in view.resources}
    columns = list(wanted)
    if not columns:
        return [int(row) for row in rows[:MOST_SITES_OF_TRIAL]]
    free = (view.allocatable - view.requested)[rows][:, columns].astype(np.float64)
    best = [int(row) for row in rows[free.argmax(axis=0)]]
    least = (free / np.maximum(list(wanted.values()), 1)).min(axis=1)
    order = rows[np.argsort(-np.minimum(least, 1), kind="stable")[:MOST_SITES_OF_TRIAL]]
    return list(dict.fromkeys([*best, int(rows[0]), *order.tolist()]))
