"""Each plugin's own words for what wakes a pod that it refused; without such its registrations are told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kschedctl.api.api_versions import kind_in_api
from kschedctl.scheduler.framework.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    ActionType,
    ClusterEventWithHint,
    pre_checked,
)
from kschedctl.studies.waking.ways import nodes, pods, resources, volumes
from kschedctl.studies.waking.ways.told import BY_THE_PLUGIN, UPDATE, Told, Waiting, labels, listed

WORDS: Mapping[str, Callable[[Waiting], Iterator[Told]]] = {
    "SchedulingGates": pods.scheduling_gates,
    "NodeUnschedulable": nodes.node_unschedulable,
    "NodeName": nodes.node_name,
    "TaintToleration": nodes.taint_toleration,
    "NodeAffinity": nodes.node_affinity,
    "NodePorts": pods.node_ports,
    "NodeResourcesFit": resources.node_resources_fit,
    "VolumeRestrictions": volumes.volume_restrictions,
    "NodeVolumeLimits": volumes.node_volume_limits,
    "VolumeBinding": volumes.volume_binding,
    "VolumeZone": volumes.volume_zone,
    "PodTopologySpread": pods.pod_topology_spread,
    "InterPodAffinity": pods.inter_pod_affinity,
    "DynamicResources": resources.dynamic_resources,
    "NodeDeclaredFeatures": nodes.node_declared_features,
    "GangScheduling": pods.gang_scheduling,
    "Coscheduling": pods.coscheduling,
}
LIFTING: Mapping[str, Callable[[Waiting], Iterator[Told]]] = {
    "SchedulingGates": pods.scheduling_gates,
    "DynamicResources": resources.claims_appear,
    "GangScheduling": pods.gang_scheduling,
}
"""Of plugins that keep pods from being tried: what it takes until they do not, of all that they are told of."""
FREEING = {NODE: ActionType.DELETE, POD: ActionType.DELETE | ActionType.UPDATE_POD_SCALE_DOWN}
OF_RESIZES = " that is being resized"
REACHING = {NODE: " that would then take it", POD: " at which its pod affinity or spreading may look"}
"""Kind -> which changes reach the pod (scheduler/queueing/pre_checks.py)."""
THEN = {NODE: ", and would then take the pod", POD: ", and the pod's own affinity may look at that one"}
"""The same, after words."""
ITSELF = "the pod itself is updated, in more than its status"
ANY_TAINTS = "any taint of a node changes (the scheduler adds this, lest a new node is missed)"


def ways(waiting: Waiting, asked: tuple[ClusterEventWithHint, ...], hinted: bool) -> Iterator[Told]:
    """The kinds of change that wake the pod, of those that the plugin asked for.

    Without queueing hints (``hinted``) every change that was asked for does, if it reaches the pod, and any update of
    the pod itself; so do those that older versions, where nodes are pre-checked all the same, ask for without a hint.
    """
    if waiting.gated and waiting.name in LIFTING:
        yield from LIFTING[waiting.name](waiting)
        return
    checked = pre_checked(waiting.gates)
    plain = [each for each in asked if not hinted or (NODE in checked and each.hint is None)]
    yield from (told for each in plain for told in _without_hint(each, checked))
    if hinted:
        yield from _by_hints(waiting, [each for each in asked if each not in plain], checked)
    else:
        yield Told(POD, UPDATE, ITSELF)


def _by_hints(waiting: Waiting, asked: Sequence[ClusterEventWithHint], checked: Collection[str]) -> Iterator[Told]:
    found = WORDS.get(waiting.name)
    if found is None:
        yield from (Told(each.kind, each.action, _any(each.kind, each.action)) for each in asked)
        return
    wanted: dict[str, ActionType] = {}
    for each in asked:
        wanted[each.kind] = wanted.get(each.kind, ActionType(0)) | each.action
    for told in found(waiting):
        if told.action & wanted.get(told.kind, ActionType(0)) or told.action == BY_THE_PLUGIN:
            reaching = "" if _reaches_all(told, checked) else THEN[told.kind]
            yield told._replace(words=f"{told.words}{reaching}")
    if any(each.hint is None and each.event == _IMPLIED for each in asked):
        yield Told(NODE, ActionType.UPDATE_NODE_TAINT, ANY_TAINTS)


_IMPLIED = ClusterEventWithHint(NODE, ActionType.UPDATE_NODE_TAINT).event


def _reaches_all(told: Told, checked: Collection[str]) -> bool:
    if told.kind == NODE:
        return NODE not in checked
    return told.kind != POD or ASSIGNED_POD not in checked or bool(told.action & FREEING[POD])


def _without_hint(asked: ClusterEventWithHint, checked: Collection[str]) -> Iterator[Told]:
    """What makes room reaches all pods, other changes of nodes and pods, where these are pre-checked, those that they
    may concern."""
    if (ASSIGNED_POD if asked.kind == POD else asked.kind) not in checked:
        yield Told(asked.kind, asked.action, _any(asked.kind, asked.action))
        return
    freeing = asked.action & FREEING.get(asked.kind, asked.action)
    if asked.kind == POD and UPDATE in asked.action:  # then no kind of update has an event of its own
        freeing &= ~UPDATE
    others = asked.action & ~freeing
    if freeing:
        yield Told(asked.kind, freeing, _any(asked.kind, freeing))
    if others:
        resizes = asked.kind == POD and not others & ActionType.ADD  # who asks for updates alone asks for these
        reaching = OF_RESIZES if resizes else REACHING[asked.kind]
        yield Told(asked.kind, others, f"{_any(asked.kind, others)}{reaching}")


def _any(kind: str, action: ActionType) -> str:
    return f"any {listed([each.lower() for each in labels(action)], 'or')} of a {kind_in_api(kind)}"
