"""Choose the nodes at which fixes are tried, and propose the fixes that plugins know for their rejections.

Nodes that are rejected for the same reasons form a group, of which only the nodes nearest to having room are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from itertools import islice, zip_longest

import numpy as np
import numpy.typing as npt

from kschedctl.api.arrays import Bools, Ints, Row
from kschedctl.fixes import ways
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.trial_node import (
    NO_REMEDIES,
    NodeRejection,
    PluginRemedies,
    TrialNode,
    collect_scheduling_label_keys,
)
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.fixes.ways import new_nodes, scheduling
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.framework.declaration import PluginClass
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient


@cache
def get_plugin_remedies(plugin: str) -> PluginRemedies:
    """Return what the search knows about fixes for a plugin's rejections, or `NO_REMEDIES` if it knows nothing.

    A plugin's `fixes` names a module, which is imported on first use. The module's `REMEDIES` has an entry for the
    plugin.
    """
    declaration = IN_TREE.get(plugin)
    if declaration is None:
        from kschedctl.scheduler.third_party_plugins import SCHEDULER_PLUGINS  # noqa: PLC0415 - few profiles use them

        declaration = SCHEDULER_PLUGINS.get(plugin)
    if declaration is None or declaration.plugin is None or not declaration.plugin.fixes:
        return NO_REMEDIES
    module = import_module(f"{ways.__name__}.{declaration.plugin.fixes}")
    by_class: Mapping[PluginClass, PluginRemedies] = module.REMEDIES
    return next(remedies for plugin_class, remedies in by_class.items() if plugin_class.name == plugin)


def iter_fixes_at_node(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes for the node's first rejection, or for all its rejections if the trial raises the pod's priority.

    Normally, only the first rejection is worked on, because the next ones come up once it is cleared. If the pod may
    preempt at its new priority, any rejection may go away with the victims.
    """
    rejections = trial_node.find_rejections()
    for rejection in rejections if trial_node.trial.raises_priority else rejections[:1]:
        for propose_fixes in get_plugin_remedies(rejection.plugin).proposers:
            yield from propose_fixes(trial_node, rejection)


def iter_node_independent_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    """Yield fixes that do not depend on a particular node.

    They clear PreFilter's rejection, change the pod's scheduler name or priority, or add a node. If no cycle was
    replayed, only other scheduler names are proposed.
    """
    yield from iter_fixes_at_node(trial_node)
    yield from scheduling.iter_scheduler_name_fixes(trial_node)
    if trial_node.trial.cycle is not None:
        yield from scheduling.iter_priority_class_fixes(trial_node)
        yield from new_nodes.iter_added_node_fixes(trial_node)


MOST_NODES_OF_TRIAL = 60
"""The most nodes to look at in a trial, unless there are more groups of equivalent nodes."""
MOST_LABEL_VALUES = 40
"""Labels with more values, such as host names, do not make nodes differ."""


def count_minimum_changes(rejections: list[NodeRejection]) -> int:
    """Return the minimum number of changes that can clear the rejections, at least 1.

    Normally, each rejecting plugin needs one change. Plugins whose rejections one change can clear together count once.
    A plugin does not count if changes for other plugins may clear its rejections.
    """
    plugins = {rejection.plugin for rejection in rejections}
    clearing_groups: set[str] = set()
    for plugin in plugins:
        plugin_remedies = get_plugin_remedies(plugin)
        if not plugin_remedies.indirect:
            clearing_groups.add(plugin_remedies.clears_with or plugin)
    return max(1, len(clearing_groups))


def _build_difficulty_key(trial_node: TrialNode) -> tuple[int, int]:
    """Return the sort key of a node: the minimum number of changes that it needs, then how many resources it lacks."""
    rejections = trial_node.find_rejections()
    facts = [rejection.fact for rejection in rejections]
    insufficient_resources = {fact.resource for fact in facts if isinstance(fact, Insufficient)}
    return count_minimum_changes(rejections), len(insufficient_resources)


def iter_nodes_to_try(trial: RemedyTrial) -> Iterator[TrialNode]:
    """Yield nodes of each group of equivalent nodes, starting with the nodes that need the fewest changes.

    If there are too many nodes, only the nodes of each group that are nearest to having room are yielded. If no cycle
    was replayed or PreFilter rejected all nodes, the trial without a particular node is yielded instead.
    """
    cycle = trial.cycle
    is_rejected_by_pre_filter = cycle is not None and cycle.pre_filter.status.rejected and cycle.pre_filter.plugin
    if cycle is None or is_rejected_by_pre_filter:
        yield TrialNode(trial, row=None)
        return
    groups = [_rank_rows_by_free_room(cycle, rows) for rows in _group_equivalent_nodes(cycle)]
    # The best node of each group, then the second best of each group, and so on.
    interleaved_rows = (row for turn in zip_longest(*groups) for row in turn if row is not None)
    most_nodes = max(MOST_NODES_OF_TRIAL, len(groups))
    tried_nodes = [TrialNode(trial, Row(row)) for row in islice(interleaved_rows, most_nodes)]
    yield from sorted(tried_nodes, key=_build_difficulty_key)


def _group_equivalent_nodes(cycle: Cycle) -> list[Ints]:
    """Return the rows of each group of nodes that are equivalent for the pod. Rows are ascending within a group.

    Nodes are equivalent if they have the same rejections and taints, and the same values of the labels, volumes and
    devices that matter to the pod. The result is empty if there are no nodes.
    """
    nodes, outcome = cycle.view.nodes, cycle.filter
    _, taint_set_numbers = nodes.taint_sets
    columns: list[Ints | Bools] = [
        taint_set_numbers,
        *_iter_constraint_label_codes(cycle),
        *_iter_plugin_columns(cycle),
    ]
    for plugin, verdict in outcome.verdicts.items():
        rejections = list(verdict.rejections)
        if plugin in outcome.with_nominated:
            rejections += outcome.with_nominated[plugin].rejections
        columns += [rejection.mask for rejection in rejections if rejection.mask.any()]

    group_numbers = np.zeros(len(nodes), np.int64)
    for column in columns:
        group_numbers = _split_groups(group_numbers, column)

    # Sort the rows by group, and split them where another group starts
    order = np.argsort(group_numbers, kind="stable")
    starts = np.flatnonzero(np.diff(group_numbers[order], prepend=-1))
    return np.split(order, starts[1:]) if len(order) else []


def _split_groups(group_numbers: npt.NDArray[np.int64], column: Ints | Bools) -> npt.NDArray[np.int64]:
    """Return new group numbers (N,), with groups split into the nodes that have the same value in the column (N,).

    Values are at least -1, which stands for a missing label.
    """
    digits = column + 1
    base = int(column.max(initial=0)) + 2  # digits range from 0 to base - 1
    split_numbers: npt.NDArray[np.int64]
    _, split_numbers = np.unique(group_numbers * base + digits, return_inverse=True)
    return split_numbers


def _iter_plugin_columns(cycle: Cycle) -> Iterator[Ints]:
    """Yield columns (N,) of values by which nodes differ for the plugins that reject nodes."""
    for name, verdict in cycle.filter.verdicts.items():
        if verdict.rejected.any():
            yield from get_plugin_remedies(name).columns(cycle)


def _iter_constraint_label_codes(cycle: Cycle) -> Iterator[Ints]:
    """Yield an array (N,) of value codes for each node label in the pod's constraints.

    Labels with more than MOST_LABEL_VALUES values are skipped.
    """
    for key in sorted(collect_scheduling_label_keys(cycle)):
        column = cycle.view.nodes.label(key)
        if len(column.values) <= MOST_LABEL_VALUES:
            yield column.codes


def _rank_rows_by_free_room(cycle: Cycle, rows: Ints) -> list[int]:
    """Choose the rows (K,) of a group on which a change is tried, in the order in which they are tried.

    The rows with the most free of each requested resource come first, and then the group's first row. Up to
    MOST_NODES_OF_TRIAL rows follow, those that are closest to having room first. If the pod requests nothing, the first
    MOST_NODES_OF_TRIAL rows of the group are chosen.
    """
    view = cycle.view
    amounts_by_column = {
        view.resources[name]: amount for name, amount in cycle.info.incoming_requests.items() if name in view.resources
    }
    columns = list(amounts_by_column)
    if not columns:
        return [int(row) for row in rows[:MOST_NODES_OF_TRIAL]]

    free_amounts = (view.allocatable - view.requested)[rows]
    free = free_amounts[:, columns].astype(np.float64)
    rows_with_most_free = [int(row) for row in rows[free.argmax(axis=0)]]
    # The share of its request that the pod would get of its scarcest resource. Nodes with enough room are equal.
    satisfied_share = (free / np.maximum(list(amounts_by_column.values()), 1)).min(axis=1)
    order = np.argsort(-np.minimum(satisfied_share, 1), kind="stable")
    nearest_first = rows[order[:MOST_NODES_OF_TRIAL]].tolist()
    return list(dict.fromkeys([*rows_with_most_free, int(rows[0]), *nearest_first]))
