"""Pods that stand in the way: move one elsewhere, or run one replica fewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Bools, Position, Row, find_positions
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.trials import is_resized
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.fixes.ways.given_back import detached, gone, users_of
from kschedctl.replay import kubectl
from kschedctl.replay.edits import is_recreated_elsewhere
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.engine.cycle import run_cycle
from kschedctl.scheduler.engine.preemption.budgets import find_budgets
from kschedctl.scheduler.plugins.inter_pod_affinity.facts import PodInTheWay
from kschedctl.scheduler.plugins.node_ports import HostPortHeld
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient, TooManyPods
from kschedctl.scheduler.plugins.node_volume_limits.node_limits import TooManyVolumes
from kschedctl.scheduler.plugins.pod_topology_spread.facts import TooSkewed
from kschedctl.scheduler.plugins.pod_topology_spread.filtering import DomainCounts
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.plugins.volume_restrictions import DiskMounted
from kschedctl.scheduler.registry.facts import AnyFact
from kschedctl.snapshot.pod_info import PodInfo

MOVE, FEWER = 45, 40
MOST_MOVED, MOST_TRIED = 3, 8
"""So many pods of a node are moved or given up, of so many that are tried."""
MOST_APART = 3
"""Where more pods keep the asked one away, moving them is no small change."""


def in_the_way(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """The pods that the refusal is about, moved to where they fit, or given up."""
    if tried.row is None:
        return
    moved = fewer = 0
    free = _free(tried, refusal.fact)
    for position in _candidates(tried, refusal)[:MOST_TRIED]:
        if moved < MOST_MOVED:
            for change in _moved(tried, position, free):
                moved += 1
                yield change
        if fewer < MOST_MOVED:
            for change in one_fewer(tried, position):
                fewer += 1
                yield change


def _free(tried: TriedNode, fact: AnyFact | None) -> Bools:
    """(N,): where a pod would be out of the way."""
    nodes = tried.cycle.view.nodes
    free = np.ones(len(nodes), np.bool_)
    if isinstance(fact, TooSkewed | PodInTheWay) and fact.key:
        codes = nodes.label(fact.key).codes
        free &= codes != codes[tried.at]
    free[tried.at] = False
    return free


def _candidates(tried: TriedNode, refusal: NodeRefusal) -> list[Position]:
    view = tried.cycle.view
    positions: list[Position] = []
    match refusal.fact:
        case Insufficient(resource=resource):
            positions = _freeing(tried, resource)
        case TooManyPods():
            positions = view.pods_on(tried.at)
        case HostPortHeld(holder=pod) | DiskMounted(pod=pod) if pod:
            positions = _named(tried, pod)
        case PodInTheWay(pod=pod, others=others) if pod and others < MOST_APART:
            positions = _named(tried, pod)
        case TooSkewed(key=key):
            positions = _crowding(tried, key)
        case TooManyVolumes(drivers=(first, *_)):
            positions = users_of(view, tried.at, first.driver)
    return [position for position in positions if _movable(tried, position)]


def _named(tried: TriedNode, key: str) -> list[Position]:
    position = tried.cycle.view.pods.find_position(key)
    return [] if position is None else [position]


def _freeing(tried: TriedNode, resource: str) -> list[Position]:
    """The pods of the node that by themselves free enough, the smallest first; then the others, the largest first.

    None where as many of them as a set has changes free too little of something that the node is short of.
    """
    view = tried.cycle.view
    facts = [refusal.fact for refusal in tried.refusals() if isinstance(refusal.fact, Insufficient)]
    columns = [view.resources[fact.resource] for fact in facts if fact.resource in view.resources]
    positions = [position for position in view.pods_on(tried.at) if _movable(tried, position)]
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


def _crowding(tried: TriedNode, key: str) -> list[Position]:
    """The pods that the constraints over that label count in the node's domain, those of the same workload first."""
    view, mine = tried.cycle.view, find_owner(tried.trial.pod)
    crowding: dict[Position, None] = {}
    for counted in counts(tried):
        if counted.constraint.topology_key == key:
            here = counted.eligible & (counted.column.codes == counted.column.codes[tried.at])
            selected = view.pods.matching(counted.constraint.selector, frozenset((tried.cycle.info.namespace,)))
            positions = view.pods.find_positions(selected & ~view.pods.terminating)
            node = view.node[positions]
            near = np.sort(positions[(node >= 0) & here[node]])
            crowding |= dict.fromkeys(Position(position) for position in near[: 4 * MOST_TRIED].tolist())
    return sorted(crowding, key=lambda position: find_owner(view.pods.objects[position]) != mine)


def _movable(tried: TriedNode, position: Position) -> bool:
    """Whether somebody makes the pod anew elsewhere, and it may be evicted."""
    return is_recreated_elsewhere(tried.cycle.view.pods.objects[position]) and evictable(tried, position)


def evictable(tried: TriedNode, position: Position) -> bool:
    """Whether its budget allows for its eviction besides the others'."""
    known = find_budgets(tried.trial.scheduler.view)
    selecting = known.selecting(position)
    return not selecting or (len(selecting) == 1 and known.allowed(selecting[0]) > _evicted(tried)[selecting[0]])


def _evicted(tried: TriedNode) -> Counter[str]:
    """Return how many disruptions of each budget the changes so far take; a pod that is resized in place stays."""
    view, asked = tried.trial.scheduler.view, ObjectKey.of(tried.trial.pod)
    edits = {key: edit for key, edit in tried.trial.edits.items() if key.kind == "Pod" and key != asked}
    gone = (key for key, edit in edits.items() if edit.before is not None and not is_resized(edit))
    positions = (view.pods.find_position(f"{key.namespace}/{key.name}") for key in gone)
    return Counter(
        name for position in positions if position is not None for name in find_budgets(view).selecting(position)
    )


def _moved(tried: TriedNode, position: Position, free: Bools) -> Iterator[Fix]:
    """The pod on the best node that takes it while the asked one has the node that it leaves."""
    view = tried.cycle.view
    pod = view.pods.objects[position]
    target = _elsewhere(tried, position, pod, free)
    if not target:
        return
    here = view.nodes.names[int(view.node[position])]
    weakens, price = _left_behind(pod)
    yield Fix(
        "MovePod",
        (pod.key, target),
        f"move {pod.key} from {here} to {target}",
        "operator",
        (ObjectEdit(ObjectKey.of(pod), _placed_on(target)), *detached(view, pod)),
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


def _left_behind(pod: Pod) -> tuple[str, Price | None]:
    """What a pod does not take along, and what that costs; nothing of its claims is lost."""
    volumes = pod.spec.volumes
    if any(volume.host_path is not None for volume in volumes):
        return ", which leaves the files of its hostPath volumes behind", Price.LOSS
    if any(volume.empty_dir is not None and volume.empty_dir.medium != "Memory" for volume in volumes):
        return ", and what is in its emptyDir volumes is gone", Price.GUARANTEE
    return "", Price.GUARANTEE if find_owner(pod).kind == "StatefulSet" else None


def _placed_on(node: str) -> Callable[[Pod], Pod]:
    return lambda pod: replace(pod, spec=replace(pod.spec, node_name=node))


def _elsewhere(tried: TriedNode, position: Position, pod: Pod, free: Bools) -> str:
    """The name of the best of the ``free`` nodes for it, empty where none takes it."""
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


def one_fewer(tried: TriedNode, position: Position) -> Iterator[Fix]:
    """One replica fewer of its workload: this one, where its controller can be told so."""
    pod = tried.cycle.view.pods.objects[position]
    owner = find_owner(pod)
    left = _replicas_left(tried, pod, owner)
    if left is None or owner == find_owner(tried.trial.pod):
        return  # of its own workload it would be the one that goes
    weakens, price = f"{owner} runs with one replica fewer", None if left else Price.LOSS
    if not left:
        weakens = f"{owner} no longer runs"
    if owner.kind == "StatefulSet":
        weakens += "; its persistentVolumeClaimRetentionPolicy may delete the claims of that replica"
        price = Price.LOSS
    yield Fix(
        "ScaleDown",
        pod.key,
        f"run one replica fewer of {owner}: {pod.metadata.name}",
        "operator",
        gone(tried.cycle.view, pod),
        FEWER,
        weakens,
        price=price,
        commands=kubectl.render_scale_down(pod, owner, left),
        variant_of=owner,
        where=pod.key,
    )


def _replicas_left(tried: TriedNode, pod: Pod, owner: Owner) -> int | None:
    """How many replicas there are without the pod; None where its workload would not give up this one.

    Pods that wait for a node go first, and a StatefulSet gives none up as long as one waits.
    """
    if _waits(tried, owner):
        return None
    if owner.kind in ("Deployment", "ReplicaSet"):
        return replicas(tried, owner) - 1 - _given_up(tried, owner)
    ordinal = pod.metadata.name.removeprefix(f"{owner.name}-")
    if owner.kind != "StatefulSet" or not ordinal.isdigit():
        return None
    later = range(int(ordinal) + 1, int(ordinal) + 1 + replicas(tried, owner))
    pods = tried.cycle.view.pods
    last = all(pods.find_position(f"{owner.namespace}/{owner.name}-{number}") is None for number in later)
    return int(ordinal) if last else None


def _given_up(tried: TriedNode, owner: Owner) -> int:
    """How many of its pods other changes of the trial take away."""
    gone = (edit.before for edit in tried.trial.edits.values() if edit.after is None)
    return sum(isinstance(pod, Pod) and find_owner(pod) == owner for pod in gone)


def _waits(tried: TriedNode, owner: Owner) -> bool:
    """Whether a pod of the workload has no node."""
    view = tried.trial.scheduler.view

    def owners() -> frozenset[Owner]:
        pods = (view.pods.objects[position] for position in find_positions(view.node < 0))
        return frozenset(find_owner(pod) for pod in pods if not pod.spec.node_name)

    return owner in view.memo("workloads of pods that wait", owners)


def replicas(tried: TriedNode, owner: Owner) -> int:
    """How many pods of the workload there are."""
    base = tried.trial.scheduler.view

    def count() -> Counter[Owner]:
        table = base.pods.objects.table
        pods = np.bincount(table.template, minlength=len(table.templates)).tolist()
        owners: Counter[Owner] = Counter()
        for template, number in zip(table.templates, pods, strict=True):
            owners[find_owner(template)] += number
        return owners

    return base.memo("replicas of workloads", count)[owner]


def counts(tried: TriedNode) -> list[DomainCounts]:
    """What the pod's hard constraints count, in their order; none where PreFilter does not come so far."""
    return tried.cycle.pre_filter.find_state(PodTopologySpread) or []
