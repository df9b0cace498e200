"""What a node holds and would take, and where the pods of a workload are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from kschedctl.api.node_pools import pool_of
from kschedctl.api.objects import Pod, Taint, Toleration
from kschedctl.api.ownership import Owner, owner_of
from kschedctl.api.quantity import parse
from kschedctl.api.resource_names import is_counted
from kschedctl.errors import InputError, UsageError
from kschedctl.reports.browsing.changed_answer import ChangedAnswer, RefusingReason
from kschedctl.reports.browsing.contents import (
    NodeContents,
    NodeResource,
    PodOfNode,
    PodOfWorkload,
    WorkloadPods,
    ZonePods,
)
from kschedctl.reports.explanation import Explanation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.snapshot.node_order import zone_key
from kschedctl.studies.basics.edits import find_nodes
from kschedctl.studies.controllers.stand_in import StandIn
from kschedctl.studies.controllers.workload_pods import pods_of
from kschedctl.studies.explain import as_if

FITS = ""


def node_contents(
    scheduler: Scheduler, name: str, pending: Sequence[Pod], between: Callable[[], object] = lambda: None
) -> NodeContents | None:
    """Of the node with that name; None where there is none.

    ``pending``: the pods of which it is asked whether they would fit there; ``between`` is called before each question.
    """
    view = scheduler.view
    row = view.nodes.index.get(name)
    if row is None:
        return None
    node = view.nodes.objects[row]
    answers = _answers(scheduler, row, pending, between)
    pods = [_pod_of_node(scheduler, position) for position in np.flatnonzero(view.node == row).tolist()]
    return NodeContents(
        node=name,
        pool=pool_of(node),
        zone=zone_key(node)[1],
        unschedulable=node.spec.unschedulable,
        taints=tuple(map(_written, node.spec.taints)),
        labels=dict(sorted(node.metadata.labels.items())),
        resources=tuple(
            NodeResource(resource, int(view.allocatable[row, column]), int(view.requested[row, column]))
            for resource, column in view.resources.items()
            if view.allocatable[row, column] or view.requested[row, column]
        ),
        pods=tuple(sorted(pods, key=lambda pod: (-pod.priority, pod.pod))),
        fit=tuple(pod.key for pod, why in zip(pending, answers, strict=True) if why == FITS),
        refused=dict(Counter(filter(None, answers)).most_common()),
    )


def _written(taint: Taint) -> str:
    """As ``kubectl taint`` writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _pod_of_node(scheduler: Scheduler, position: int) -> PodOfNode:
    view = scheduler.view
    pod, info = view.pods.objects[position], int(view.pods.info[position])
    amounts = {name: int(view.requests[info, column]) for name, column in view.resources.items()}
    asked = {name: amount for name, amount in amounts.items() if amount}
    return PodOfNode(pod.key, str(owner_of(pod)), view.pods.infos[info].priority, asked)


def _answers(scheduler: Scheduler, row: int, pending: Sequence[Pod], between: Callable[[], object]) -> list[str]:
    """Of each pod why it does not fit there, FITS where it does; those alike are asked once."""
    pods, known = scheduler.view.pods, dict[int, str]()
    alike = [int(pods.info[pods.index[pod.key]]) for pod in pending]
    for info, pod in zip(alike, pending, strict=True):
        if info not in known:
            between()
            known[info] = _answer(scheduler, row, pod)
    return [known[info] for info in alike]


def _answer(scheduler: Scheduler, row: int, pod: Pod) -> str:
    stored = scheduler.view.stored(pod)
    framework = scheduler.framework(stored.spec.scheduler_name)
    if framework is None:
        return f'no profile serves scheduler name "{stored.spec.scheduler_name}"'
    cycle = scheduler.cycle(framework.unasked(), stored)
    if cycle.error is not None:
        return cycle.error
    if cycle.gated:
        return "held back before scheduling"
    if not cycle.considered[row]:
        return ", ".join(cycle.absent_status().reasons)
    return FITS if cycle.filter.passing[row] else ", ".join(cycle.filter.first_fail(row)[1].reasons)


def workload_pods(scheduler: Scheduler, owner: Owner, causes: Mapping[str, str]) -> WorkloadPods:
    """All that the cluster has of it, those that wait first; ``causes``: why pods wait, by their keys."""
    zones = {node.metadata.name: zone_key(node)[1] for node in scheduler.cluster.nodes}
    found = [_pod_of_workload(pod, zones, causes) for pod in pods_of(scheduler.cluster, owner)]
    found.sort(key=lambda pod: (bool(pod.node), pod.pod))
    bound = [pod for pod in found if pod.node]
    pods, nodes = Counter(pod.zone for pod in bound), Counter(zone for zone, _ in {(p.zone, p.node) for p in bound})
    every = sorted({*zones.values(), *pods})
    return WorkloadPods(str(owner), tuple(found), tuple(ZonePods(zone, pods[zone], nodes[zone]) for zone in every))


def _pod_of_workload(pod: Pod, zones: Mapping[str, str], causes: Mapping[str, str]) -> PodOfWorkload:
    node = pod.spec.node_name
    created, phase = pod.metadata.creation_timestamp or "", pod.status.phase or "Pending"
    return PodOfWorkload(pod.key, node, zones.get(node, ""), phase, created, causes.get(pod.key, ""))


def changed_answer(before: Explanation, after: Explanation) -> ChangedAnswer:
    """From the pod as it is to the pod, or the cluster, as it is supposed."""
    old, new = ({(each.plugin, each.reason): each.nodes for each in r.eliminations} for r in (before, after))
    reasons = (
        RefusingReason(plugin, reason, old.get((plugin, reason), 0), new.get((plugin, reason), 0))
        for plugin, reason in dict.fromkeys((*old, *new))
    )
    was, now = frozenset(before.feasible), frozenset(after.feasible)
    return ChangedAnswer(
        fit=(len(was), len(now)),
        gained=tuple(name for name in after.feasible if name not in was),
        lost=tuple(name for name in before.feasible if name not in now),
        best=(before.best, after.best),
        reasons=tuple(each for each in reasons if each.before != each.after),
    )


WHERE = "as if"
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
SUPPOSABLE = "priority=NUMBER class=NAME cpu=500m memory=1Gi tolerate=KEY[=VALUE][:EFFECT] node=LIKE"
"""What may be said, in any order; amounts are the first container's request."""


def supposed(asked: StandIn, words: str) -> StandIn:
    """The pod, and the cluster around it, as the words have them: see SUPPOSABLE. Raises UsageError, InputError."""
    said = [_pair(word) for word in words.split()]
    for name, value in said:
        if name == "node":
            asked = _with_node(asked, value)
    for name, value in said:
        if name != "node":
            asked = asked._replace(pod=_changed(asked, name, value))
    return asked


def _pair(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    if not (name and equals and value):
        raise UsageError(f'"{word}" is not NAME=VALUE', where=WHERE, hint=SUPPOSABLE)
    return name, value


def _changed(asked: StandIn, name: str, value: str) -> Pod:
    match name:
        case "priority":
            return as_if(asked, as_if_priority=_number(value))
        case "class":
            return as_if(asked, as_if_priority_class=value)
        case "tolerate":
            return _tolerating(asked.pod, toleration(value))
    return _asking(asked.pod, name, value)


def _number(text: str) -> int:
    """Priorities are int32. Raises UsageError."""
    try:
        found = int(text[:20])
    except ValueError:
        raise UsageError(f'priority "{text}" is not a number', where=WHERE) from None
    if abs(found) >= 1 << 31:
        raise UsageError(f"priority {found} is out of the range of int32", where=WHERE)
    return found


def toleration(text: str) -> Toleration:
    """As ``kubectl taint`` writes taints; without a value any is tolerated, without an effect all are.

    Raises UsageError.

    >>> toleration("gpu=a100:NoSchedule")
    Toleration(key='gpu', operator='Equal', value='a100', effect='NoSchedule', toleration_seconds=None)
    """
    pair, _, effect = text.partition(":")
    if effect not in ("", *EFFECTS):
        raise UsageError(f'"{effect}" is no effect of a taint', where=WHERE, hint=", ".join(EFFECTS))
    key, equals, value = pair.partition("=")
    return Toleration(key=key, operator="Equal" if equals else "Exists", value=value, effect=effect)


def _tolerating(pod: Pod, more: Toleration) -> Pod:
    return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, more)))


def _asking(pod: Pod, resource: str, amount: str) -> Pod:
    """The first container asks for so much, and for no less than it may use at most."""
    if not is_counted(resource):
        raise UsageError(f'"{resource}" is no resource that is scheduled by', where=WHERE, hint=SUPPOSABLE)
    try:
        negative = parse(amount).mantissa < 0
    except ValueError as error:
        raise InputError(f"{resource}: {error}", where=WHERE) from None
    if negative:
        raise UsageError(f"{resource}: {amount} is negative", where=WHERE)
    if not pod.spec.containers:
        raise UsageError("the pod has no container", where=WHERE)
    first, *others = pod.spec.containers
    limits = {name: most for name, most in first.resources.limits.items() if name != resource}
    resources = replace(first.resources, requests={**first.resources.requests, resource: amount}, limits=limits)
    return replace(pod, spec=replace(pod.spec, containers=(replace(first, resources=resources), *others)))


def _with_node(asked: StandIn, like: str) -> StandIn:
    """One more node of that shape, as the remedy that adds one makes it; the last one in the order of nodes."""
    from kschedctl.studies.remedies.changes import edited, reader  # noqa: PLC0415 - little else needs remedies
    from kschedctl.studies.remedies.trials import changed_cluster, changed_view  # noqa: PLC0415
    from kschedctl.studies.remedies.ways.new_nodes import more_like  # noqa: PLC0415

    scheduler, view = asked.scheduler, asked.scheduler.view
    (name,) = find_nodes(scheduler.cluster, (like,))
    fix = more_like(view, view.nodes.objects[view.nodes.index[name]])
    edits = edited([fix], reader(scheduler.cluster))
    found = Scheduler(changed_cluster(scheduler.cluster, edits, whole=True), scheduler.call_extender)
    found.view = changed_view(view, edits)  # quicker by seconds than columns of all nodes and pods anew
    return asked._replace(scheduler=found)
