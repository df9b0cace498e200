"""Fixes for extended resources: their device plugin, fewer devices, or a DeviceClass that stands for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kschedctl.api.objects import Container, DeviceClass, Node, Pod
from kschedctl.api.resource_names import is_dra_extended, is_extended
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, on_node, on_pod
from kschedctl.fixes.trial.device_marks import find_device_mark
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.framework.extended_resources import IN_MEMORY_NAME
from kschedctl.scheduler.plugins.dynamic_resources.facts import DevicesUnfit
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient

PUBLISH, LOWER, BACK = 12, 40, 42
MOST = 4
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def published(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield the device plugin's repair for a node that is marked as having devices and publishes none.

    As many devices are assumed as nodes of its instance type publish, or as are requested if there are none.
    """
    fact = refusal.fact
    if not isinstance(fact, Insufficient) or fact.offered or not is_extended(fact.resource):
        return
    nodes, resource = tried.cycle.view.nodes, fact.resource
    node = nodes.objects[tried.at]
    mark = find_device_mark(resource, node.metadata.labels, node.spec.taints)
    kind = resource.rpartition("/")[2]
    if not mark or any(is_extended(other) and other.endswith(f"/{kind}") for other in node.status.allocatable):
        return  # its devices are those of another vendor
    types = nodes.label(INSTANCE_TYPE)
    column = tried.cycle.view.resources.get(resource)
    alike = (types.codes == types.codes[tried.at]) & (types.codes >= 0)
    offered = 0 if column is None else int(tried.cycle.view.allocatable[alike, column].max(initial=0))
    amount = str(offered or fact.requested)

    def change(read: Node) -> Node:
        status = replace(read.status, allocatable={**read.status.allocatable, resource: amount})
        return replace(read, status=status)

    name = node.metadata.name
    text = f"check the device plugin of {resource} on node {name}, which publishes none in spite of its {mark}"
    commands = (kubectl.render_command("describe", "node", name),)
    edits = on_node(node, change)
    target = (name, resource)
    yield Fix(FixKind.PUBLISH_RESOURCE, target, text, "operator", edits, PUBLISH, "", commands, resource, name)


def request_fewer(tried: TriedNode, fact: DevicesUnfit) -> Iterator[Fix]:
    """Yield fixes that lower a container's request to the number of free devices."""
    spec = tried.trial.pod.spec
    places = [("init_containers", i) for i in range(len(spec.init_containers))]
    places += [("containers", i) for i in range(len(spec.containers))]
    for request in fact.requests:
        if request.claim.rpartition("/")[2] != IN_MEMORY_NAME or not 0 < request.free < (request.wanted or 0):
            continue
        _, container, _, resource = request.request.split("-")  # container-0-request-1, the second by name
        field, place = places[int(container)]
        own: Container = getattr(spec, field)[place]
        name, count = sorted(own.resources.requests)[int(resource)], str(request.free)
        text = f"request {count} {name} instead of {request.wanted} in container {own.name}"
        edits = on_pod(tried.trial.pod, _with_request(field, place, name, count))
        yield Fix(FixKind.LOWER_REQUEST, (field, place, name, count), text, "author", edits, LOWER)


def _with_request(field: str, place: int, name: str, count: str) -> Callable[[Pod], Pod]:
    """Return a change that sets a container's request, and its limit if it has one."""

    def change(pod: Pod) -> Pod:
        containers = list(getattr(pod.spec, field))
        own = containers[place].resources
        limits = {**own.limits, name: count} if name in own.limits else own.limits
        resources = replace(own, requests={**own.requests, name: count}, limits=limits)
        containers[place] = replace(containers[place], resources=resources)
        return replace(pod, spec=replace(pod.spec, **{field: tuple(containers)}))

    return change


def back_by_class(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes that make a DeviceClass stand for an extended resource that no node offers."""
    fact = refusal.fact
    if not isinstance(fact, Insufficient) or fact.largest or not is_dra_extended(fact.resource):
        return
    free = [
        device_class
        for device_class in tried.cycle.view.cluster.device_classes
        if device_class.spec.extended_resource_name is None
    ]
    for class_ in free[:MOST]:
        key, name = ObjectKey.of(class_), class_.metadata.name
        text = f"let the devices of DeviceClass {name} stand for {fact.resource}"
        command = kubectl.render_patch(key, {"spec": {"extendedResourceName": fact.resource}})
        edits = (ObjectEdit(key, _with_resource_name(fact.resource)),)
        target = (name, fact.resource)
        yield Fix(FixKind.BACK_RESOURCE, target, text, "operator", edits, BACK, "", (command,), fact.resource, name)


def _with_resource_name(resource: str) -> Callable[[DeviceClass], DeviceClass]:
    """Return a change of a DeviceClass that makes it stand for the resource."""
    return lambda known: replace(known, spec=replace(known.spec, extended_resource_name=resource))
