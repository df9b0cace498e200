"""Failures whose outcome is certain without a replay, since every displaced pod surely fits or surely does not fit.

A replay decides which node each pod gets. Most reports need to know only whether it gets one. A pod surely gets a node
if, at the start, it fits on at least as many nodes as there are displaced pods: each of the others changes the verdict
about at most one node, namely the node that it gets. Nothing is evicted, since no pod that might preempt is left
without a node. The proofs hold for any order of the pods.

The proofs also hold before the lost nodes are deleted, unless a spread constraint has a domain in which only lost nodes
are left. Terminating pods take no room on other nodes, are not counted for spreading, and only help required affinity.
Their anti-affinity matters only on the lost nodes, since anti-affinity in larger domains proves nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.labels import SelectorError
from kschedctl.replay.parallel import report_parts
from kschedctl.replay.settling import schedule_with_victims
from kschedctl.replay.shared_cluster import SharedCluster
from kschedctl.scheduler.engine.cycle import run_pre_filter
from kschedctl.scheduler.engine.reserve import find_reserve_plugins, uses_claims
from kschedctl.scheduler.framework import Code, PluginError, Reads, get_reads
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import FilterState
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.pod_topology_spread.constraints import HARD, SpreadConstraint, tally_matching_pods
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.scheduler import Framework
from kschedctl.scheduler.simulation.claim_answers import RejectingPlugin, find_rejected_nodes
from kschedctl.scheduler.simulation.outcome import SCHEDULED, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.delta import NO_CHANGE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class _Kind(NamedTuple):
    """Pods with the same PodInfo, as they arrive in the queue."""

    framework: Framework
    info: PodInfo
    fits: Bools | None = None
    """The nodes (N,) of the whole cluster on which they fit, apart from spreading and affinity.

    The mask is None if they might fit nowhere, which has to be found out for each pod.
    """
    affinity: RejectingPlugin | None = None
    """The plugin InterPodAffinity, if it may reject nodes."""
    spread_key: str = ""
    """The topology key of their hard spread constraint whose domains have several nodes, "" for none."""


class CertainOutcomes(NamedTuple):
    """The outcomes of all pods of a failure."""

    outcomes: list[Outcome]
    """The outcomes in the order of the queue, but pods that fit nowhere come last.

    Pods that get a node are not placed there. Their outcomes have one of the nodes on which they fit.
    """
    hold_before_deletion: bool
    """True if the same pods surely get a node before the lost nodes are deleted."""


def find_certain_outcomes(
    shared: SharedCluster, simulation: Simulation, is_lost_node: Bools, recreated: Sequence[Position]
) -> CertainOutcomes | None:
    """Return the outcomes of the recreated pods, or None if only a replay of all of them can tell.

    `simulation` is the cluster after the loss of the nodes in the mask (N,).
    """
    view = simulation.view
    rows, _ = view.nominations
    unsure_rows, _ = view.unsure_nominations
    if simulation.placements.sampling or len(rows) or len(unsure_rows) or len(recreated) > len(view.nodes):
        return None

    kinds = shared.get_cached(_Kinds)
    row_by_info: dict[int, Row] = {}
    spread_keys = set()
    placed = []
    rejected = []
    for position in simulation.sort_for_queue(recreated):
        number = view.pods.get_info_number(position)
        kind = kinds.find_kind(position, number)
        if kind is None:
            return None
        simulation.find_framework(position)  # records what is unknown about the profile, as a replay does
        if kind.fits is None:
            if not _is_rejected_for_good(kind, simulation.arriving(position), view):
                return None
            rejected.append(position)
            continue
        if number not in row_by_info:
            row = _find_certain_row(kind, view, ~is_lost_node, len(recreated))
            if row is None:
                return None
            row_by_info[number] = row
            if kind.spread_key:
                spread_keys.add(kind.spread_key)
        placed.append(Outcome(position, SCHEDULED, row=row_by_info[number]))

    for _ in placed:
        report_parts(1)
    outcomes = placed + schedule_with_victims(simulation, rejected, report_parts)
    return CertainOutcomes(outcomes, _has_every_domain(shared.scheduler.view, is_lost_node, spread_keys))


def _has_every_domain(view: Fork, is_lost_node: Bools, keys: Iterable[str]) -> bool:
    """Return whether each domain of these topology keys still has a node without the nodes in the mask (N,)."""
    for key in keys:
        domains = view.nodes.label(key)
        remaining = (domains.present & ~is_lost_node).nonzero()[0]
        if np.count_nonzero(domains.count_rows(remaining)) < domains.occupied:
            return False
    return True


def _is_rejected_for_good(kind: _Kind, info: PodInfo, view: Fork) -> bool:
    """Return whether a PreFilter plugin rejects a pod of this kind, no matter which pods run where.

    `info` is the PodInfo of the pod, which may have claims of its own.
    """
    plugins = kind.framework.plugins_at("preFilter")
    try:
        pre_filter = run_pre_filter(plugins, info, view)
    except PluginError:
        return False
    if pre_filter.status.code is not Code.UNRESOLVABLE:  # preemption might help then
        return False
    deciding = next((plugin for plugin in plugins if plugin.name == pre_filter.plugin), None)
    return deciding is not None and get_reads(deciding, pre_filter.results[deciding.name]) is Reads.NODES


def _find_certain_row(kind: _Kind, view: Fork, is_remaining: Bools, pods: int) -> Row | None:
    """Return a row of the remaining nodes on which pods of this kind fit, or None if they might fit nowhere in the end.

    `view` has the remaining nodes, `is_remaining` is their mask (N,) in the whole cluster, and `pods` is the number of
    displaced pods. The pods of the kind surely fit if there are as many nodes for them. With a spread constraint, there
    have to be as many in each domain, since spreading never rejects the domain with the fewest pods.
    """
    assert kind.fits is not None
    fits = kind.fits[is_remaining]
    if kind.affinity is not None:
        try:
            fits &= _find_nodes_with_lasting_affinity(kind.affinity, kind.info, view)
        except PluginError:
            return None
    if kind.spread_key:
        domains = view.nodes.label(kind.spread_key)
        fits &= domains.present
        nodes_by_domain = domains.count_rows(domains.present.nonzero()[0])
        if (domains.count_rows(fits.nonzero()[0])[nodes_by_domain > 0] < pods).any():
            return None
    if np.count_nonzero(fits) < pods:
        return None
    return Row(int(fits.argmax()))


def _find_nodes_with_lasting_affinity(plugin: RejectingPlugin, info: PodInfo, view: Fork) -> Bools:
    """Return a mask (N,) of the nodes that required affinity and anti-affinity allow until a pod comes to the node.

    The mask is empty if pods on other nodes could change the verdict. This is so if a term of anti-affinity has domains
    of several nodes, and if no pod matches the terms of affinity yet. Raises PluginError if the plugin fails.
    """
    result = plugin.run_pre_filter(info, view)
    state = result.state
    if isinstance(state, FilterState):
        keys = {term.topology_key for term in state.anti_affinity_terms} | set(state.existing_anti_affinity.counts)
        is_first = bool(state.affinity_terms) and state.affinity.is_empty
        if is_first or not all(view.nodes.label(key).separates_nodes for key in keys):
            return np.zeros(len(view.nodes), np.bool_)
    elif result.status.code is not Code.SKIP:
        return np.zeros(len(view.nodes), np.bool_)
    return ~(find_rejected_nodes(plugin, result, info, view, NO_CHANGE) | np.zeros(len(view.nodes), np.bool_))


class _Kinds:
    """The kinds of pods in the cluster before any loss, each of which is judged once in each process."""

    def __init__(self, shared: SharedCluster) -> None:
        self._simulation = Simulation(shared.scheduler)
        self._kinds: dict[int, _Kind | None] = {}
        self._masks: dict[bytes, Bools] = {}
        """The distinct masks of nodes, which many kinds share."""

    def find_kind(self, position: Position, number: int) -> _Kind | None:
        """Return the kind of a pod, or None if only a replay can tell whether such pods fit.

        `number` is the number of its PodInfo.
        """
        if number not in self._kinds:
            try:
                self._kinds[number] = self._judge_kind(position, number)
            except (PluginError, SelectorError):
                self._kinds[number] = None
        return self._kinds[number]

    def _judge_kind(self, position: Position, number: int) -> _Kind | None:
        """Judge a kind in the cluster before any loss.

        Raises PluginError if a plugin fails, and SelectorError if a selector is invalid.
        """
        simulation = self._simulation
        framework = simulation.find_framework(position)
        if framework is None or not self._is_tried_alone(framework, position):
            return None
        info = simulation.get_shared_incoming_info(position)
        if uses_claims(info, simulation.view) or find_reserve_plugins(framework, info.spec):
            return _Kind(framework, info)
        alike_pods = simulation.placements.get_alike_pods(framework, info, number)
        if alike_pods.hopeless:
            return _Kind(framework, info)

        # Only two of the plugins that look at other nodes are understood here.
        plugins = {type(rejecting.plugin): rejecting for rejecting in alike_pods.changing_filters}
        affinity = plugins.pop(InterPodAffinity, None)
        spread = plugins.pop(PodTopologySpread, None)
        constraints = [] if spread is None else spread.plugin.settings.get_constraints(info, simulation.view, HARD)
        by_node = [constraint for constraint in constraints if self._separates_nodes(constraint)]
        by_domain = [constraint for constraint in constraints if not self._separates_nodes(constraint)]
        if plugins or len(by_domain) > 1 or any(constraint.min_domains > 1 for constraint in by_domain):
            return None

        # A node is never rejected for a constraint by node as long as it has no matching pod.
        fits = alike_pods.mask_possible_nodes()
        for constraint in by_node:
            counts = tally_matching_pods(constraint, info, simulation.view).bring_up_to_date(simulation.view.trail)
            fits = fits & (counts == 0) & simulation.view.nodes.label(constraint.topology_key).present
        spread_key = by_domain[0].topology_key if by_domain else ""
        return _Kind(framework, info, self._masks.setdefault(fits.tobytes(), fits), affinity, spread_key)

    def _is_tried_alone(self, framework: Framework, position: Position) -> bool:
        """Return whether the pod is tried without other pods, and no gate, extender or Permit plugin may reject it."""
        simulation = self._simulation
        if framework.extenders or framework.plugins_at("permit"):
            return False
        is_in_group = simulation.gangs.find_group_key(position) is not None
        return not is_in_group and simulation.find_outcome_without_cycle(position, framework) is None

    def _separates_nodes(self, constraint: SpreadConstraint) -> bool:
        """Return whether each node is a domain of its own for the constraint."""
        return self._simulation.view.nodes.label(constraint.topology_key).separates_nodes
