"""Fixes that move a pod off the node or scale its workload down by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Position, Row, find_positions
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trials import is_resized
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.fixes.ways.waiting import delete_pod, detach_volumes, find_driver_users
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey, is_recreated_elsewhere
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.engine.preemption.budgets import get_budgets
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import PodInTheWay
from kschedctl.scheduler.plugins.node_ports import HostPortHeld
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient, TooManyPods
from kschedctl.scheduler.plugins.node_volume_limits.attachments import TooManyVolumes
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import DomainCounts, TooSkewed
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.plugins.volume_restrictions import DiskMounted
from kschedctl.scheduler.registry.in_tree import AnyFact
from kschedctl.snapshot.pod_info import PodInfo

MOVE, FEWER = 45, 40
MOST_MOVED, MOST_TRIED = 3, 8
"""So many pods of a node are moved or given up, of so many that are tried."""
MOST_APART = 3
"""Where more pods keep the asked one away, moving them is no small change."""


def move_or_drop(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes that move the pods that the rejection is about, or scale their workloads down."""
    if tried.row is None:
        return
    moved = fewer = 0
    free = _find_free_nodes(tried, refusal.fact)
    for position in _find_candidates(tried, refusal)[:MOST_TRIED]:
        if moved < MOST_MOVED:
            for change in _move_pod(tried, position, free):
                moved += 1
                yield change
        if fewer < MOST_MOVED:
            for change in scale_down(tried, position):
                fewer += 1
                yield change


def _find_free_nodes(tried: TriedNode, fact: AnyFact | None) -> Bools:
    """Return (N,): the nodes where a moved pod no longer conflicts."""
    nodes = tried.cycle.view.nodes
    free = np.ones(len(nodes), np.bool_)
    if isinstance(fact, TooSkewed | PodInTheWay) and fact.key:
        codes = nodes.label(fact.key).codes
        free &= codes != codes[tried.at]
    free[tried.at] = False
    return free


def _find_candidates(tried: TriedNode, refusal: NodeRefusal) -> list[Position]:
    """Return the pods whose removal may resolve the rejection and that may be moved."""
    view = tried.cycle.view
    positions: list[Position] = []
    match refusal.fact:
        case Insufficient(resource=resource):
            positions = _find_freeing_pods(tried, resource)
        case TooManyPods():
            positions = view.pods_on(tried.at)
        case HostPortHeld(holder=pod) | DiskMounted(pod=pod) if pod:
            positions = _find_pod(tried, pod)
        case PodInTheWay(pod=pod, others=others) if pod and others < MOST_APART:
            positions = _find_pod(tried, pod)
        case TooSkewed(key=key):
            positions = _find_crowding_pods(tried, key)
        case TooManyVolumes(drivers=(first, *_)):
            positions = find_driver_users(view, tried.at, first.driver)
    return [position for position in positions if _is_movable(tried, position)]


def _find_pod(tried: TriedNode, key: str) -> list[Position]:
    """Return the position of the pod with that key in a list, empty if it does not exist."""
    position = tried.cycle.view.pods.find_position(key)
    return [] if position is None else [position]


def _find_freeing_pods(tried: TriedNode, resource: str) -> list[Position]:
    """Return the node's pods that each free enough, the smallest first, then the others, the largest first.

    None where as many of them as a set has changes free too little of something that the node is short of.
    """
    view = tried.cycle.view
    facts = [refusal.fact for refusal in tried.refusals() if isinstance(refusal.fact, Insufficient)]
    columns = [view.resources[fact.resource] for fact in facts if fact.resource in view.resources]
    positions = [position for position in view.pods_on(tried.at) if _is_movable(tried, position)]
    if len(columns) < len(facts) or not positions:
        return []
    freed = view.requests[view.pods.info[positions]][:, columns]
    short = np.array([fact.requested - fact.free for fact in facts])
    if (np.sort(freed, axis=0)[-MOST_MOVED:].sum(axis=0) < short).any():
        return []
    size = dict(
        zip(positions, view.requests[view.pods.info[positions], view.resources[resource]].tolist(), strict=True)
    )
    alone = {positions[place] for place in np.flatnonzero(np.all(freed >= short, axis=1)).tolist()}
    enough = sorted(alone, key=size.__getitem__)
    less = sorted((p for p in positions if p not in alone and size[p] > 0), key=size.__getitem__, reverse=True)
    return [*enough[: MOST_TRIED // 2], *less, *enough[MOST_TRIED // 2 :]]


def _find_crowding_pods(tried: TriedNode, key: str) -> list[Position]:
    """Return the pods that spread constraints on that label count in the node's domain, the same workload's first."""
    view, mine = tried.cycle.view, find_owner(tried.trial.pod)
    crowding: dict[Position, None] = {}
    for counted in find_domain_counts(tried):
        if counted.constraint.topology_key == key:
            here = counted.eligible & (counted.column.codes == counted.column.codes[tried.at])
            selected = view.pods.matching(counted.constraint.selector, frozenset((tried.cycle.info.namespace,)))
            positions = view.pods.find_positions(selected & ~view.pods.terminating)
            node = view.node[positions]
            near = np.sort(positions[(node >= 0) & here[node]])
            crowding |= dict.fromkeys(Position(position) for position in near[: 4 * MOST_TRIED].tolist())
    return sorted(crowding, key=lambda position: find_owner(view.pods.objects[position]) != mine)


def _is_movable(tried: TriedNode, position: Position) -> bool:
    """Return whether a controller recreates the pod elsewhere and its PDB allows the eviction."""
    return is_recreated_elsewhere(tried.cycle.view.pods.objects[position]) and is_evictable(tried, position)


def is_evictable(tried: TriedNode, position: Position) -> bool:
    """Return whether the pod's PDB allows its eviction in addition to earlier evictions of the trial."""
    known = get_budgets(tried.trial.scheduler.view)
    selecting = known.find_selecting(position)
    return not selecting or (
        len(selecting) == 1 and known.count_allowed(selecting[0]) > _count_evictions(tried)[selecting[0]]
    )


def _count_evictions(tried: TriedNode) -> Counter[str]:
    """Return how many disruptions of each budget the changes so far take; a pod that is resized in place stays."""
    view, asked = tried.trial.scheduler.view, ObjectKey.of(tried.trial.pod)
    edits = {key: edit for key, edit in tried.trial.edits.items() if key.kind == "Pod" and key != asked}
    gone = (key for key, edit in edits.items() if edit.before is not None and not is_resized(edit))
    positions = (view.pods.find_position(f"{key.namespace}/{key.name}") for key in gone)
    return Counter(
        name for position in positions if position is not None for name in get_budgets(view).find_selecting(position)
    )


def _move_pod(tried: TriedNode, position: Position, free: Bools) -> Iterator[Fix]:
    """Yield the fix that moves the pod to the best node that takes it while the target pod has its place."""
    view = tried.cycle.view
    pod = view.pods.objects[position]
    target = _find_target(tried, position, pod, free)
    if not target:
        return
    here = view.nodes.names[int(view.node[position])]
    weakens, price = _describe_loss(pod)
    yield Fix(
        FixKind.MOVE_POD,
        (pod.key, target),
        f"move {pod.key} from {here} to {target}",
        "operator",
        (ObjectEdit(ObjectKey.of(pod), _with_node(target)), *detach_volumes(view, pod)),
        MOVE,
        f"evicts {pod.key}{weakens}",
        price=price,
        commands=(
            kubectl.render_command("cordon", here),
            kubectl.render_eviction(pod),
            kubectl.render_wait_until_gone(pod),
            kubectl.render_command("uncordon", here),
        ),
        variant_of="pod",
        where=pod.key,
    )


def _describe_loss(pod: Pod) -> tuple[str, Price | None]:
    """Return what data the pod loses when it moves, and the price of that."""
    volumes = pod.spec.volumes
    if any(volume.host_path is not None for volume in volumes):
        return ", which leaves the files of its hostPath volumes behind", Price.LOSS
    if any(volume.empty_dir is not None and volume.empty_dir.medium != "Memory" for volume in volumes):
        return ", and what is in its emptyDir volumes is gone", Price.GUARANTEE
    return "", Price.GUARANTEE if find_owner(pod).kind == "StatefulSet" else None


def _with_node(node: str) -> Callable[[Pod], Pod]:
    """Return a change that sets the pod's node."""
    return lambda pod: replace(pod, spec=replace(pod.spec, node_name=node))


def _find_target(tried: TriedNode, position: Position, pod: Pod, free: Bools) -> str:
    """Return the name of the best of the free nodes for the pod, or an empty string."""
    after = tried.cycle.view.fork()
    after.forget(position)
    asked = after.pods.find_position(tried.trial.pod.key)
    if asked is not None and after.node[asked] < 0:
        after.assume(asked, tried.at)
    info = PodInfo(after.stored(replace(pod, spec=replace(pod.spec, node_name=""))), after.settings.requests)
    framework = tried.trial.scheduler.framework(info.spec.scheduler_name)
    if framework is None:
        return ""
    cycle = run_cycle(framework, info, after)
    if not cycle.schedulable:
        return ""
    scored = zip(cycle.scores.total.tolist(), cycle.scores.rows.tolist(), strict=True)
    best = max(((total, -row) for total, row in scored if free[row]), default=None)
    return after.nodes.names[Row(-best[1])] if best else ""


def scale_down(tried: TriedNode, position: Position) -> Iterator[Fix]:
    """Yield the fix that scales the pod's workload down by this replica, if its controller can choose it."""
    pod = tried.cycle.view.pods.objects[position]
    owner = find_owner(pod)
    left = _count_replicas_after(tried, pod, owner)
    if left is None or owner == find_owner(tried.trial.pod):
        return  # of its own workload it would be the one that goes
    weakens, price = f"{owner} runs with one replica fewer", None if left else Price.LOSS
    if not left:
        weakens = f"{owner} no longer runs"
    if owner.kind == "StatefulSet":
        weakens += "; its persistentVolumeClaimRetentionPolicy may delete the claims of that replica"
        price = Price.LOSS
    yield Fix(
        FixKind.SCALE_DOWN,
        pod.key,
        f"run one replica fewer of {owner}: {pod.metadata.name}",
        "operator",
        delete_pod(tried.cycle.view, pod),
        FEWER,
        weakens,
        price=price,
        commands=kubectl.render_scale_down(pod, owner, left),
        variant_of=owner,
        where=pod.key,
    )


def _count_replicas_after(tried: TriedNode, pod: Pod, owner: Owner) -> int | None:
    """Return the number of replicas without the pod, or None if scaling down would not remove this pod.

    Pods that wait for a node go first, and a StatefulSet gives none up as long as one waits.
    """
    if _has_pending_pod(tried, owner):
        return None
    if owner.kind in ("Deployment", "ReplicaSet"):
        return count_replicas(tried, owner) - 1 - _count_removed(tried, owner)
    ordinal = pod.metadata.name.removeprefix(f"{owner.name}-")
    if owner.kind != "StatefulSet" or not ordinal.isdigit():
        return None
    later = range(int(ordinal) + 1, int(ordinal) + 1 + count_replicas(tried, owner))
    pods = tried.cycle.view.pods
    last = all(pods.find_position(f"{owner.namespace}/{owner.name}-{number}") is None for number in later)
    return int(ordinal) if last else None


def _count_removed(tried: TriedNode, owner: Owner) -> int:
    """Return how many of the workload's pods other changes of the trial delete."""
    gone = (edit.before for edit in tried.trial.edits.values() if edit.after is None)
    return sum(isinstance(pod, Pod) and find_owner(pod) == owner for pod in gone)


def _has_pending_pod(tried: TriedNode, owner: Owner) -> bool:
    """Return whether a pod of the workload has no node."""
    view = tried.trial.scheduler.view

    def owners() -> frozenset[Owner]:
        pods = (view.pods.objects[position] for position in find_positions(view.node < 0))
        return frozenset(find_owner(pod) for pod in pods if not pod.spec.node_name)

    return owner in view.memo("workloads of pods that wait", owners)


def count_replicas(tried: TriedNode, owner: Owner) -> int:
    """Return the number of pods of the workload."""
    base = tried.trial.scheduler.view

    def count() -> Counter[Owner]:
        table = base.pods.objects.table
        pods = np.bincount(table.template, minlength=len(table.templates)).tolist()
        owners: Counter[Owner] = Counter()
        for template, number in zip(table.templates, pods, strict=True):
            owners[find_owner(template)] += number
        return owners

    return base.memo("replicas of workloads", count)[owner]


def find_domain_counts(tried: TriedNode) -> list[DomainCounts]:
    """Return the domain counts of the pod's hard spread constraints, empty if PreFilter did not compute them."""
    return tried.cycle.pre_filter.find_state(PodTopologySpread) or []
