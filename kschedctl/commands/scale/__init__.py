"""The command ``scale``: what the Cluster Autoscaler would do next, and why not more.

The replay itself is in ``kschedctl/autoscaling/cluster_autoscaler``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.api.unhealthy_pods import explain_used_up_budgets
from kschedctl.autoscaling.cluster_autoscaler import scale_down as going_down
from kschedctl.autoscaling.cluster_autoscaler import scale_up as going_up
from kschedctl.autoscaling.cluster_autoscaler.drainability import NOT_ENOUGH_BUDGET
from kschedctl.autoscaling.cluster_autoscaler.growing_groups import GrowingGroups
from kschedctl.autoscaling.node_groups.discovery import NodeGroups, UserGroups
from kschedctl.cluster import Cluster
from kschedctl.fixes.new_node import get_node_groups, replay_queue_with_new_nodes
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.reports.cluster_autoscaler import ScaleDown, ScaleUp
from kschedctl.sources.cluster import get_read_time


def scale_up(
    cluster: Cluster,
    groups: Sequence[JsonObject] = (),
    options: JsonObject | None = None,
    *,
    pool_label: str = "",
    where: str = "",
    now: str = "",
    active_scale_ups: Mapping[str, int] | None = None,
    progress: Progress = NO_PROGRESS,
) -> ScaleUp:
    """Replay the next loop of the Cluster Autoscaler (release 1.36) for pending pods, and explain why no other group
    grows.

    ``groups``: node groups as ``--node-groups`` has them (id, min, max, target, nodes, template), besides those that
    the cluster tells; ``options``: the autoscaler's flags; ``pool_label``: the node label that names a node's group;
    ``where``: what the report calls the source of the groups. ``now``: an RFC 3339 time; when the cluster was read.
    ``active_scale_ups``: group -> nodes that it asked for and that are not there yet, None for what its status says.
    Raises UsageError where nothing names a group, InputError.

    >>> groups = [{"id": "a", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]}]
    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(scale_up(cluster, groups, now="2026-01-01T00:00:00Z"))
    'No group grows for 0 unschedulable pods'
    """
    named = get_node_groups(cluster, UserGroups(groups, options or {}, pool_label, where))
    loop = _build_loop_arguments(cluster, named, now, active_scale_ups)
    made, report = going_up.replay_loop(cluster, named.groups, named.options, begin=progress.begin, **loop)
    if made.increases:
        growing = GrowingGroups(named, loop["now"])
        after = replay_queue_with_new_nodes(cluster, growing.add_nodes(made, cluster), report.triggered, growing)
        report = replace(report, still_pending=after.still_pending, rivals=after.rivals, enough=after.enough)
    doubtful = bool(report.faults or report.doubts or (report.unknown_groups and report.waiting))
    basis = _build_groups_basis(named)
    basis["doubts"] = (*report.doubts, *basis["doubts"])
    faults = (*named.faults, *report.faults)
    return replace(report, undecided=doubtful or not named.are_certain, faults=faults, **basis)


def scale_down(
    cluster: Cluster,
    groups: Sequence[JsonObject] = (),
    options: JsonObject | None = None,
    *,
    pool_label: str = "",
    where: str = "",
    now: str = "",
    active_scale_ups: Mapping[str, int] | None = None,
    progress: Progress = NO_PROGRESS,
) -> ScaleDown:
    """Replay the next scale-down of the Cluster Autoscaler: which nodes are unneeded, which are deleted, and what keeps
    the others.

    Arguments and errors as for ``scale_up``.

    >>> groups = [{"id": "a", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]}]
    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(scale_down(cluster, groups, now="2026-01-01T00:00:00Z"))
    'No node goes of 0 unneeded nodes'
    """
    named = get_node_groups(cluster, UserGroups(groups, options or {}, pool_label, where))
    loop = _build_loop_arguments(cluster, named, now, active_scale_ups)
    report = going_down.scale_down(cluster, named.groups, named.options, begin=progress.begin, **loop)
    blocked = (node.blocking_pod for node in report.nodes.values() if node.blocking_pod)
    keys = {blocking.pod for blocking in blocked if blocking.reason == NOT_ENOUGH_BUDGET}
    held = [pod for key in sorted(keys) if (pod := cluster.pod(*key.split("/", 1)))]
    causes = explain_used_up_budgets(held, cluster.pod_disruption_budgets, cluster.pods)
    report = replace(report, budget_causes=causes)
    undecided = not named.are_certain or bool(report.faults)
    faults, waits = (*named.faults, *report.faults), dict(named.waits)
    return replace(report, undecided=undecided, faults=faults, waits=waits, **_build_groups_basis(named))


class LoopArguments(TypedDict):
    """Arguments of both loops, besides the cluster, groups, and options."""

    now: str
    active_scale_ups: Mapping[str, int]


class GroupsBasis(TypedDict):
    """Fields of both reports that describe the node groups."""

    seen_groups: bool
    sources: tuple[str, ...]
    doubts: tuple[str, ...]


def _build_loop_arguments(
    cluster: Cluster, named: NodeGroups, now: str, active_scale_ups: Mapping[str, int] | None
) -> LoopArguments:
    """Return the loop's arguments, with the cluster's time and the status's scale-ups as defaults."""
    return {
        "now": now or get_read_time(cluster),
        "active_scale_ups": named.active_scale_ups if active_scale_ups is None else active_scale_ups,
    }


def _build_groups_basis(named: NodeGroups) -> GroupsBasis:
    """Return the report fields that describe the node groups."""
    return {"seen_groups": not named.limits_known, "sources": named.sources, "doubts": named.doubts}
