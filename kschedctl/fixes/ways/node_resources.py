"""Fixes for resources that nodes lack, other than lower requests: extended resources, maxPods and resizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from kschedctl.api import resource_names
from kschedctl.api.json_values import Json
from kschedctl.api.objects import Container, DeviceClass, Node, Pod, ResourceRequirements
from kschedctl.api.pod_requests import revert_pending_resize
from kschedctl.api.resource_names import PODS, is_dra_extended, is_extended
from kschedctl.fixes.trial.changes import Fix, ObjectEdit, build_node_edits, build_pod_edits
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.guesses import find_device_hint
from kschedctl.fixes.trial.trial_node import NodeRejection, TrialNode
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.scheduler.framework.extended_resources import IN_MEMORY_NAME
from kschedctl.scheduler.plugins.dynamic_resources.facts import DevicesUnfit
from kschedctl.scheduler.plugins.node_resources.fit import Insufficient, TooManyPods

PUBLISH, LOWER, BACK = 12, 40, 42
MOST_CLASSES = 4
"""The most DeviceClasses that are proposed for one extended resource."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"


def iter_device_plugin_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield the fix that repairs a node's device plugin, if a label or taint says that the node has the devices.

    There is no fix if the node publishes devices of the requested kind. The node is assumed to have as many devices as
    other nodes of its instance type publish, or else as many as are requested.
    """
    fact = rejection.fact
    if not isinstance(fact, Insufficient) or fact.offered or not is_extended(fact.resource):
        return
    view, row, resource = trial_node.cycle.view, trial_node.known_row, fact.resource
    node = view.nodes.objects[row]
    hint = find_device_hint(resource, node.metadata.labels, node.spec.taints)
    if not hint:
        return

    # A node that publishes devices of another vendor, such as amd.com/gpu for nvidia.com/gpu, lacks no plugin.
    kind = resource.rpartition("/")[2]
    if any(is_extended(other) and other.endswith(f"/{kind}") for other in node.status.allocatable):
        return

    # Find how many devices the node should publish.
    type_codes = view.nodes.label(INSTANCE_TYPE).codes
    has_same_type = (type_codes == type_codes[row]) & (type_codes >= 0)
    column = view.resources.get(resource)
    offered = 0 if column is None else int(view.allocatable[has_same_type, column].max(initial=0))
    amount = str(offered or fact.requested)

    def change(current: Node) -> Node:
        """Return the node with the devices that it should publish."""
        status = replace(current.status, allocatable={**current.status.allocatable, resource: amount})
        return replace(current, status=status)

    name = node.metadata.name
    text = f"check the device plugin of {resource} on node {name}, which publishes none despite the {hint}"
    commands = (kubectl.render_command("describe", "node", name),)
    edits = build_node_edits(node, change)
    target = (name, resource)
    yield Fix(
        kind=FixKind.PUBLISH_RESOURCE,
        target=target,
        text=text,
        by="operator",
        edits=edits,
        cost=PUBLISH,
        commands=commands,
        variant_of=resource,
        where=name,
    )


def iter_fewer_devices_fixes(trial_node: TrialNode, fact: DevicesUnfit) -> Iterator[Fix]:
    """Yield fixes that lower a container's request for an extended resource to the number of free devices.

    Only extended resources backed by a DeviceClass are lowered: the scheduler makes device requests for them. There is
    no fix if no device is free, or if enough devices are free.
    """
    spec = trial_node.trial.pod.spec
    container_places = [("init_containers", index) for index in range(len(spec.init_containers))]
    container_places += [("containers", index) for index in range(len(spec.containers))]
    for request in fact.requests:
        is_for_pod_resource = request.claim.rpartition("/")[2] == IN_MEMORY_NAME
        if not is_for_pod_resource or not 0 < request.free < (request.wanted or 0):
            continue
        # Upstream names requests for the pod's resources container-0-request-1: the number of the container among all,
        # and the number of the resource by name.
        _, container_number, _, resource_number = request.request.split("-")
        field, index = container_places[int(container_number)]
        container: Container = getattr(spec, field)[index]
        name = sorted(container.resources.requests)[int(resource_number)]
        count = str(request.free)
        text = f"request {count} {name} instead of {request.wanted} in container {container.name}"
        edits = build_pod_edits(trial_node.trial.pod, _build_container_request_change(field, index, name, count))
        yield Fix(
            kind=FixKind.LOWER_REQUEST,
            target=(field, index, name, count),
            text=text,
            by="author",
            edits=edits,
            cost=LOWER,
        )


def _build_container_request_change(field: str, index: int, name: str, count: str) -> Callable[[Pod], Pod]:
    """Return a function that sets a container's request for a resource, and its limit as well if the limit is set.

    `field` and `index` locate the container in the pod's spec. `name` is the resource, and `count` its new amount.
    """

    def change(pod: Pod) -> Pod:
        """Return the pod with the new request."""
        containers = list(getattr(pod.spec, field))
        resources = containers[index].resources
        limits = {**resources.limits, name: count} if name in resources.limits else resources.limits
        resources = replace(resources, requests={**resources.requests, name: count}, limits=limits)
        containers[index] = replace(containers[index], resources=resources)
        return replace(pod, spec=replace(pod.spec, **{field: tuple(containers)}))

    return change


def iter_device_class_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that offer the devices of a DeviceClass as an extended resource that no node offers.

    There is one fix for each of the first `MOST_CLASSES` classes that offer no extended resource yet.
    """
    fact = rejection.fact
    if not isinstance(fact, Insufficient) or fact.largest or not is_dra_extended(fact.resource):
        return
    unassigned_classes = [
        device_class
        for device_class in trial_node.cycle.view.cluster.device_classes
        if device_class.spec.extended_resource_name is None
    ]
    for class_ in unassigned_classes[:MOST_CLASSES]:
        key = ObjectKey.of(class_)
        name = class_.metadata.name
        text = f"offer the devices of DeviceClass {name} as {fact.resource}"
        command = kubectl.render_patch(key, {"spec": {"extendedResourceName": fact.resource}})
        edits = (ObjectEdit(key, _build_resource_name_change(fact.resource)),)
        target = (name, fact.resource)
        yield Fix(
            kind=FixKind.BACK_RESOURCE,
            target=target,
            text=text,
            by="operator",
            edits=edits,
            cost=BACK,
            commands=(command,),
            variant_of=fact.resource,
            where=name,
        )


def _build_resource_name_change(resource: str) -> Callable[[DeviceClass], DeviceClass]:
    """Return a function that makes a DeviceClass offer its devices as the extended resource."""
    return lambda current: replace(current, spec=replace(current.spec, extended_resource_name=resource))


RAISE = 60
"""The cost of a higher pod limit."""


def iter_max_pods_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield the fix that lets the kubelet accept one more pod, if its limit is the only obstacle.

    The kubelet publishes the limit in the node's status when it starts. Reference: Kubelet Configuration, maxPods.
    """
    fact = rejection.fact
    if not isinstance(fact, TooManyPods) or len(trial_node.find_rejections()) > 1:
        return
    node = trial_node.cycle.view.nodes.objects[trial_node.known_row]
    name = node.metadata.name
    limit = max(fact.pods, fact.limit) + 1

    def change(current: Node) -> Node:
        """Return the node with the higher limit."""
        return replace(
            current, status=replace(current.status, allocatable={**current.status.allocatable, PODS: str(limit)})
        )

    yield Fix(
        kind=FixKind.RAISE_MAX_PODS,
        target=(name, limit),
        text=f"set maxPods of the kubelet on node {name} to {limit} instead of {fact.limit}, and restart the kubelet",
        by="operator",
        edits=build_node_edits(node, change),
        cost=RAISE,
        weakens="pods never start if the node's network has no addresses left for them",
        commands=(kubectl.render_command("describe", "node", name),),
        variant_of="maxPods",
        where=name,
    )


REVERT = 5
"""The cost of reverting a resize."""
MOST_REVERTED = 3
"""The maximum number of resizes on a node that are proposed for reverting."""


def iter_resize_revert_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield fixes that revert resizes that the node's kubelet deferred because of insufficient room, one resize each.

    Only the first `MOST_REVERTED` resizes of the fact are reverted. Nothing is yielded for rejections other than
    insufficient resources.
    """
    if trial_node.row is None or not isinstance(rejection.fact, Insufficient):
        return
    view, resource = trial_node.cycle.view, rejection.fact.resource
    for resize in rejection.fact.deferred_resizes[:MOST_REVERTED]:
        position = view.pods.find_position(resize.pod)
        if position is None:
            continue
        pod = view.pods.objects[position]
        (reserved, running), unit = resource_names.format_amounts_for_sentence(
            resource, resize.reserved, resize.running
        )
        text = f"revert the deferred resize of {resize.pod} from {reserved} to {running} {unit}"
        yield Fix(
            kind=FixKind.REVERT_RESIZE,
            target=resize.pod,
            text=text,
            by="operator",
            edits=build_pod_edits(pod, revert_pending_resize),
            cost=REVERT,
            commands=(_render_resize_command(pod),),
            where=resize.pod,
        )


def _render_resize_command(pod: Pod) -> str:
    """Return the command that patches the pod's resources back to the allocated ones.

    It contains only the containers that change, and needs kubectl 1.32 or later.
    """
    reverted = revert_pending_resize(pod)
    spec: dict[str, Json] = {}
    for field, name in (("containers", "containers"), ("init_containers", "initContainers")):
        pairs = zip(getattr(pod.spec, field), getattr(reverted.spec, field), strict=True)
        changed = [_build_container_patch(after) for before, after in pairs if before != after]
        if changed:
            spec[name] = changed
    if reverted.spec.resources is not None and reverted.spec.resources != pod.spec.resources:
        spec["resources"] = _build_resources_patch(reverted.spec.resources)
    arguments = kubectl.build_object_arguments(ObjectKey.of(pod))
    return kubectl.render_command(
        "patch", *arguments, "--subresource=resize", "-p", kubectl.encode_compact_json({"spec": spec})
    )


def _build_container_patch(container: Container) -> Json:
    """Return the patch that sets a container's requests and limits of CPU and memory."""
    return {"name": container.name, "resources": _build_resources_patch(container.resources)}


def _build_resources_patch(resources: ResourceRequirements) -> Json:
    """Build the patch with the requests and limits of CPU and memory, which alone can be resized in place.

    Requests or limits are left out if no resource has any. If only other resources have some, they are an empty
    mapping.
    """
    amounts = {"requests": resources.requests, "limits": resources.limits}
    resizable = (resource_names.CPU, resource_names.MEMORY)
    return {
        field: {name: amount for name, amount in values.items() if name in resizable}
        for field, values in amounts.items()
        if values
    }
