"""Running pods that would not be put where they are: each judged on its own node, as if it alone were not there.

Pods alike are judged together: one hypothesis takes one of them from each of their nodes, so that a plugin looks at all
nodes once for each distinct PodInfo, and only the plugins that have something to say of such a pod are asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Counts, Rows
from kschedctl.api.objects import Taint
from kschedctl.api.ownership import find_controller
from kschedctl.api.tolerations import UNSCHEDULABLE_TAINT, find_untolerated
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

AFFINITY, PORTS, SPREAD, PODS = NodeAffinity.name, NodePorts.name, PodTopologySpread.name, InterPodAffinity.name
VOLUMES = (VolumeRestrictions.name, VolumeZone.name, VolumeBinding.name)
UNLESS_EVICTED, NOT_WELCOME = "NoExecute", "NoSchedule"
STATES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""What controllers taint nodes with while something is the matter with them: no rule of anybody's about pods."""


class Misplaced(NamedTuple):
    """Pods, by their positions, that what ``refuses`` them, a plugin or the effect of a taint, would keep away."""

    refuses: str
    reason: str
    positions: Rows


class Replayed(NamedTuple):
    """``judged``: how many pods there were to judge; ``others``: how many more no profile serves."""

    misplaced: tuple[Misplaced, ...]
    judged: int
    others: int
    unknown: tuple[UnknownKind, ...]


class _PodsOfInfo(NamedTuple):
    """Bound pods that are alike: their positions, and the rows of their nodes."""

    number: int
    info: PodInfo
    positions: Rows
    rows: Rows


def replayed(scheduler: Scheduler, progress: Progress = NO_PROGRESS) -> Replayed:
    """All bound pods that the scheduler places, and that are to stay."""
    view = scheduler.view
    misplaceds: list[Misplaced] = []
    unknown: list[Unknown] = []
    judged = others = 0
    groups = list(_groups(view))
    done = progress.begin("Judging where pods are", len(groups))
    for group in groups:
        done(1)
        framework = scheduler.framework(group.info.spec.scheduler_name)
        if framework is None:
            others += len(group.positions)
            continue
        judged += len(group.positions)
        misplaceds += _clashing(group, view)
        misplaceds += _tainted(group, view, scheduler.gates.enabled("TaintTolerationComparisonOperators"))
        names = _with_a_say(group.info, framework, view)
        if names:
            asked, unknowns = scheduler.framework_for(group.info, view)
            unknown += (kind for kind in unknowns if kind.plugin in names)
            plugins = [asked.plugins[name] for name in names if name in asked.plugins] if asked else []
            misplaceds += _refused(plugins, group, view)
    return Replayed(_together(misplaceds), judged, others, summarize_unknowns(unknown, WHEN_SCHEDULABLE))


def _groups(view: Fork) -> Iterator[_PodsOfInfo]:
    """The bound pods by their infos, less those that leave, and those of nodes themselves or of DaemonSets.

    Kubelets make the pods of static manifests without asking a scheduler, and a DaemonSet's controller takes its pods
    away where they have no place any more.
    """
    order = np.argsort(view.pods.info, kind="stable")
    order = order[view.node[order] >= 0]
    infos = view.pods.info[order]
    bounds = [*np.flatnonzero(np.diff(infos, prepend=-1)).tolist(), len(order)]
    for start, stop in pairwise(bounds):
        number = int(infos[start])
        info = view.pods.infos[number]
        owner = find_controller(info.pod.metadata)
        if not info.terminating and (owner is None or owner.kind not in ("DaemonSet", "Node")):
            positions = order[start:stop]
            yield _PodsOfInfo(number, info, positions, view.node[positions].astype(np.int64))


def _with_a_say(info: PodInfo, framework: Framework, view: Fork) -> Sequence[str]:
    """The plugins that may refuse such a pod, for what it asks for."""
    spec, names = info.spec, []
    if spec.node_selector or (spec.affinity and spec.affinity.node_affinity) or _added_affinity(framework):
        names.append(AFFINITY)
    if any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in spec.topology_spread_constraints):
        names.append(SPREAD)
    if info.required_affinity or info.required_anti_affinity:
        names.append(PODS)
    return [*names, *VOLUMES] if spec.volumes else names


def _added_affinity(framework: Framework) -> bool:
    """Whether the profile has terms of its own for all its pods."""
    return getattr(framework.plugins.get(AFFINITY), "added_required", None) is not None


def _refused(plugins: Sequence[Plugin], group: _PodsOfInfo, view: Fork) -> Iterator[Misplaced]:
    """What the plugins say of their pods' own nodes, with one of them gone from each."""
    rows = np.unique(group.rows).astype(np.int32)
    gone = Delta.from_changes(rows, np.full(len(rows), group.number, np.int32), np.full(len(rows), -1))
    for plugin in plugins:
        state = None
        try:
            if offers(plugin, PreFilterPlugin):
                result = plugin.pre_filter(group.info, view)
                if result.status.code is not Code.SUCCESS:
                    continue
                state = result.state
            if offers(plugin, FilterPlugin):
                verdict = PluginVerdict.from_rejections(plugin.filter(group.info, view, state, gone), len(view.nodes))
                yield from _misplaced(plugin.name, verdict, group)
        except PluginError:
            continue  # it cannot be asked about a pod that runs: what it leans on is gone


def _misplaced(name: str, verdict: PluginVerdict, group: _PodsOfInfo) -> Iterator[Misplaced]:
    for rejection in verdict.rejections:
        mine = rejection.mask[group.rows]
        if mine.any():
            yield Misplaced(name, rejection.reason, group.positions[mine])


def _clashing(group: _PodsOfInfo, view: Fork) -> Iterator[Misplaced]:
    """The pods whose host port another pod of the node holds too; the plugin knows a port as held, not how often."""
    mine = group.info.host_ports
    if not mine:
        return
    held = view.memo("ports that are held", lambda: {port for info in view.pods.infos for port in info.host_ports})
    clashing = [port for port in held if any(port.conflicts(own) for own in mine)]
    others = sum((_holders(port, view) for port in clashing), np.zeros(len(view.nodes), np.int64))
    beside = others[group.rows] > sum(port in mine for port in clashing)
    if beside.any():
        yield Misplaced(PORTS, REASON, group.positions[beside])


def _holders(port: HostPort, view: Fork) -> Counts:
    """(N,): how many pods of each node hold the port."""
    return view.memo(
        ("holders", port), lambda: view.count_by_node(view.pods.where(lambda info: port in info.host_ports))
    )


def _tainted(group: _PodsOfInfo, view: Fork, comparison_operators: bool) -> Iterator[Misplaced]:
    taint_sets, taint_set = view.nodes.taint_sets
    for number, taints in enumerate(taint_sets):
        on: Bools = taint_set[group.rows] == number
        if not (taints and on.any()):
            continue
        for effect in (UNLESS_EVICTED, NOT_WELCOME):
            lasting = [taint for taint in taints if not _is_state(taint)]
            untolerated = find_untolerated(lasting, group.info.spec.tolerations, (effect,), comparison_operators)
            if untolerated is not None:
                yield Misplaced(effect, f"taint {untolerated}", group.positions[on])


def _is_state(taint: Taint) -> bool:
    return taint.effect == NOT_WELCOME and (taint.key == UNSCHEDULABLE_TAINT.key or taint.key.startswith(STATES))


def _together(misplaceds: Sequence[Misplaced]) -> tuple[Misplaced, ...]:
    """One for all pods of which the same is said, the most pods first."""
    groups: dict[tuple[str, str], list[Rows]] = {}
    for misplaced in misplaceds:
        groups.setdefault((misplaced.refuses, misplaced.reason), []).append(misplaced.positions)
    joined = (Misplaced(*key, np.unique(np.concatenate(positions))) for key, positions in groups.items())
    return tuple(sorted(joined, key=lambda group: -len(group.positions)))
