"""Replay of running pods on their own nodes, to find pods that would be rejected there now.

Each pod is judged as if it alone were not there. Pods with the same PodInfo are judged together: one hypothesis removes
one of them from each of their nodes, so that a plugin looks at all nodes once for each distinct PodInfo. Only plugins
that can reject such a pod are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.objects import Taint
from kschedctl.api.ownership import find_controller
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT, find_untolerated_taint
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.unknown import WHEN_SCHEDULABLE, summarize_unknowns
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.framework import (
    Code,
    FilterPlugin,
    Plugin,
    PluginError,
    PluginVerdict,
    PreFilterPlugin,
    offers,
)
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_ports import REASON, NodePorts
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.plugins.volume_binding.plugin import VolumeBinding
from kschedctl.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kschedctl.scheduler.plugins.volume_zone import VolumeZone
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.delta import Delta
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import HostPort, PodInfo

NODE_AFFINITY = NodeAffinity.name
PORTS = NodePorts.name
SPREAD = PodTopologySpread.name
INTER_POD_AFFINITY = InterPodAffinity.name
VOLUMES = (VolumeRestrictions.name, VolumeZone.name, VolumeBinding.name)
NO_EXECUTE, NO_SCHEDULE = "NoExecute", "NoSchedule"
CONDITION_TAINT_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Prefixes of the taints that controllers set while a node has a problem. They are no rules about pods."""


class Misplaced(NamedTuple):
    """Pods that would be rejected on their own node for one reason."""

    rejected_by: str
    """The plugin, or the effect of the taint."""
    reason: str
    positions: Rows
    """The positions of the pods."""


class PlacementReplay(NamedTuple):
    """The result of replaying bound pods on their own nodes."""

    misplaced: tuple[Misplaced, ...]
    judged: int
    """The number of pods that were replayed."""
    not_served: int
    """The number of pods that no profile serves."""
    unknown: tuple[UnknownKind, ...]


class _PodInfoGroup(NamedTuple):
    """Bound pods with the same PodInfo."""

    number: int
    """The number of the PodInfo in the view."""
    info: PodInfo
    positions: Rows
    """The positions of the pods."""
    rows: Rows
    """The rows of the pods' nodes."""


def replay_bound_pods(scheduler: Scheduler, progress: Progress = NO_PROGRESS) -> PlacementReplay:
    """Replay all bound pods of this scheduler, each on its own node, and report the misplaced pods.

    DaemonSet pods, static pods and terminating pods are left out. Pods that no profile serves are only counted.
    """
    misplaced: list[Misplaced] = []
    unknowns: list[Unknown] = []
    judged = not_served = 0
    groups = list(_iter_pod_info_groups(scheduler.view))
    on_done = progress.begin("Checking where pods run", len(groups))
    for group in groups:
        on_done(1)
        framework = scheduler.find_framework(group.info.spec.scheduler_name)
        if framework is None:
            not_served += len(group.positions)
            continue
        judged += len(group.positions)
        misplaced += _iter_misplaced_of_group(group, framework, scheduler, unknowns)
    return PlacementReplay(
        _merge_misplaced_pods(misplaced),
        judged=judged,
        not_served=not_served,
        unknown=summarize_unknowns(unknowns, WHEN_SCHEDULABLE),
    )


def _iter_misplaced_of_group(
    group: _PodInfoGroup, framework: Framework, scheduler: Scheduler, unknowns: list[Unknown]
) -> Iterator[Misplaced]:
    """Yield the pods of the group that `framework` would reject on their own nodes, by plugin and reason.

    Plugins that lack unread data do not run. The objects that were not read for them are added to `unknowns`.
    """
    view = scheduler.view
    port_conflict = _find_pods_with_port_conflict(group, view)
    if port_conflict is not None:
        yield port_conflict
    has_comparison_operators = scheduler.gates.enabled("TaintTolerationComparisonOperators")
    yield from _iter_intolerant_pods(group, view, has_comparison_operators)

    plugin_names = _list_plugins_that_can_reject(group.info, framework)
    if plugin_names:
        framework_for_group, group_unknowns = scheduler.find_framework_for(group.info, view)
        unknowns += (unknown for unknown in group_unknowns if unknown.plugin in plugin_names)
        available = framework_for_group.plugins if framework_for_group else {}
        plugins = [available[name] for name in plugin_names if name in available]
        yield from _iter_rejections_on_own_nodes(plugins, group, view)


def _iter_pod_info_groups(view: Fork) -> Iterator[_PodInfoGroup]:
    """Yield the bound pods grouped by PodInfo, without terminating pods, DaemonSet pods and static pods.

    Kubelets create static pods without a scheduler, and the DaemonSet controller removes its misplaced pods itself.
    """
    positions_by_info = np.argsort(view.pods.info, kind="stable")
    bound_positions = positions_by_info[view.node[positions_by_info] >= 0]
    infos = view.pods.info[bound_positions]
    starts = np.flatnonzero(np.diff(infos, prepend=-1)).tolist()  # where the next PodInfo begins
    for start, stop in pairwise([*starts, len(bound_positions)]):
        number = int(infos[start])
        info = view.pods.infos[number]
        owner = find_controller(info.pod.metadata)
        is_daemon_or_static_pod = owner is not None and owner.kind in ("DaemonSet", "Node")
        if not info.terminating and not is_daemon_or_static_pod:
            positions = bound_positions[start:stop]
            yield _PodInfoGroup(number, info, positions, view.node[positions].astype(np.int64))


def _list_plugins_that_can_reject(info: PodInfo, framework: Framework) -> list[str]:
    """Return the names of the plugins that can reject a pod with this PodInfo, judging by the pod's spec.

    Host ports and taints are checked separately.
    """
    spec = info.spec
    names = []
    has_node_affinity = spec.affinity is not None and spec.affinity.node_affinity is not None
    if spec.node_selector or has_node_affinity or _has_added_affinity(framework):
        names.append(NODE_AFFINITY)
    if any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in spec.topology_spread_constraints):
        names.append(SPREAD)
    if info.required_affinity or info.required_anti_affinity:
        names.append(INTER_POD_AFFINITY)
    if spec.volumes:
        names += VOLUMES
    return names


def _has_added_affinity(framework: Framework) -> bool:
    """Return whether the profile adds node affinity to all its pods."""
    return getattr(framework.plugins.get(NODE_AFFINITY), "added_required", None) is not None


def _iter_rejections_on_own_nodes(plugins: Sequence[Plugin], group: _PodInfoGroup, view: Fork) -> Iterator[Misplaced]:
    """Yield the pods of the group that the plugins would reject on the nodes on which the pods run.

    One pod of the group is removed from each node before the filters run, since a pod does not compete with itself.
    Plugins that fail, or whose PreFilter does not succeed, yield nothing.
    """
    # Remove one pod with the group's PodInfo from each of its nodes.
    rows = np.unique(group.rows).astype(np.int32)
    infos = np.full(len(rows), group.number, np.int32)
    to_no_node = np.full(len(rows), -1)
    without_pods = Delta.from_changes(rows, infos, to_no_node)
    for plugin in plugins:
        state = None
        try:
            if offers(plugin, PreFilterPlugin):
                result = plugin.pre_filter(group.info, view)
                if result.status.code is not Code.SUCCESS:
                    continue
                state = result.state
            if offers(plugin, FilterPlugin):
                rejections = plugin.filter(group.info, view, state, without_pods)
                verdict = PluginVerdict.from_rejections(rejections, len(view.nodes))
                yield from _iter_misplaced_pods(plugin.name, verdict, group)
        except PluginError:
            continue  # objects on which the plugin depends for this running pod are gone


def _iter_misplaced_pods(plugin_name: str, verdict: PluginVerdict, group: _PodInfoGroup) -> Iterator[Misplaced]:
    """Yield the pods of the group whose own node the plugin rejects, grouped by reason."""
    for rejection in verdict.rejections:
        is_rejected = rejection.mask[group.rows]
        if is_rejected.any():
            yield Misplaced(plugin_name, rejection.reason, group.positions[is_rejected])


def _find_pods_with_port_conflict(group: _PodInfoGroup, view: Fork) -> Misplaced | None:
    """Return the pods of the group that share a host port with another pod on their node, or None if there are none.

    The filter of NodePorts cannot find these pods. It only knows that a port is in use, not by how many pods.
    """
    own_ports = group.info.host_ports
    if not own_ports:
        return None
    conflicting_ports = [
        port for port in view.pods.host_ports if any(port.conflicts_with(own_port) for own_port in own_ports)
    ]
    holder_counts = np.zeros(len(view.nodes), np.int64)
    for port in conflicting_ports:
        holder_counts += _count_port_holders(port, view)
    # Without another pod, only the pod itself is counted, once for each of its own ports
    count_without_conflict = sum(port in own_ports for port in conflicting_ports)
    has_conflict = holder_counts[group.rows] > count_without_conflict
    return Misplaced(PORTS, REASON, group.positions[has_conflict]) if has_conflict.any() else None


def _count_port_holders(port: HostPort, view: Fork) -> Counts:
    """Return the number of pods on each node that hold the port, shape (N,)."""
    return view.memo(
        ("holders", port), lambda: view.count_by_node(view.pods.mask_with_host_port(lambda used: used == port))
    )


def _iter_intolerant_pods(group: _PodInfoGroup, view: Fork, has_comparison_operators: bool) -> Iterator[Misplaced]:
    """Yield the pods of the group that do not tolerate a hard taint of their node, by effect and taint.

    Hard taints have the effect NoExecute or NoSchedule. Taints that report a temporary condition of the node do not
    count. `has_comparison_operators` says whether tolerations may compare numbers.
    """
    taint_sets, taint_set_by_node = view.nodes.taint_sets
    tolerations = group.info.spec.tolerations
    for number, taints in enumerate(taint_sets):
        has_taints: Bools = taint_set_by_node[group.rows] == number
        if not taints or not has_taints.any():
            continue
        lasting_taints = [taint for taint in taints if not _is_condition_taint(taint)]
        for effect in (NO_EXECUTE, NO_SCHEDULE):
            untolerated = find_untolerated_taint(lasting_taints, tolerations, (effect,), has_comparison_operators)
            if untolerated is not None:
                yield Misplaced(effect, f"taint {untolerated}", group.positions[has_taints])


def _is_condition_taint(taint: Taint) -> bool:
    """Return whether a NoSchedule taint reports a temporary condition of the node, such as a cordon."""
    return taint.effect == NO_SCHEDULE and (
        taint.key == UNSCHEDULABLE_TAINT.key or taint.key.startswith(CONDITION_TAINT_PREFIXES)
    )


def _merge_misplaced_pods(misplaced_groups: Sequence[Misplaced]) -> tuple[Misplaced, ...]:
    """Merge entries with the same plugin and reason, and sort them by number of pods, largest first."""
    groups: dict[tuple[str, str], list[Rows]] = {}
    for misplaced in misplaced_groups:
        groups.setdefault((misplaced.rejected_by, misplaced.reason), []).append(misplaced.positions)
    merged = [
        Misplaced(rejected_by, reason, np.unique(np.concatenate(positions)))
        for (rejected_by, reason), positions in groups.items()
    ]
    return tuple(sorted(merged, key=lambda entry: -len(entry.positions)))
