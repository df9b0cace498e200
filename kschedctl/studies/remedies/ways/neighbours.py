"""Pods that stand in the way: move one elsewhere, or run one replica fewer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, owner_of
from kschedctl.scheduler.cycle import run_cycle
from kschedctl.scheduler.facts import HostPortHeld, Insufficient, PodInTheWay, TooManyPods, TooSkewed
from kschedctl.scheduler.preemption.budgets import budgets
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.edits.cluster_edits import is_made_again
from kschedctl.studies.remedies.changes import Fix, ObjectEdit, ObjectKey
from kschedctl.studies.remedies.targets import NodeRefusal, Site

MOVE, FEWER = 45, 65
MOST_MOVED = 3
"""So many pods of a node are tried, those first that free what is short with the least."""


def in_the_way(site: Site, refusal: NodeRefusal) -> Iterator[Fix]:
    """The pods that the refusal is about, moved to where they fit, or given up."""
    for position in _candidates(site, refusal)[:MOST_MOVED]:
        yield from _moved(site, position)
        yield from _fewer(site, position)


def _candidates(site: Site, refusal: NodeRefusal) -> list[Position]:
    view = site.cycle.view
    found: list[Position] = []
    match refusal.fact:
        case Insufficient(resource=resource, requested=requested, free=free):
            found = _freeing(view, site.at, resource, requested - free)
        case TooManyPods():
            found = [position for position in view.pods_on(site.at) if _movable(view, position)]
        case HostPortHeld(holder=pod) | PodInTheWay(pod=pod, others=0) if pod in view.pods.index:
            found = [view.pods.index[pod]]
        case TooSkewed():
            found = _crowding(site, site.at)
    return found


def _freeing(view: Fork, row: Row, resource: str, short: int) -> list[Position]:
    """The pods of the node that by themselves free enough, the smallest first; else the largest."""
    column = view.resources.get(resource)
    if column is None:
        return []
    found = [position for position in view.pods_on(row) if _movable(view, position)]
    size = {position: int(view.requests[view.pods.info[position], column]) for position in found}
    enough = sorted((p for p in found if size[p] >= short), key=size.__getitem__)
    return enough or sorted((p for p in found if size[p] > 0), key=size.__getitem__, reverse=True)


def _crowding(site: Site, row: Row) -> list[Position]:
    """Pods of the same workload as this one in the node's domain: one of them elsewhere makes it less crowded."""
    view, pod = site.cycle.view, site.trial.pod
    mine = owner_of(pod)
    keys = {c.topology_key for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"}
    near = np.zeros(len(view.nodes), np.bool_)
    for key in keys:
        column = view.nodes.label(key)
        near |= (column.codes == column.codes[row]) & (column.codes >= 0)
    rows = np.flatnonzero(near)
    positions = [position for each in rows.tolist() for position in view.pods_on(Row(each))] if len(rows) < 1000 else []
    return [p for p in positions if owner_of(view.pods.objects[p]) == mine and _movable(view, p)]


def _movable(view: Fork, position: Position) -> bool:
    """Whether somebody makes the pod anew elsewhere, and no budget stands against its eviction."""
    pod = view.pods.objects[position]
    if not is_made_again(pod) or owner_of(pod).kind in ("DaemonSet", "Node"):
        return False
    return all(budgets(view).allowed(name) > 0 for name in budgets(view).selecting(position))


def _moved(site: Site, position: Position) -> Iterator[Fix]:
    """The pod on the best node that takes it while the asked one has the node that it leaves."""
    view, row = site.cycle.view, site.row
    if row is None or not _movable(view, position):
        return
    pod = view.pods.objects[position]
    target = _elsewhere(site, position, pod, row)
    if not target:
        return
    here = view.nodes.names[int(view.node[position])]
    selector = f"kubectl delete pod -n {pod.metadata.namespace} {pod.metadata.name}"
    yield Fix(
        "MovePod",
        (pod.key, target),
        f"move {pod.key} from {here} to {target}",
        "operator",
        (ObjectEdit(ObjectKey.of(pod), lambda found: replace(found, spec=replace(found.spec, node_name=target))),),
        MOVE,
        f"evicts {pod.key}",
        commands=(f"kubectl cordon {here}", selector, f"kubectl uncordon {here}"),
        variant_of="pod",
        where=pod.key,
    )


def _elsewhere(site: Site, position: Position, pod: Pod, row: Row) -> str:
    """The name of the best other node for it, empty where none takes it."""
    after = site.cycle.view.fork()
    here = Row(int(after.node[position]))
    after.forget(position)
    info = PodInfo(replace(pod, spec=replace(pod.spec, node_name="")), after.settings.requests)
    framework = site.trial.scheduler.framework(pod.spec.scheduler_name)
    if framework is None:
        return ""
    cycle = run_cycle(framework, info, after)
    if not cycle.schedulable:
        return ""
    scored = zip(cycle.scores.total.tolist(), cycle.scores.rows.tolist(), strict=True)
    best = max(((total, -other) for total, other in scored if other not in (here, row)), default=None)
    return after.nodes.names[-best[1]] if best else ""


def _fewer(site: Site, position: Position) -> Iterator[Fix]:
    """One replica fewer of its workload: this one, as its controller is told."""
    pod = site.cycle.view.pods.objects[position]
    owner = owner_of(pod)
    if owner.kind not in ("Deployment", "ReplicaSet") or not _movable(site.cycle.view, position):
        return
    count = sum(owner_of(each) == owner for each in _of_namespace(site, owner))
    first = (
        f"kubectl annotate pod -n {pod.metadata.namespace} {pod.metadata.name}"
        " controller.kubernetes.io/pod-deletion-cost=-1000 --overwrite"
    )
    scale = f"kubectl scale {owner.kind.lower()} -n {owner.namespace} {owner.name} --replicas={count - 1}"
    yield Fix(
        "ScaleDown",
        pod.key,
        f"run one replica fewer of {owner}: {pod.metadata.name}",
        "operator",
        (ObjectEdit(ObjectKey.of(pod), lambda _: None),),
        FEWER,
        f"{owner} runs with one replica fewer",
        commands=(first, scale),
        variant_of=owner,
        where=pod.key,
    )


def _of_namespace(site: Site, owner: Owner) -> list[Pod]:
    pods = site.cycle.view.pods
    return [pods.objects[position] for key, position in pods.index.items() if key.startswith(f"{owner.namespace}/")]
