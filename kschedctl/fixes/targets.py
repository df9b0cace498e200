"""Where remedies are looked for: nodes that the same things stand against are one case, the nearest stands for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, zip_longest

import numpy as np

from kschedctl.api.arrays import Ints, Row
from kschedctl.fixes.catalogue import remedies_of
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode, label_keys
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient

MOST_SITES_OF_TRIAL = 60
"""So many nodes are looked at, or one of each case where there are more cases."""
MOST_LABEL_VALUES = 40
"""A label with more values tells nodes apart one by one, as a host name does; its nodes are one case."""


def least_changes(refusals: list[NodeRefusal]) -> int:
    """No fewer changes than this clear what stands against a node: a pod that goes may free several resources."""
    plugins = {refusal.plugin for refusal in refusals}
    direct = {name: known.clears_with or name for name in plugins if not (known := remedies_of(name)).indirect}
    return max(1, len(set(direct.values())))


def _hopelessness(tried: TriedNode) -> tuple[int, int]:
    refusals = tried.refusals()
    return least_changes(refusals), len({r.fact.resource for r in refusals if isinstance(r.fact, Insufficient)})


def nodes_to_try(trial: RemedyTrial) -> Iterator[TriedNode]:
    """Nodes of each case, the least hopeless first; where there are too many, the nearest of each case."""
    cycle = trial.cycle
    if cycle is None or (cycle.pre_filter.status.rejected and cycle.pre_filter.plugin):
        yield TriedNode(trial, None)
        return
    cases = [_nearest(cycle, rows) for rows in _cases(cycle)]
    by_turns = (row for turn in zip_longest(*cases) for row in turn if row is not None)
    tried_nodes = [TriedNode(trial, Row(row)) for row in islice(by_turns, max(MOST_SITES_OF_TRIAL, len(cases)))]
    yield from sorted(tried_nodes, key=_hopelessness)


def _cases(cycle: Cycle) -> list[Ints]:
    """The rows of the nodes that the same refusals, and taints, labels, volumes and devices that matter tell alike."""
    nodes, outcome = cycle.view.nodes, cycle.filter
    group = np.zeros(len(nodes), np.int64)
    columns: list[Ints] = [nodes.taint_sets[1], *_labels(cycle), *_columns(cycle)]
    for plugin, verdict in outcome.verdicts.items():
        both = [verdict, *((outcome.with_nominated[plugin],) if plugin in outcome.with_nominated else ())]
        columns += [rejection.mask for verdict in both for rejection in verdict.rejections if rejection.mask.any()]
    for column in columns:
        _, group = np.unique(group * (int(column.max(initial=0)) + 2) + column + 1, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []


def _columns(cycle: Cycle) -> Iterator[Ints]:
    for name, verdict in cycle.filter.verdicts.items():
        if verdict.rejected.any():
            yield from remedies_of(name).columns(cycle)


def _labels(cycle: Cycle) -> Iterator[Ints]:
    """The columns of the labels by which the pod chooses nodes or counts pods."""
    for key in sorted(label_keys(cycle)):
        column = cycle.view.nodes.label(key)
        if len(column.values) <= MOST_LABEL_VALUES:
            yield column.codes


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
