"""The time before lost nodes are deleted, in which they are unreachable and their deleted pods stay Terminating.

kube-controller-manager taints the nodes and deletes the pods that do not tolerate the taint. Most controllers create
the replacements at once. The scheduler still counts the nodes, and it counts Terminating pods for everything but
spreading. Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go, pkg/controller/tainteviction,
pkg/controller/volume/attachdetach (v1.36).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from kschedctl.api.arrays import Bools, Position, Row, Rows
from kschedctl.api.copying import replace
from kschedctl.api.labels import Selector, selector_from_api
from kschedctl.api.node_health import UNREACHABLE_TAINT
from kschedctl.api.objects import Node, Pod, Taint
from kschedctl.api.ownership import find_controller
from kschedctl.api.tolerations import tolerates
from kschedctl.replay.certain_fits import FitProver
from kschedctl.replay.controllers.eviction import find_jobs_awaiting_termination, is_ready
from kschedctl.replay.controllers.target_pod import find_groups_of_pod
from kschedctl.replay.pools import find_unready_nodes
from kschedctl.replay.settling import schedule_victims_until_stable
from kschedctl.replay.shared_cluster import SharedCluster
from kschedctl.replay.terminating_pods import LingeringPods, add_stand_ins
from kschedctl.replay.volumes import is_attached_to_one_node
from kschedctl.reports.lost_nodes import LatePods, LateReason, PodsWaitingForDeletion, WaitingRule
from kschedctl.scheduler.engine.diagnosis import run_post_filter
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.engine.preemption.evaluator import Preemption
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from kschedctl.scheduler.plugins.helper.volume_listers import READ_WRITE_ONCE_POD, get_listers, iter_claim_volumes
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import do_terms_select_pod
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.inter_pod_affinity.topology_counts import find_infos_matching_term
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.outcome import NOT_TRIED, Outcome
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.nodes import get_region_and_zone
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

PLUGIN_BY_RULE = {
    WaitingRule.SPREAD: PodTopologySpread.name,
    WaitingRule.LATE_PODS: PodTopologySpread.name,
    WaitingRule.AFFINITY: InterPodAffinity.name,
    WaitingRule.CLAIM_IN_USE: VolumeRestrictions.name,
    WaitingRule.DEVICE_IN_USE: DynamicResources.name,
}
"""The plugin that applies each rule."""
UNHEALTHY_ZONE_THRESHOLD = 0.55
"""The share of nodes of a zone that are not ready from which on no more pods are deleted there.

This is the default of kube-controller-manager's --unhealthy-zone-threshold.
"""
LARGE_ZONE = 50
"""The number of nodes above which pods are deleted in such a zone after all, only more slowly.

This is the default of --large-cluster-size-threshold.
"""
NO_EXECUTE = Taint(UNREACHABLE_TAINT, "", "NoExecute")
UNREACHABLE = (Taint(UNREACHABLE_TAINT, "", "NoSchedule"), NO_EXECUTE)
"""The taints of a node whose kubelet no longer reports."""


@dataclass(frozen=True, eq=False)
class LostPods:
    """The pods on lost nodes, by what happens to them before the nodes are deleted. Pods are positions."""

    is_lost_node: Bools
    """(N,)"""
    deleted: Rows
    """The pods that are deleted. They stay Terminating, unless they have no grace period."""
    late_by_reason: dict[LateReason, list[Position]]
    """The pods that are not replaced before the nodes are deleted."""

    @cached_property
    def late(self) -> frozenset[Position]:
        """All pods that are not replaced before the nodes are deleted."""
        return frozenset(position for positions in self.late_by_reason.values() for position in positions)


def classify_lost_pods(shared: SharedCluster, is_lost_node: Bools, recreated: Sequence[Position]) -> LostPods:
    """Classify the pods on the lost nodes by what happens to them before the nodes are deleted.

    `is_lost_node` is a mask (N,). `recreated` are the pods that controllers recreate sooner or later. A recreated pod
    is late because evictions are stopped, because the pod is not deleted, or because the controller waits for the pod's
    end. If several of these reasons apply, only the first counts.
    """
    view = shared.scheduler.view
    kinds = shared.get_cached(_classify_pod_infos)
    is_node_without_evictions = _find_nodes_without_evictions(shared, is_lost_node)

    # The pods that are deleted, out of all pods on the lost nodes
    lost_pods = _find_pods_on(view, is_lost_node)
    info_of_lost = view.pods.info[lost_pods]
    keeps_running = kinds.tolerates_loss[info_of_lost] | is_node_without_evictions[view.node[lost_pods]]
    is_terminating = view.pods.terminating[info_of_lost]
    deleted_pods = lost_pods[~keeps_running & ~is_terminating]

    # The reason for which each recreated pod is late, if there is one
    recreated_pods = np.array(recreated, np.int64)
    info_of_recreated = view.pods.info[recreated_pods]
    is_eviction_stopped = is_node_without_evictions[view.node[recreated_pods]]
    is_tolerating = ~is_eviction_stopped & kinds.tolerates_loss[info_of_recreated]
    is_awaited = ~is_eviction_stopped & ~is_tolerating & kinds.is_replaced_after_end[info_of_recreated]
    late_by_reason = {
        LateReason.CONTROLLER_WAITS: _select(recreated_pods, is_awaited),
        LateReason.NOT_DELETED: _select(recreated_pods, is_tolerating),
        LateReason.EVICTIONS_STOPPED: _select(recreated_pods, is_eviction_stopped),
    }
    return LostPods(is_lost_node, deleted_pods, late_by_reason)


def _select(positions: Rows, mask: Bools) -> list[Position]:
    """Return the positions (K,) that the mask (K,) selects."""
    selected: list[Position] = positions[mask].tolist()
    return selected


def find_healthy_lost_pods(shared: SharedCluster, is_lost_node: Bools) -> list[Position]:
    """Return the pods on lost nodes that count as healthy for some PodDisruptionBudget.

    Once their nodes are lost, these pods no longer count as healthy. Preemption then avoids the other pods of these
    budgets.
    """
    view = shared.scheduler.view
    lost_pods = _find_pods_on(view, is_lost_node)
    return _select(lost_pods, shared.get_cached(_find_healthy_budgeted_pods)[view.pods.info[lost_pods]])


def _find_healthy_budgeted_pods(shared: SharedCluster) -> Bools:
    """Return a mask over the PodInfos whose pods are healthy and protected by some PodDisruptionBudget."""
    view = shared.scheduler.view
    return get_budgets(view).protected_infos & view.pods.where(lambda info: not info.terminating and is_ready(info.pod))


class _PodKinds(NamedTuple):
    """Masks over the distinct PodInfos, (T,) each."""

    tolerates_loss: Bools
    """The pods that are not deleted while their node is unreachable."""
    is_replaced_after_end: Bools
    """The pods that are replaced only once they have disappeared, which takes the deletion of the node."""
    keeps_devices: Bools
    """The pods that use a ResourceClaim which their replacements use as well, so that its devices stay allocated."""


def _classify_pod_infos(shared: SharedCluster) -> _PodKinds:
    """Return masks over the cluster's PodInfos for what happens to pods on unreachable nodes.

    The masks select the pods that are not deleted, the pods whose controllers replace them only once they have
    disappeared, and the pods whose shared devices stay allocated.
    """
    view = shared.scheduler.view
    waiting_jobs = find_jobs_awaiting_termination(view.cluster)

    def is_replaced_after_end(info: PodInfo) -> bool:
        """Return whether the pod's controller waits until the pod has disappeared."""
        controller = find_controller(info.pod.metadata)
        if controller is None or not _has_grace_period(info.pod):
            return False
        is_of_waiting_job = controller.kind == "Job" and (info.namespace, controller.name) in waiting_jobs
        return controller.kind == "StatefulSet" or is_of_waiting_job

    return _PodKinds(
        tolerates_loss=view.pods.where(lambda info: _tolerates_loss(info.pod)),
        is_replaced_after_end=view.pods.where(is_replaced_after_end),
        keeps_devices=view.pods.where(_uses_shared_device_claim),
    )


def _tolerates_loss(pod: Pod) -> bool:
    """Return whether the pod tolerates an unreachable node for ever. Only the first toleration of the taint counts."""
    tolerations = (toleration for toleration in pod.spec.tolerations if tolerates(toleration, NO_EXECUTE))
    toleration = next(tolerations, None)
    return toleration is not None and toleration.toleration_seconds is None


def _has_grace_period(pod: Pod) -> bool:
    """Return whether the pod disappears only once its kubelet confirms its end. Otherwise, it disappears at once."""
    return pod.spec.termination_grace_period_seconds != 0


def _lingers(pod: Pod) -> bool:
    """Return whether the pod stays Terminating while its node is unreachable.

    Return False for members of gangs, because a gang would count a Terminating pod as an additional member.
    """
    return _has_grace_period(pod) and not pod.terminated and not _tolerates_loss(pod) and not find_groups_of_pod(pod)


def _find_nodes_without_evictions(shared: SharedCluster, is_lost_node: Bools) -> Bools:
    """Return a mask (N,) of the lost nodes whose pods kube-controller-manager does not delete.

    If all zones are down, the mask has all lost nodes. Otherwise, the mask has the lost nodes of small zones in which
    most nodes and more than two are down, but not all. Upstream: ComputeZoneState and handleDisruption in
    pkg/controller/nodelifecycle/node_lifecycle_controller.go (v1.36).
    """
    zone_of_node = shared.get_cached(_code_zones)
    is_down = is_lost_node | shared.get_cached(_find_unready_nodes)
    nodes_per_zone = np.bincount(zone_of_node)
    down_per_zone = np.bincount(zone_of_node[is_down], minlength=len(nodes_per_zone))
    is_zone_down = down_per_zone == nodes_per_zone
    if is_zone_down.all():
        return is_lost_node
    is_mostly_down = down_per_zone / nodes_per_zone >= UNHEALTHY_ZONE_THRESHOLD
    # upstream ignores up to two nodes that are down, however small their zone
    is_partially_disrupted = is_mostly_down & ~is_zone_down & (down_per_zone > 2)
    has_no_evictions: Bools = is_partially_disrupted & (nodes_per_zone <= LARGE_ZONE)
    return is_lost_node & has_no_evictions[zone_of_node]


def _code_zones(shared: SharedCluster) -> Rows:
    """Return the number of each node's region and zone, (N,)."""
    numbers: dict[tuple[str, str], int] = {}
    nodes = shared.scheduler.view.nodes.objects
    return np.array([numbers.setdefault(get_region_and_zone(node), len(numbers)) for node in nodes], np.int64)


def _find_unready_nodes(shared: SharedCluster) -> Bools:
    """Return a mask (N,) of the nodes that are not ready in the snapshot."""
    return find_unready_nodes(shared.scheduler.view)


class PodsBeforeDeletion(NamedTuple):
    """The pods that the loss of nodes leaves without a running replacement until the nodes are deleted."""

    waiting: tuple[PodsWaitingForDeletion, ...] = ()
    """The pods that fit nowhere before, and get a node afterwards."""
    late: tuple[LatePods, ...] = ()
    """The other pods that get a node in the end, but run again only afterwards."""


def report_pods_before_deletion(
    shared: SharedCluster,
    is_lost_node: Bools,
    recreated: Sequence[Position],
    outcomes: Sequence[Outcome],
    seed: int,
    *,
    may_wait: bool = True,
) -> PodsBeforeDeletion:
    """Report the pods that wait or run late until the lost nodes are deleted.

    The cluster is the one before the loss, and `is_lost_node` is a mask (N,). `recreated` are the displaced pods that
    controllers recreate, in the order in which the pods return. `outcomes` are those after the deletion. Nothing is
    replayed if it is certain that no pod waits (`may_wait` is False). Raises KeyboardInterrupt if the user interrupts.
    """
    lost_pods = classify_lost_pods(shared, is_lost_node, recreated)
    waiting = find_waiting_pods(shared, lost_pods, recreated, outcomes, seed) if may_wait else ()
    return PodsBeforeDeletion(waiting, _report_late_pods(shared.scheduler.view, lost_pods, outcomes, waiting))


def _report_late_pods(
    view: Fork, lost_pods: LostPods, outcomes: Sequence[Outcome], waiting: Sequence[PodsWaitingForDeletion]
) -> tuple[LatePods, ...]:
    """Report the pods that get a node in the end, but run again only once the lost nodes are deleted.

    Pods that `waiting` already reports are left out.
    """
    placed = [outcome.position for outcome in outcomes if outcome.row >= 0]
    placed_set = frozenset(placed)
    late_by_reason = {
        reason: [position for position in positions if position in placed_set]
        for reason, positions in lost_pods.late_by_reason.items()
    }

    # Replacements of deleted pods get a node early, but may have to wait for a volume of the old pod
    late, deleted = lost_pods.late, frozenset(lost_pods.deleted.tolist())
    placed_early = [position for position in placed if position in deleted and position not in late]
    late_by_reason[LateReason.VOLUME_ATTACHED] = find_pods_with_attached_volumes(view, placed_early)

    waiting_keys = {pod for group in waiting for pod in group.pods}
    reports = []
    for reason, positions in late_by_reason.items():
        keys = [key for key in map(view.pods.objects.get_key, positions) if key not in waiting_keys]
        if keys:
            reports.append(LatePods(reason, tuple(keys)))
    return tuple(reports)


# -- pods that get a node and start late -----------------------------------------------------------------------------


def find_pods_with_attached_volumes(view: Fork, positions: Iterable[Position]) -> list[Position]:
    """Return the pods that have a volume which only one node may attach at a time.

    Such a volume stays attached to the lost node while the old pod exists, so that a replacement on another node does
    not start. Upstream: IsMultiAttachAllowed in pkg/volume/util/util.go (v1.36).
    """
    storage = get_listers(view)
    attached = []
    for position in positions:
        info = view.pods.infos[int(view.pods.info[position])]
        if not info.spec.volumes:  # most pods, which need not be decoded then
            continue
        pod = view.pods.objects[position]
        claims = (storage.claims.get((pod.metadata.namespace, source.claim_name)) for source in iter_claim_volumes(pod))
        volumes = (storage.volumes.get(claim.spec.volume_name) for claim in claims if claim is not None)
        if any(volume is not None and is_attached_to_one_node(volume, storage.drivers) for volume in volumes):
            attached.append(position)
    return attached


# -- pods that fit nowhere yet ---------------------------------------------------------------------------------------


def find_waiting_pods(
    shared: SharedCluster, lost: LostPods, recreated: Sequence[Position], outcomes: Sequence[Outcome], seed: int
) -> tuple[PodsWaitingForDeletion, ...]:
    """Return the pods that get a node only once the lost nodes are deleted, grouped by the rule that keeps them out.

    `recreated` are the displaced pods in the order in which they return, and `outcomes` are those after the deletion.
    Nothing is replayed if no rule makes a difference for the pods. Raises KeyboardInterrupt if the simulation was
    interrupted.
    """
    late = lost.late
    placed_in_the_end = [outcome.position for outcome in outcomes if outcome.row >= 0]
    placed_early = [position for position in placed_in_the_end if position not in late]
    # Late pods that fit nowhere in the end make no difference, unless they stay on their nodes before
    terminating = lost.late_by_reason[LateReason.CONTROLLER_WAITS]
    late_pods_that_matter = (late - frozenset(terminating)) | late.intersection(placed_in_the_end)
    rules = _find_rules_that_matter(shared, lost, placed_early, late_pods_that_matter)
    if not rules:
        return ()

    # Without Terminating pods, it may be certain which pods wait
    concerns_only_spreading = rules <= {WaitingRule.SPREAD, WaitingRule.LATE_PODS}
    need_stand_ins = not concerns_only_spreading or _affect_scores(shared, lost)
    if not need_stand_ins:
        waiting = _find_pods_kept_out_by_spreading(shared, lost, recreated, outcomes, seed)
        if waiting is not None and (WaitingRule.SPREAD in rules or not waiting):
            keys = tuple(map(shared.scheduler.view.pods.objects.get_key, waiting))
            return (PodsWaitingForDeletion(WaitingRule.SPREAD, keys),) if keys else ()

    # Replay the time before the deletion, with stand-ins for Terminating pods only if these can matter
    stage = shared.get_cached(_build_stage_with_stand_ins) if need_stand_ins else _WHOLE_CLUSTER
    simulation = _start_simulation_before_deletion(shared, stage, lost, placed_early, seed)
    early = [stage.find_position(position) for position in recreated if position not in late]
    simulation.gone.difference_update(early)
    early_outcomes = schedule_victims_until_stable(simulation, simulation.schedule(early))
    if simulation.interrupted:
        raise KeyboardInterrupt

    # Pods that get no node after the deletion either do not wait for it.
    get_shared_key = shared.scheduler.view.pods.objects.get_key
    unplaced_later = {get_shared_key(outcome.position) for outcome in outcomes if outcome.row < 0}
    unplaced_early = [outcome.position for outcome in early_outcomes if outcome.row < 0]
    return _group_waiting_pods_by_rule(simulation, unplaced_early, unplaced_later, rules)


def _group_waiting_pods_by_rule(
    simulation: Simulation, unplaced: Iterable[Position], unplaced_later: Container[str], rules: set[WaitingRule]
) -> tuple[PodsWaitingForDeletion, ...]:
    """Group the pods that get no node before the deletion by the rule that keeps them out.

    ``unplaced`` are positions in the simulation. The pods with a key in ``unplaced_later`` are left out.
    """
    pods_by_rule: dict[WaitingRule, list[str]] = {}
    for position in unplaced:
        key = simulation.view.pods.objects.get_key(position)
        if key not in unplaced_later:
            rule = _find_waiting_rule(simulation, position, rules)
            pods_by_rule.setdefault(rule, []).append(key)
    return tuple(PodsWaitingForDeletion(rule, tuple(pods)) for rule, pods in pods_by_rule.items())


def _find_pods_kept_out_by_spreading(
    shared: SharedCluster, lost: LostPods, recreated: Sequence[Position], outcomes: Sequence[Outcome], seed: int
) -> list[Position] | None:
    """Return the pods that wait if only hard spread constraints make pods wait, or None if only a full replay can tell.

    The waiting pods are found without a replay. The other pods are replayed until it is certain that the untried ones
    fit. The arguments are those of `find_waiting_pods`. Raises KeyboardInterrupt if the simulation was interrupted.
    """
    early = [position for position in recreated if position not in lost.late]
    unplaced_later = frozenset(outcome.position for outcome in outcomes if outcome.row < 0).intersection(early)
    simulation = _start_simulation_before_deletion(shared, _WHOLE_CLUSTER, lost, early, seed)
    prover = FitProver(shared, simulation, lost.is_lost_node)
    if not prover.is_applicable:
        return None
    if not all(_is_rejected_for_volumes(simulation, position) for position in unplaced_later):
        return None

    candidates = [position for position in early if position not in unplaced_later]
    kept_out = prover.find_pods_without_place(candidates)
    if kept_out is None:
        return None
    kept_out_set = frozenset(kept_out)
    tried = [position for position in candidates if position not in kept_out_set]
    is_certain = prover.build_stop_rule(simulation.sort_for_queue(tried))

    def may_stop(untried: int, waiting: Collection[Position]) -> bool:
        """Return whether the untried pods surely fit, or a pod fits nowhere, so that only a full replay can tell."""
        return bool(waiting) or bool(simulation.evictions) or is_certain(untried, waiting)

    simulation.gone.difference_update(tried)
    tried_outcomes = simulation.schedule(tried, stop_rule=may_stop)
    if simulation.interrupted:
        raise KeyboardInterrupt
    has_failed = any(not outcome.is_placed and outcome.verdict != NOT_TRIED for outcome in tried_outcomes)
    return None if has_failed or simulation.evictions else kept_out


def _is_rejected_for_volumes(simulation: Simulation, position: Position) -> bool:
    """Return whether it is certain that all nodes reject a pod with bound volumes, no matter which pods run where.

    Return False for a pod that has no claims, an unbound claim or ResourceClaims. Return False as well for a member of
    a gang, for a pod that no profile serves, and if a plugin fails.
    """
    framework = simulation.find_framework(position)
    info = simulation.build_arriving_info(position)
    is_gang_member = simulation.gangs.find_group_key(position) is not None
    if framework is None or is_gang_member or info.spec.resource_claims:
        return False
    storage = get_listers(simulation.view)
    claims = [storage.claims.get((info.namespace, source.claim_name)) for source in iter_claim_volumes(info.pod)]
    are_all_bound = all(claim is not None and claim.spec.volume_name for claim in claims)
    if not claims or not are_all_bound:
        return False
    try:
        number = simulation.view.pods.get_info_number(position)
        alike_pods = simulation.placements.get_alike_pods(framework, info, number)
        return alike_pods.are_all_nodes_rejected_for_good(info)
    except PluginError:
        return False


def _find_waiting_rule(simulation: Simulation, position: Position, rules: set[WaitingRule]) -> WaitingRule:
    """Return the first of these rules whose plugin rejects the pod, or OTHER_PODS if there is none.

    Only the first plugin that rejects the pod on a node counts there. If no plugin of these rules counts on any node,
    the plugins that keep the pod from preempting count instead.
    """
    rejectors = simulation.find_rejectors(position).all
    if rejectors.isdisjoint(PLUGIN_BY_RULE[rule] for rule in rules):
        rejectors = _find_rejectors_of_preemption(simulation, position)
    for rule, plugin in PLUGIN_BY_RULE.items():
        if rule in rules and plugin in rejectors:
            return rule
    return WaitingRule.OTHER_PODS


def _find_rejectors_of_preemption(simulation: Simulation, position: Position) -> frozenset[str]:
    """Return the plugins that reject a pod which fits nowhere even on nodes without the pods that it may preempt."""
    cycle = simulation.run_cycle(position)
    if cycle.error is not None or cycle.schedulable:
        return frozenset()
    reports = (result.report for result in run_post_filter(cycle).results.values())
    dry_runs = [report.run for report in reports if isinstance(report, Preemption) and report.run is not None]
    return frozenset(
        plugin
        for dry_run in dry_runs
        if dry_run.rejected_by_filters.any()
        for plugin, _, reported in dry_run.outcome_without_victims.iter_reported_verdicts()
        if (reported & dry_run.rejected_by_filters).any()
    )


class _Demands(NamedTuple):
    """The demands of pods with one PodInfo that can make a difference as long as lost nodes exist."""

    spread_keys: frozenset[str]
    """The topology keys of hard spread constraints that count unreachable nodes."""
    spread_selectors: tuple[Selector, ...]
    """The selectors of all hard spread constraints."""
    namespace: str
    affinity: tuple[AffinityTerm, ...]
    """Its terms of required affinity, which Terminating pods satisfy as well."""
    selects_itself: bool
    """True if these terms select the pod itself, so that it may go anywhere as long as they select no other pod."""
    anti_affinity_keys: frozenset[str]
    """The topology keys of its required anti-affinity."""
    terms: tuple[AffinityTerm, ...]
    """All its terms of pod affinity and anti-affinity, including preferred ones."""
    exclusive_claim: bool
    """True if only one pod may use one of its claims."""
    shared_device_claim: bool
    """True if it uses a ResourceClaim that was not created for the pod."""


def _find_pod_demands(view: Fork, info: PodInfo) -> _Demands:
    """Return the demands of pods like `info` that lost nodes can affect: affinity, spreading and claims."""
    hard_constraints = [
        constraint
        for constraint in info.spec.topology_spread_constraints
        if constraint.when_unsatisfiable == "DoNotSchedule"
    ]
    # Lost nodes are tainted as unreachable, so constraints that honor taints do not count their domains
    keys_counting_lost_nodes = frozenset(
        constraint.topology_key for constraint in hard_constraints if constraint.node_taints_policy != "Honor"
    )

    # A Terminating pod on a lost node still uses its claims, which keeps a ReadWriteOncePod claim from its replacement
    storage = get_listers(view)
    claims = [storage.claims.get((info.namespace, source.claim_name)) for source in iter_claim_volumes(info.pod)]
    has_exclusive_claim = any(claim is not None and READ_WRITE_ONCE_POD in claim.spec.access_modes for claim in claims)
    return _Demands(
        spread_keys=keys_counting_lost_nodes,
        spread_selectors=tuple(selector_from_api(constraint.label_selector) for constraint in hard_constraints),
        namespace=info.namespace,
        affinity=info.required_affinity,
        selects_itself=do_terms_select_pod(info.required_affinity, info),
        anti_affinity_keys=frozenset(term.topology_key for term in info.required_anti_affinity),
        terms=(
            *info.required_affinity,
            *info.required_anti_affinity,
            *info.preferred_affinity,
            *info.preferred_anti_affinity,
        ),
        exclusive_claim=has_exclusive_claim,
        shared_device_claim=_uses_shared_device_claim(info),
    )


def _uses_shared_device_claim(info: PodInfo) -> bool:
    """Return whether the pod uses a ResourceClaim that its replacement uses as well."""
    return any(claim.resource_claim_name for claim in info.spec.resource_claims)


def _get_demands_by_info(shared: SharedCluster) -> dict[int, _Demands]:
    """Return the demands of PodInfos that were found so far, by the number of the PodInfo."""
    return {}


def _get_nodes_by_term(shared: SharedCluster) -> dict[AffinityTerm, Bools]:
    """Return masks of nodes (N,) that were found so far, by the affinity term that selects pods there."""
    return {}


def _find_rules_that_matter(
    shared: SharedCluster, lost: LostPods, placed: Sequence[Position], late: Collection[Position]
) -> set[WaitingRule]:
    """Return the rules that may keep placed pods from their nodes as long as the lost nodes exist.

    `late` are the pods that run again only once the lost nodes are deleted, on their old nodes or on others.

    Spreading counts an unreachable node's domain as empty unless nodeTaintsPolicy is Honor, which matters if the domain
    has no other nodes. Late pods matter if spreading would count them. Anti-affinity to and of pods on lost nodes
    matters if their domain has other nodes. Affinity matters if it selects pods on lost nodes only in such a domain, or
    late pods, or no pod on the remaining nodes. A placed pod's claims for one pod only and its shared device claims
    always matter.
    """
    view = shared.scheduler.view
    late_infos = np.unique(view.pods.info[np.array(list(late), np.int64)])

    def matches_late_pods(demands: _Demands) -> bool:
        """Return whether spreading would count pods that are not replaced yet."""
        namespaces = frozenset((demands.namespace,))
        return any(
            view.pods.match_infos(selector, namespaces)[late_infos].any() for selector in demands.spread_selectors
        )

    domains = _LostDomains(view, lost.is_lost_node)

    def select_nodes(term: AffinityTerm) -> Bools:
        """Return a mask (N,) of the nodes with pods that the term selects."""
        nodes_by_term = shared.get_cached(_get_nodes_by_term)
        if term not in nodes_by_term:
            rows = view.node[_find_matching_infos(view, term)[view.pods.info]]
            has_matching_pod = np.zeros(len(view.nodes), np.bool_)
            has_matching_pod[rows[rows >= 0]] = True
            nodes_by_term[term] = has_matching_pod
        return nodes_by_term[term]

    def affinity_matters(demands: _Demands) -> bool:
        """Return whether pods on lost nodes make a difference for the required affinity of a pod."""
        if not demands.affinity:
            return False
        if any(
            domains.has_domain_with_only_lost_nodes(term.topology_key, select_nodes(term)) for term in demands.affinity
        ):
            return True
        masks = [_find_matching_infos(view, term) for term in demands.affinity]
        if any(mask[late_infos].any() for mask in masks):
            return True
        return demands.selects_itself and not _is_any_pod_selected(view, demands.affinity, ~lost.is_lost_node)

    # The demands of the placed pods
    rules = set()
    for demands in _iter_demands(shared, np.array(placed, np.int64)):
        if any(map(domains.is_any_lost, demands.spread_keys)):
            rules.add(WaitingRule.SPREAD)
        if len(late_infos) and matches_late_pods(demands):
            rules.add(WaitingRule.LATE_PODS)
        if affinity_matters(demands) or any(map(domains.is_any_shared, demands.anti_affinity_keys)):
            rules.add(WaitingRule.AFFINITY)
        if demands.exclusive_claim:
            rules.add(WaitingRule.CLAIM_IN_USE)
        if demands.shared_device_claim:
            rules.add(WaitingRule.DEVICE_IN_USE)

    # The anti-affinity of the pods on lost nodes, which may keep placed pods away
    if placed and WaitingRule.AFFINITY not in rules:
        all_demands = _iter_demands(shared, _find_pods_on(view, lost.is_lost_node))
        if any(any(map(domains.is_any_shared, demands.anti_affinity_keys)) for demands in all_demands):
            rules.add(WaitingRule.AFFINITY)
    return rules


def _find_matching_infos(view: Fork, term: AffinityTerm) -> Bools:
    """Return a mask over the PodInfos whose pods the term selects."""
    return find_infos_matching_term(term.with_selected_namespaces(view.namespace_labels, replace_selector=True), view)


def _is_any_pod_selected(view: Fork, terms: Sequence[AffinityTerm], nodes: Bools) -> bool:
    """Return whether a pod on one of the nodes in the mask (N,) is selected by all terms.

    Nodes without the topology labels of all terms are ignored.
    """
    is_selected = np.logical_and.reduce([_find_matching_infos(view, term) for term in terms])
    is_labelled = np.logical_and.reduce([view.nodes.label(term.topology_key).present for term in terms])
    pods = _find_pods_on(view, nodes & is_labelled)
    return bool(is_selected[view.pods.info[pods]].any())


def _affect_scores(shared: SharedCluster, lost: LostPods) -> bool:
    """Return whether affinity or anti-affinity of pods on lost nodes could change the scores of other nodes."""
    view = shared.scheduler.view
    domains = _LostDomains(view, lost.is_lost_node)
    all_demands = _iter_demands(shared, _find_pods_on(view, lost.is_lost_node))
    return any(domains.is_any_shared(term.topology_key) for demands in all_demands for term in demands.terms)


def _find_pods_on(view: Fork, is_lost_node: Bools) -> Rows:
    """Return the pods on the nodes in the mask (N,)."""
    positions: Rows = np.flatnonzero(np.append(is_lost_node, False)[view.node])  # pods without a node have row -1
    return positions


def _iter_demands(shared: SharedCluster, positions: Rows) -> Iterator[_Demands]:
    """Yield the demands of the distinct PodInfos of these pods."""
    for number in np.unique(shared.scheduler.view.pods.info[positions]).tolist():
        yield _get_demands(shared, number)


def _get_demands(shared: SharedCluster, number: int) -> _Demands:
    """Return the demands of a PodInfo, which are found once in each process."""
    demands_by_info = shared.get_cached(_get_demands_by_info)
    if number not in demands_by_info:
        view = shared.scheduler.view
        demands_by_info[number] = _find_pod_demands(view, view.pods.infos[number])
    return demands_by_info[number]


class _LostDomains:
    """The topology domains of lost nodes. `is_lost_node` is a mask (N,)."""

    def __init__(self, view: Fork, is_lost_node: Bools) -> None:
        self._view, self._is_lost_node = view, is_lost_node
        self._domains_by_key: dict[str, tuple[bool, bool]] = {}

    def is_any_lost(self, key: str) -> bool:
        """Return whether a domain of this topology key has only lost nodes."""
        return self._classify_domains(key)[0]

    def is_any_shared(self, key: str) -> bool:
        """Return whether a domain of this topology key has lost and other nodes."""
        return self._classify_domains(key)[1]

    def has_domain_with_only_lost_nodes(self, key: str, nodes: Bools) -> bool:
        """Return whether some domain loses all of the given nodes in it, but keeps other nodes.

        `nodes` is a mask (N,) of the given nodes. `key` is the topology key of the domains. A domain without any of the
        given nodes does not count.
        """
        if not self.is_any_shared(key):
            return False
        codes = self._view.nodes.label(key).codes
        domains_of_lost = set(codes[nodes & self._is_lost_node].tolist())
        domains_of_remaining = set(codes[nodes & ~self._is_lost_node].tolist())
        domains_of_only_lost = domains_of_lost - domains_of_remaining - {-1}  # -1: the node lacks the label
        return not domains_of_only_lost.isdisjoint(codes[~self._is_lost_node].tolist())

    def _classify_domains(self, key: str) -> tuple[bool, bool]:
        """Return whether a domain has only lost nodes, and whether a domain has lost and other nodes."""
        if key not in self._domains_by_key:
            codes = self._view.nodes.label(key).codes
            lost_codes = set(codes[self._is_lost_node].tolist()) - {-1}  # -1: the node lacks the label
            remaining_codes = set(codes[~self._is_lost_node].tolist())
            self._domains_by_key[key] = (bool(lost_codes - remaining_codes), bool(lost_codes & remaining_codes))
        return self._domains_by_key[key]


class _Stage(NamedTuple):
    """A cluster in which the time before the deletion is replayed."""

    scheduler: Scheduler | None = None
    """The scheduler of the cluster with stand-ins for Terminating pods, or None for the cluster as it is."""
    positions: Rows | None = None
    """The position in the cluster with stand-ins of each pod, (P,)."""
    lingering: LingeringPods | None = None

    def find_position(self, position: Position) -> Position:
        """Return the position of a pod of the cluster as it is."""
        return position if self.positions is None else Position(int(self.positions[position]))


_WHOLE_CLUSTER = _Stage()


def _build_stage_with_stand_ins(shared: SharedCluster) -> _Stage:
    """Build a cluster with a stand-in for the Terminating pods of each template."""
    cluster, names = add_stand_ins(shared.cluster, _lingers)
    scheduler = Scheduler(cluster, shared.call_extender)
    view = scheduler.view.fork()
    lingering = LingeringPods.take_off_nodes(view, names)
    pods = shared.scheduler.view.pods.objects
    index = view.pods.index
    positions = np.fromiter((index[pods.get_key(position)] for position in range(len(pods))), np.int64, len(pods))
    return _Stage(scheduler, positions, lingering)


def _start_simulation_before_deletion(
    shared: SharedCluster, stage: _Stage, lost: LostPods, placed: Sequence[Position], seed: int
) -> Simulation:
    """Start a simulation in which the lost nodes are unreachable and their deleted pods are gone or Terminating.

    `stage` is the cluster to simulate. If it has stand-ins for Terminating pods, only deleted pods that matter to
    others get one. `placed` are the replacements that are placed before the deletion: a deleted pod may matter to them.
    The PDBs count the healthy lost pods as evicted.
    """
    scheduler = stage.scheduler or shared.scheduler
    base = scheduler.view if stage.lingering is None else stage.lingering.view
    view = _fork_with_unreachable_nodes(base, lost.is_lost_node)
    if stage.lingering is not None:
        lingering = [stage.find_position(position) for position in _find_pods_that_matter(shared, lost.deleted, placed)]
        row_by_pod = {position: Row(int(view.node[position])) for position in lingering}
        _put_stand_ins(view, stage.lingering, row_by_pod)

    simulation = Simulation(scheduler, view, seed=seed, sampling=shared.sampling)
    _take_deleted_pods_off_nodes(simulation, shared, stage, lost.deleted)
    healthy = find_healthy_lost_pods(shared, lost.is_lost_node)
    simulation.budgets.record_evicted_pods([stage.find_position(position) for position in healthy])
    return simulation


def _fork_with_unreachable_nodes(base: Fork, is_lost_node: Bools) -> Fork:
    """Return a fork of `base` in which the lost nodes, a mask (N,), have the taint of unreachable nodes."""
    rows = np.flatnonzero(is_lost_node).tolist()
    tainted = {Row(row): _taint_as_unreachable(base.nodes.objects[row]) for row in rows}
    return base.with_changes(base.cluster, tainted)


def _take_deleted_pods_off_nodes(simulation: Simulation, shared: SharedCluster, stage: _Stage, deleted: Rows) -> None:
    """Take the deleted pods off their nodes in the simulation of a stage.

    Devices of claims that replacements use as well stay allocated: `forget` does not free them, unlike `remove`.
    """
    kinds = shared.get_cached(_classify_pod_infos)
    keeps_devices = kinds.keeps_devices[shared.scheduler.view.pods.info[deleted]]
    simulation.remove([stage.find_position(position) for position in _select(deleted, ~keeps_devices)])
    for position in map(stage.find_position, _select(deleted, keeps_devices)):
        simulation.view.forget(position)
        simulation.gone.add(position)


def _find_pods_that_matter(shared: SharedCluster, deleted: Rows, placed: Sequence[Position]) -> list[Position]:
    """Return the deleted pods that matter to others as long as they are Terminating.

    These are pods with affinity, anti-affinity or a claim for one pod only, and pods that the affinity or anti-affinity
    of a placed pod matches.
    """
    view = shared.scheduler.view
    matters = np.zeros(len(view.pods.infos), np.bool_)
    terms = {term for demands in _iter_demands(shared, np.array(placed, np.int64)) for term in demands.terms}
    for term in terms:
        matters |= _find_matching_infos(view, term)
    for number in np.unique(view.pods.info[deleted]).tolist():
        demands = _get_demands(shared, number)
        matters[number] |= bool(demands.terms) or demands.exclusive_claim
    return _select(deleted, matters[view.pods.info[deleted]])


def _put_stand_ins(view: Fork, lingering: LingeringPods, rows: Mapping[Position, Row]) -> None:
    """Put a copy of each pod's stand-in on the pod's row. Pods that leave their node at once have no stand-in."""
    rows_by_stand_in: dict[Position, list[Row]] = {}
    for position, row in rows.items():
        stand_in = lingering.stand_ins.get(int(lingering.templates[position]))
        if stand_in is not None:
            rows_by_stand_in.setdefault(stand_in, []).append(row)
    for stand_in, stand_in_rows in rows_by_stand_in.items():
        copies = [stand_in, *view.add_clones(stand_in, len(stand_in_rows) - 1)]
        for copy, row in zip(copies, stand_in_rows, strict=True):
            view.assume(copy, row)


def _taint_as_unreachable(node: Node) -> Node:
    """Return the node with the taints that it gets when its kubelet no longer reports."""
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, *UNREACHABLE)))
