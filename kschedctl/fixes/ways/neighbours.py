"""Fixes that move another pod off the node, or remove it by scaling its workload down by one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Amounts, Bools, Position, Row, find_positions
from kschedctl.api.objects import Pod, StoredAutoscaler
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.times import format_age_of_seconds
from kschedctl.api.workloads import scales_workload
from kschedctl.cluster import Cluster
from kschedctl.fixes.trial.changes import By, ClaimFate, Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import NodeRejection, TrialNode
from kschedctl.fixes.trial.trials import is_resized
from kschedctl.fixes.ways.waiting import build_deletion_edits, find_driver_users, iter_detach_edits
from kschedctl.replay import kubectl
from kschedctl.replay.controllers.job_failures import JobFailures
from kschedctl.replay.edits import ObjectKey, is_made_up, is_recreated_elsewhere
from kschedctl.replay.pending_pods import are_other_replicas_available
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.in_tree_plugins import AnyFact
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import PodInTheWay
from kschedctl.scheduler.plugins.node_ports import HostPortHeld
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient, TooManyPods
from kschedctl.scheduler.plugins.node_volume_limits.attachments import TooManyVolumes
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import DomainCounts, TooSkewed
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.plugins.volume_restrictions import DiskMounted
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import first_few, join_words, spell_age

MOVE, FEWER = 45, 40
"""The costs of the fixes."""
MOST_MOVED = 3
"""The most pods of a node that are moved, and the most that are scaled down."""
MOST_TRIED = 8
"""The most pods of a node that are tried."""
MOST_CONFLICTING = 3
"""With this many more conflicting pods, moving one of them does not help."""


def iter_neighbour_removal_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes for pods that cause the rejection: each moves one of them, or scales its workload down.

    At most `MOST_TRIED` pods are tried, and at most `MOST_MOVED` fixes of each kind are yielded. Nothing is yielded if
    no particular node is tried.
    """
    if trial_node.row is None:
        return
    moved_count = scaled_count = 0
    allowed_nodes = _find_conflict_free_nodes(trial_node, rejection.fact)
    for position in _find_removable_pods(trial_node, rejection)[:MOST_TRIED]:
        if moved_count < MOST_MOVED:
            for fix in _iter_move_fixes(trial_node, position, allowed_nodes):
                moved_count += 1
                yield fix
        if scaled_count < MOST_MOVED:
            for fix in iter_scale_down_fixes(trial_node, position):
                scaled_count += 1
                yield fix


def _find_conflict_free_nodes(trial_node: TrialNode, fact: AnyFact | None) -> Bools:
    """Return a mask (N,) of the nodes on which a moved pod no longer causes the rejection.

    These are all other nodes or, if the rejection is about a topology, the nodes of all other domains. `fact` is the
    rejection's fact.
    """
    nodes = trial_node.cycle.view.nodes
    is_conflict_free = np.ones(len(nodes), np.bool_)
    is_conflict_free[trial_node.known_row] = False
    if isinstance(fact, TooSkewed | PodInTheWay) and fact.key:
        codes = nodes.label(fact.key).codes
        is_conflict_free &= codes != codes[trial_node.known_row]
    return is_conflict_free


def _find_removable_pods(trial_node: TrialNode, rejection: NodeRejection) -> list[Position]:
    """Return the movable pods whose removal may resolve the rejection, in the order in which to try them.

    The list is empty if the rejection's fact names no pods or resources, or if too many pods cause the rejection.
    """
    view = trial_node.cycle.view
    positions: list[Position] = []
    match rejection.fact:
        case Insufficient(resource=resource):
            positions = _exclude_own_replicas(trial_node, _find_pods_freeing_resources(trial_node, resource))
        case TooManyPods():
            positions = _exclude_own_replicas(trial_node, view.pods_on(trial_node.known_row))
        case HostPortHeld(holder=pod) | DiskMounted(pod=pod) if pod:
            positions = _list_pod_position(trial_node, pod)
        case PodInTheWay(pod=pod, others=others) if pod and others < MOST_CONFLICTING:
            positions = _list_pod_position(trial_node, pod)
        case TooSkewed(key=key):
            positions = _find_pods_crowding_domain(trial_node, key)
        case TooManyVolumes(drivers=(first, *_)):
            positions = find_driver_users(view, trial_node.known_row, first.driver)
    return [position for position in positions if _is_movable(trial_node, position)]


def _exclude_own_replicas(trial_node: TrialNode, positions: Sequence[Position]) -> list[Position]:
    """Return the positions without pods of the target pod's own workload.

    A replica does not have to make room for another replica.
    """
    own_workload = find_owner(trial_node.trial.pod)
    return [
        position for position in positions if find_owner(trial_node.cycle.view.pods.objects[position]) != own_workload
    ]


def _list_pod_position(trial_node: TrialNode, key: str) -> list[Position]:
    """Return the position of the pod with this key in a list, or an empty list if there is no such pod."""
    position = trial_node.cycle.view.pods.find_position(key)
    return [] if position is None else [position]


def _find_pods_freeing_resources(trial_node: TrialNode, resource: str) -> list[Position]:
    """Return the node's movable pods in the order in which to try to free resources that the node lacks.

    First come up to MOST_TRIED / 2 pods that each free enough of all lacking resources, the smallest by `resource`
    first. Pods that free too little by themselves follow, the largest first, and then the other sufficient pods. The
    list is empty if even the largest pods do not free enough together.
    """
    view = trial_node.cycle.view
    facts = [rejection.fact for rejection in trial_node.find_rejections() if isinstance(rejection.fact, Insufficient)]
    columns = [view.resources[fact.resource] for fact in facts if fact.resource in view.resources]
    positions = [position for position in view.pods_on(trial_node.known_row) if _is_movable(trial_node, position)]
    if len(columns) < len(facts) or not positions:
        return []

    requests = view.get_requests(positions)
    freed = requests[:, columns]  # what each pod frees of each lacking resource, (P, R)
    shortages = np.array([fact.requested - fact.free for fact in facts])
    if not _can_free_enough_together(freed, shortages):
        return []

    is_sufficient = np.all(freed >= shortages, axis=1)
    return _order_by_freed_amount(positions, requests[:, view.resources[resource]], is_sufficient)


def _can_free_enough_together(freed: Amounts, shortages: Amounts) -> bool:
    """Return whether the largest pods free enough of each resource (R) together.

    `freed` (P, R) is what each pod frees, and `shortages` (R,) is what is lacking.
    """
    freed_by_largest = np.sort(freed, axis=0)[-MOST_MOVED:].sum(axis=0)  # no fix moves more than MOST_MOVED pods
    return bool((freed_by_largest >= shortages).all())


def _order_by_freed_amount(positions: Sequence[Position], freed: Amounts, is_sufficient: Bools) -> list[Position]:
    """Return the pods in the order in which to try them, given what each of them frees of one resource, (P,).

    `is_sufficient` (P,) marks the pods that free enough of all lacking resources by themselves. The other pods follow
    the first MOST_TRIED / 2 of them, without the pods that free nothing of the resource.
    """
    freed_by_position = dict(zip(positions, freed.tolist(), strict=True))
    smallest_first = sorted(positions, key=freed_by_position.__getitem__)
    largest_first = sorted(positions, key=freed_by_position.__getitem__, reverse=True)
    sufficient = {position for position, suffices in zip(positions, is_sufficient.tolist(), strict=True) if suffices}
    sufficient_pods = [position for position in smallest_first if position in sufficient]
    insufficient_pods = [
        position for position in largest_first if position not in sufficient and freed_by_position[position] > 0
    ]
    # Only MOST_TRIED pods are tried. Pods that free too little by themselves get half of the turns.
    half = MOST_TRIED // 2
    return [*sufficient_pods[:half], *insufficient_pods, *sufficient_pods[half:]]


def _find_pods_crowding_domain(trial_node: TrialNode, key: str) -> list[Position]:
    """Return pods in the node's topology domain that count for the target pod's hard spread constraints on `key`.

    Pods of the target pod's own workload come first. The number of pods is limited for each constraint.
    """
    view = trial_node.cycle.view
    own_workload = find_owner(trial_node.trial.pod)
    crowding_pods: dict[Position, None] = {}
    for counts in find_domain_counts(trial_node):
        if counts.constraint.topology_key == key:
            codes = counts.column.codes
            is_in_domain = counts.eligible & (codes == codes[trial_node.known_row])
            selected = view.pods.match_infos(counts.constraint.selector, frozenset((trial_node.cycle.info.namespace,)))
            positions = view.pods.find_positions(selected & ~view.pods.terminating)
            node = view.node[positions]
            domain_pods = np.sort(positions[(node >= 0) & is_in_domain[node]])
            # More than are tried, since some will not be movable.
            crowding_pods |= dict.fromkeys(Position(position) for position in domain_pods[: 4 * MOST_TRIED].tolist())
    return sorted(crowding_pods, key=lambda position: find_owner(view.pods.objects[position]) != own_workload)


def _is_movable(trial_node: TrialNode, position: Position) -> bool:
    """Return whether the pod exists, a controller would recreate it elsewhere, and its PDB allows its eviction.

    Pods whose eviction would make their Job fail are not movable.
    """
    view = trial_node.cycle.view
    pod = view.pods.objects[position]
    if is_made_up(pod) or not is_recreated_elsewhere(pod) or JobFailures.of(view.objects).would_fail_job_or_index(pod):
        return False
    return is_evictable(trial_node, position)


def is_evictable(trial_node: TrialNode, position: Position) -> bool:
    """Return whether the pod's PDB, if it has one, allows one more eviction than the trial's changes cause.

    A pod that several PDBs select is never evictable, because the eviction API rejects it.
    """
    budgets = get_budgets(trial_node.trial.scheduler.view)
    selecting_budgets = budgets.find_selecting_budgets(position)
    if not selecting_budgets:
        return True
    if len(selecting_budgets) > 1:
        return False
    (budget,) = selecting_budgets
    return budgets.count_allowed_disruptions(budget) > _count_evictions_by_budget(trial_node)[budget]


def _count_evictions_by_budget(trial_node: TrialNode) -> Counter[str]:
    """Count, for each PDB, the evictions that the trial's changes cause.

    Changes of the target pod, of new pods and of pods that are only resized evict no pods.
    """
    view = trial_node.trial.scheduler.view
    target_key = ObjectKey.of(trial_node.trial.pod)
    counts: Counter[str] = Counter()
    for key, edit in trial_node.trial.edits.items():
        if key.kind != "Pod" or key == target_key or edit.before is None or is_resized(edit):
            continue
        position = view.pods.find_position(f"{key.namespace}/{key.name}")
        if position is not None:
            counts.update(get_budgets(view).find_selecting_budgets(position))
    return counts


def _iter_move_fixes(trial_node: TrialNode, position: Position, allowed_nodes: Bools) -> Iterator[Fix]:
    """Yield the fix that moves the pod to the best of the allowed nodes on which it fits, if any.

    The pod must fit while the target pod takes its place on the tried node. `allowed_nodes` is a mask (N,).
    """
    view = trial_node.cycle.view
    pod = view.pods.objects[position]
    new_node = _find_node_for_moved_pod(trial_node, position, pod, allowed_nodes)
    if not new_node:
        return
    old_node = view.get_node_name(position)
    weakens, price = _describe_move_loss(view.cluster, pod)
    unchanged_view = trial_node.trial.scheduler.view
    are_others_available = are_other_replicas_available(unchanged_view, pod)
    if not are_others_available and find_owner(pod) != find_owner(trial_node.trial.pod):
        weakens += f"; other pods of {find_owner(pod)} are not available either"
    yield Fix(
        kind=FixKind.MOVE_POD,
        target=(pod.key, new_node),
        text=f"move {pod.key} from {old_node} to {new_node}",
        by="operator",
        edits=(ObjectEdit(ObjectKey.of(pod), _build_node_change(new_node)), *iter_detach_edits(view, pod)),
        cost=MOVE,
        weakens=weakens,
        price=price,
        commands=(
            kubectl.render_command("cordon", old_node),
            kubectl.render_eviction(pod),
            kubectl.render_wait_until_gone(pod),
            kubectl.render_wait_for_replacement(pod, are_others_available=are_others_available),
            kubectl.render_command("uncordon", old_node),
        ),
        variant_of="pod",
        where=pod.key,
        cordoned_node=old_node,
        displaced_priority=view.pods.get_priority(position),
    )


def _describe_move_loss(cluster: Cluster, pod: Pod) -> tuple[str, Price | None]:
    """Describe what is lost when the pod moves, and return the price of this loss.

    The price is LOSS if files of hostPath volumes stay behind. It is GUARANTEE if the pod loses other data, belongs to
    a StatefulSet, or asks not to be evicted. Otherwise it is None, which stands for the usual price of a move.
    """
    from kschedctl.replay.eviction_harms import find_eviction_harms  # noqa: PLC0415 - few pods can be evicted

    harms = find_eviction_harms(cluster, [pod])
    volumes = pod.spec.volumes
    clauses = []
    price = None
    if any(volume.host_path is not None for volume in volumes):
        clauses.append("which leaves the files of its hostPath volumes behind")
        price = Price.LOSS
    elif _has_scratch_data(pod):
        clauses.append("which loses the data in its emptyDir volumes")
        price = Price.GUARANTEE
    elif find_owner(pod).kind == "StatefulSet":
        price = Price.GUARANTEE
    if harms.ask_to_stay:
        clauses.append("whose annotations ask not to be evicted")
        price = price or Price.GUARANTEE
    if harms.starting_over:
        clauses.append("which its Job starts again from the beginning")
    text = f"evicts {pod.key}" + (f", {' and '.join(clauses)}" if clauses else "")
    if harms.outages:
        text += f"; {first_few(harms.outages)} has no running pod until the replacement runs"
    if harms.slow_pods:
        text += f"; it may take {spell_age(format_age_of_seconds(harms.slow_pods[pod.key]))} to end"
    return text, price


def _build_node_change(node: str) -> Callable[[Pod], Pod]:
    """Return a function that binds a pod to this node."""
    return lambda pod: replace(pod, spec=replace(pod.spec, node_name=node))


def _find_node_for_moved_pod(trial_node: TrialNode, position: Position, pod: Pod, allowed_nodes: Bools) -> str:
    """Return the allowed node with the highest score for the moved pod once the target pod has taken its place.

    `position` is the position of the moved pod, and `allowed_nodes` is a mask (N,). Return "" if no allowed node is
    feasible.
    """
    # Take the moved pod off its node and place the target pod there, unless that pod has a node already
    after = trial_node.cycle.view.fork()
    after.forget(position)
    target_position = after.pods.find_position(trial_node.trial.pod.key)
    if target_position is not None and after.node[target_position] < 0:
        after.assume(target_position, trial_node.known_row)

    # Schedule the moved pod anew
    unbound_pod = replace(pod, spec=replace(pod.spec, node_name=""))
    info = PodInfo(after.build_stored_pod(unbound_pod), after.settings.requests)
    framework = trial_node.trial.scheduler.find_framework(info.spec.scheduler_name)
    if framework is None:
        return ""
    cycle = run_cycle(framework, info, after)
    if not cycle.schedulable:
        return ""
    scores = dict(zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True))
    allowed_rows = [row for row in sorted(scores) if allowed_nodes[row]]
    if not allowed_rows:
        return ""
    best_row = max(allowed_rows, key=scores.__getitem__)  # the first of several with the same score
    return after.nodes.names[Row(best_row)]


def iter_scale_down_fixes(trial_node: TrialNode, position: Position) -> Iterator[Fix]:
    """Yield the fix that removes the pod by scaling its workload down, if the controller would choose this pod.

    There is no fix for pods of the target pod's own workload, whose controller would remove the target pod instead, or
    if a HorizontalPodAutoscaler would add the replica again because of its minReplicas.
    """
    pod = trial_node.cycle.view.pods.objects[position]
    owner = find_owner(pod)
    remaining_count = _count_replicas_after_removal(trial_node, pod, owner)
    if remaining_count is None or owner == find_owner(trial_node.trial.pod):
        return
    cluster = trial_node.cycle.view.cluster
    autoscaler = _find_autoscaler(cluster, owner)
    if autoscaler is not None and 0 < remaining_count < _get_min_replicas(autoscaler):
        return
    scaling_up_again = _describe_scaling_up_again(cluster, autoscaler)
    claim_fate = _find_fate_of_claims(trial_node, owner)
    lost_replica = "one replica" if remaining_count else "its last replica"
    pods_with_data = (pod.key,) if _has_scratch_data(pod) else ()
    loses_data_or_service = not remaining_count or owner.kind == "StatefulSet"
    price = Price.LOSS if loses_data_or_service else None
    yield Fix(
        kind=FixKind.SCALE_DOWN,
        target=pod.key,
        text=f"scale {owner} down by one, which removes {pod.metadata.name}",
        by=choose_maker(trial_node, owner.namespace),
        edits=build_deletion_edits(trial_node.cycle.view, pod),
        cost=FEWER,
        weakens=(
            f"{owner} loses {lost_replica}{_describe_claim_loss(claim_fate, 'that replica')}"
            f"{_describe_scratch_data_loss(pods_with_data)}"
            f"{scaling_up_again if remaining_count else ''}"
        ),
        price=price,
        commands=kubectl.render_scale_down(pod, owner, remaining_count),
        variant_of=owner,
        where=pod.key,
        displaced_priority=trial_node.cycle.view.pods.get_priority(position),
        remaining_replicas=remaining_count,
        claim_fate=claim_fate,
        deletes_data_of=pods_with_data,
        scaling_up_again=scaling_up_again,
    )


def _find_autoscaler(cluster: Cluster, owner: Owner) -> StoredAutoscaler | None:
    """Return the HorizontalPodAutoscaler that scales the workload, or None if there is none or none was read."""
    autoscalers: Sequence[StoredAutoscaler] = cluster.list_in_namespace("horizontal_pod_autoscalers", owner.namespace)
    return next((autoscaler for autoscaler in autoscalers if scales_workload(autoscaler, owner)), None)


def _get_min_replicas(autoscaler: StoredAutoscaler) -> int:
    """Return the number of replicas below which the autoscaler scales the workload up, unless it has no replica.

    Upstream: pkg/controller/podautoscaler/horizontal.go, reconcileAutoscaler.
    """
    min_replicas = autoscaler.spec.min_replicas
    return 1 if min_replicas is None else min_replicas


def _describe_scaling_up_again(cluster: Cluster, autoscaler: StoredAutoscaler | None) -> str:
    """Return a clause on the autoscaler that may undo a scale-down, or "" if the workload has none.

    If HorizontalPodAutoscalers were not read, the clause says that there may be one.
    """
    if autoscaler is not None:
        return f"; HorizontalPodAutoscaler {autoscaler.metadata.name} may scale it up again"
    if cluster.find_gap("HorizontalPodAutoscaler") is not None:
        return "; a HorizontalPodAutoscaler, if it has one, may scale it up again"
    return ""


def choose_maker(trial_node: TrialNode, namespace: str) -> By:
    """Return who can stop a pod of this namespace: the author if the target pod is in it, otherwise the operator."""
    return "author" if namespace == trial_node.trial.pod.metadata.namespace else "operator"


def _find_fate_of_claims(trial_node: TrialNode, owner: Owner) -> ClaimFate:
    """Return what becomes of the claims of a removed replica when its owner is scaled down.

    Only StatefulSets have claims for each replica. The fate is unknown if the StatefulSet was not read.
    """
    if owner.kind != "StatefulSet":
        return ClaimFate.RETAINED
    stored_sets = trial_node.cycle.view.cluster.list_in_namespace("stateful_sets", owner.namespace)
    stored = next((stored for stored in stored_sets if stored.metadata.name == owner.name), None)
    if stored is None:
        return ClaimFate.UNKNOWN
    policy = stored.spec.persistent_volume_claim_retention_policy
    return ClaimFate.DELETED if policy.when_scaled == "Delete" else ClaimFate.RETAINED


def _describe_claim_loss(claim_fate: ClaimFate, replicas: str) -> str:
    """Return a clause on the claims that are or may be deleted with these replicas, or "" if they are retained."""
    if claim_fate is ClaimFate.RETAINED:
        return ""
    verb = "deletes" if claim_fate is ClaimFate.DELETED else "may delete"
    return f"; its persistentVolumeClaimRetentionPolicy {verb} the claims of {replicas}"


def _has_scratch_data(pod: Pod) -> bool:
    """Return whether the pod has emptyDir volumes on disk, whose data is deleted with it."""
    return any(volume.empty_dir is not None and volume.empty_dir.medium != "Memory" for volume in pod.spec.volumes)


def _describe_scratch_data_loss(pods: Sequence[str]) -> str:
    """Return a clause on the emptyDir data that is deleted with these pods, or "" if there are none."""
    return f"; the emptyDir data of {first_few(pods)} is deleted" if pods else ""


def merge_scale_downs(fixes: Sequence[Fix]) -> list[Fix]:
    """Return the fixes, with all fixes that scale down one workload merged into the first of them.

    The merged fix has one command that scales the workload. Its text and its loss name the pods of all merged fixes.
    """
    scale_downs: dict[object, list[Fix]] = {}
    for fix in fixes:
        if fix.kind == FixKind.SCALE_DOWN:
            scale_downs.setdefault(fix.variant_of, []).append(fix)
    merged = []
    for fix in fixes:
        fixes_to_merge = scale_downs.get(fix.variant_of, [fix]) if fix.kind == FixKind.SCALE_DOWN else [fix]
        if fix is fixes_to_merge[0]:
            merged.append(fix if len(fixes_to_merge) == 1 else _merge_scale_downs_of_workload(fixes_to_merge))
    return merged


def _merge_scale_downs_of_workload(fixes: Sequence[Fix]) -> Fix:
    """Return one fix that removes the pods of all these fixes, which scale down one workload step by step.

    The price of the merged fix is the highest price of these fixes.
    """
    first = fixes[0]
    last = min(fixes, key=lambda fix: fix.remaining_replicas or 0)  # `or 0` is for the type checker only
    remaining = last.remaining_replicas or 0
    names = [fix.where.rpartition("/")[2] for fix in fixes]
    lost = f"{len(fixes)} of its {len(fixes) + remaining} replicas" if remaining else f"all {len(fixes)} replicas"
    claims = _describe_claim_loss(first.claim_fate, "these replicas")
    pods_with_data = tuple(pod for fix in fixes for pod in fix.deletes_data_of)
    # Each fix first sets the deletion cost by which the controller chooses the pod, if needed, and then scales down.
    *_, scale_command = last.commands
    deletion_cost_commands = [command for fix in fixes for command in fix.commands[:-1]]
    if not remaining:
        deletion_cost_commands = []  # the controller has no choice if it removes all pods
    return dataclasses.replace(
        first,
        text=f"scale {first.variant_of} down to {remaining}, which removes {join_words(names)}",
        edits=tuple(edit for fix in fixes for edit in fix.edits),
        weakens=(
            f"{first.variant_of} loses {lost}{claims}{_describe_scratch_data_loss(pods_with_data)}"
            f"{first.scaling_up_again if remaining else ''}"
        ),
        price=max(fix.effective_price for fix in fixes),
        commands=(*deletion_cost_commands, scale_command),
        remaining_replicas=remaining,
        deletes_data_of=pods_with_data,
    )


def _count_replicas_after_removal(trial_node: TrialNode, pod: Pod, owner: Owner) -> int | None:
    """Return how many replicas remain if scaling down the owner removes this pod, or None if this pod stays.

    While one of the workload's pods has no node, a ReplicaSet removes that pod first and a StatefulSet removes none. A
    StatefulSet always removes the pod with the highest ordinal. Workloads of other kinds are not scaled down.
    """
    if _has_pending_pod(trial_node, owner):
        return None
    if owner.kind in ("Deployment", "ReplicaSet"):
        return count_replicas(trial_node, owner) - 1 - _count_removed_replicas(trial_node, owner)
    if owner.kind == "StatefulSet":
        return _count_replicas_before_last_ordinal(trial_node, pod, owner)
    return None


def _count_replicas_before_last_ordinal(trial_node: TrialNode, pod: Pod, owner: Owner) -> int | None:
    """Return the number of replicas without the StatefulSet's last pod, or None if the pod is not the last one."""
    ordinal_text = pod.metadata.name.removeprefix(f"{owner.name}-")
    if not ordinal_text.isdigit():
        return None
    ordinal = int(ordinal_text)

    # Pods may be missing after this one, so look ahead as many ordinals as there are replicas.
    later_ordinals = range(ordinal + 1, ordinal + 1 + count_replicas(trial_node, owner))
    pods = trial_node.cycle.view.pods
    is_last = all(pods.find_position(f"{owner.namespace}/{owner.name}-{number}") is None for number in later_ordinals)
    replicas_before = ordinal  # ordinals are counted from 0
    return replicas_before if is_last else None


def _count_removed_replicas(trial_node: TrialNode, owner: Owner) -> int:
    """Count the pods of the workload that the trial's changes delete."""
    deleted_objects = (edit.before for edit in trial_node.trial.edits.values() if edit.after is None)
    return sum(isinstance(pod, Pod) and find_owner(pod) == owner for pod in deleted_objects)


def _has_pending_pod(trial_node: TrialNode, owner: Owner) -> bool:
    """Return whether a pod of the workload has no node in the unchanged cluster."""
    unchanged_view = trial_node.trial.scheduler.view

    def collect_workloads_with_pending_pods() -> frozenset[Owner]:
        """Return the workloads that have a pod without a node."""
        off_known_nodes = find_positions(~unchanged_view.mask_placed())
        pods = (unchanged_view.pods.objects[position] for position in off_known_nodes)
        # A pod that is bound to a node outside of the view is not placed there, but does not wait either.
        return frozenset(find_owner(pod) for pod in pods if not pod.spec.node_name)

    return owner in unchanged_view.memo("workloads of pods that wait", collect_workloads_with_pending_pods)


def count_replicas(trial_node: TrialNode, owner: Owner) -> int:
    """Count the pods of the workload in the unchanged cluster. All workloads are counted once for each view."""
    base = trial_node.trial.scheduler.view

    def count_by_owner() -> Counter[Owner]:
        """Count the pods of each workload, by the templates that many pods share."""
        table = base.pods.objects.table
        pod_counts = np.bincount(table.template, minlength=len(table.templates)).tolist()
        counts: Counter[Owner] = Counter()
        for template, pod_count in zip(table.templates, pod_counts, strict=True):
            counts[find_owner(template)] += pod_count
        return counts

    return base.memo("replicas of workloads", count_by_owner)[owner]


def find_domain_counts(trial_node: TrialNode) -> list[DomainCounts]:
    """Return the domain counts of the pod's hard spread constraints, or an empty list if PreFilter computed none."""
    return trial_node.cycle.pre_filter.find_state(PodTopologySpread) or []
