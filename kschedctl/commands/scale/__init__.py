"""`scale`: what would the Cluster Autoscaler do next, and why not more?

The replay itself is in `kschedctl/autoscaling/cluster_autoscaler`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Pod
from kschedctl.api.unhealthy_pods import explain_used_up_budgets
from kschedctl.autoscaling.cluster_autoscaler import scale_down as going_down
from kschedctl.autoscaling.cluster_autoscaler import scale_up as going_up
from kschedctl.autoscaling.cluster_autoscaler.drainability import NOT_ENOUGH_BUDGET
from kschedctl.autoscaling.cluster_autoscaler.growing_groups import GrowingGroups
from kschedctl.autoscaling.cluster_autoscaler.options import read_autoscaler_options
from kschedctl.autoscaling.cluster_autoscaler.pods import is_daemon_set_pod, is_expendable
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
    """Replay the next scale-up of the Cluster Autoscaler (release 1.36), and explain why other groups do not grow.

    ``groups`` are node groups in the format of ``--node-groups`` (id, min, max, target, nodes, template), in addition
    to those that are found in the cluster. ``options`` are the autoscaler's flags, ``pool_label`` is the node label
    that names a node's group, and ``where`` is the name of the groups' source in the report. ``now`` is an RFC 3339
    time and defaults to the time at which the cluster was read. ``active_scale_ups`` maps each group to the number of
    requested nodes that do not exist yet, and defaults to the numbers in the autoscaler's status. Raises UsageError if
    there are no groups, and InputError if an argument or object is malformed.

    >>> groups = [{"id": "a", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]}]
    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(scale_up(cluster, groups, now="2026-01-01T00:00:00Z"))
    'No group grows because no pod is unschedulable'
    """
    node_groups = get_node_groups(cluster, UserGroups(groups, options or {}, pool_label, where))
    loop_arguments = _build_loop_arguments(cluster, node_groups, now, active_scale_ups)
    decision, report = going_up.replay_scale_up(
        cluster, node_groups.groups, node_groups.options, begin=progress.begin, **loop_arguments
    )

    # Find the pods that trigger the growth but get no new node, because other pods take it.
    if decision.increases:
        growing = GrowingGroups(node_groups, loop_arguments["now"])
        cluster_with_nodes = growing.add_nodes(decision, cluster)
        pools_by_pod = {
            pod: [option.group for option in report.options if pod in option.pods] for pod in report.triggered
        }
        queue_result = replay_queue_with_new_nodes(cluster, cluster_with_nodes, pools_by_pod, growing)
        report = replace(
            report, still_pending=queue_result.still_pending, rivals=queue_result.rivals, enough=queue_result.enough
        )

    is_doubtful = bool(report.faults or report.doubts or (report.unknown_groups and report.waiting))
    basis = _build_groups_basis(node_groups)
    basis["doubts"] = (*report.doubts, *basis["doubts"])
    faults = (*node_groups.faults, *report.faults)
    return replace(report, undecided=is_doubtful or not node_groups.are_certain, faults=faults, **basis)


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
    """Replay the next scale-down of the Cluster Autoscaler: find the nodes that it deletes and why other nodes stay.

    The arguments and errors are as for ``scale_up``.

    >>> groups = [{"id": "a", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]}]
    >>> cluster = Cluster.from_objects([{"kind": "Node", "metadata": {"name": "n1"}}])
    >>> str(scale_down(cluster, groups, now="2026-01-01T00:00:00Z"))
    'No node is removed: none is unneeded'
    """
    node_groups = get_node_groups(cluster, UserGroups(groups, options or {}, pool_label, where))
    loop_arguments = _build_loop_arguments(cluster, node_groups, now, active_scale_ups)
    report = going_down.scale_down(
        cluster, node_groups.groups, node_groups.options, begin=progress.begin, **loop_arguments
    )

    # Explain why the budgets of pods that keep their nodes allow no disruption.
    blocked = (node.blocking_pod for node in report.nodes.values() if node.blocking_pod)
    keys = {blocking.pod for blocking in blocked if blocking.reason == NOT_ENOUGH_BUDGET}
    named_pods = [cluster.pod(*key.split("/", 1)) for key in sorted(keys)]
    protected_pods = [pod for pod in named_pods if pod is not None]
    causes = explain_used_up_budgets(protected_pods, cluster.pod_disruption_budgets, cluster.pods)

    return replace(
        report,
        budget_causes=causes,
        ignored_pods=_find_ignored_pods(cluster, node_groups, report.unneeded),
        undecided=not node_groups.are_certain or bool(report.faults),
        faults=(*node_groups.faults, *report.faults),
        waits=dict(node_groups.waits),
        **_build_groups_basis(node_groups),
    )


def _find_ignored_pods(
    cluster: Cluster, node_groups: NodeGroups, unneeded: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Return the pods on unneeded nodes that the autoscaler ignores because of their low priority, by node name.

    The autoscaler deletes such a node although the ignored pods end with it. Nodes without ignored pods are left out.
    """
    options, _ = read_autoscaler_options(node_groups.options)

    def is_ignored(template: Pod) -> bool:
        """Return whether the autoscaler ignores pods of this template on the nodes that it removes."""
        return is_expendable(template, options) and not (template.terminated or is_daemon_set_pod(template))

    pods_by_node: dict[str, list[str]] = {}
    for pod in cluster.pods.filter_by_template(is_ignored):
        pods_by_node.setdefault(pod.spec.node_name, []).append(pod.key)
    return {node: tuple(pods_by_node[node]) for node in unneeded if node in pods_by_node}


class LoopArguments(TypedDict):
    """The arguments that the replays of scale-up and scale-down take besides the cluster, groups and options."""

    now: str
    active_scale_ups: Mapping[str, int]


class GroupsBasis(TypedDict):
    """The fields of both reports that describe the node groups."""

    seen_groups: bool
    sources: tuple[str, ...]
    doubts: tuple[str, ...]


def _build_loop_arguments(
    cluster: Cluster, node_groups: NodeGroups, now: str, active_scale_ups: Mapping[str, int] | None
) -> LoopArguments:
    """Return the arguments that the replays of scale-up and scale-down share.

    `now` defaults to the time when the cluster was read, and `active_scale_ups` to the scale-ups in the autoscaler's
    status.
    """
    return {
        "now": now or get_read_time(cluster),
        "active_scale_ups": node_groups.active_scale_ups if active_scale_ups is None else active_scale_ups,
    }


def _build_groups_basis(node_groups: NodeGroups) -> GroupsBasis:
    """Return the fields of a report that describe the node groups."""
    return {"seen_groups": not node_groups.limits_known, "sources": node_groups.sources, "doubts": node_groups.doubts}
