"""Deferred in-place resizes: reserve no more than the pod runs with."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api import resource_names
from kschedctl.api.json_values import Json
from kschedctl.api.objects import Container, Pod, ResourceRequirements
from kschedctl.api.pod_requests import revert_resize
from kschedctl.fixes.trial.changes import Fix, on_pod
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient

REVERT = 5
MOST_REVERTED = 3


def revert(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield for each of the largest deferred resizes on the node a fix that reverts it."""
    if tried.row is None or not isinstance(refusal.fact, Insufficient):
        return
    view, resource = tried.cycle.view, refusal.fact.resource
    for resize in refusal.fact.deferred_resizes[:MOST_REVERTED]:
        position = view.pods.find_position(resize.pod)
        if position is None:
            continue
        pod = view.pods.objects[position]
        running, reserved = resource_names.format_in_one_unit(resource, resize.running, resize.reserved)
        text = f"revert the deferred resize of {resize.pod} from {reserved} to {running} {resource}"
        yield Fix(
            "RevertResize",
            resize.pod,
            text,
            "operator",
            on_pod(pod, revert_resize),
            REVERT,
            commands=(_patch_resources(pod),),
            where=resize.pod,
        )


def _patch_resources(pod: Pod) -> str:
    """Return the command that sets the allocated resources by the resize subresource (kubectl 1.32 and later)."""
    reverted = revert_resize(pod)
    spec: dict[str, Json] = {}
    for field, name in (("containers", "containers"), ("init_containers", "initContainers")):
        pairs = zip(getattr(pod.spec, field), getattr(reverted.spec, field), strict=True)
        changed = [_container_patch(after) for before, after in pairs if before != after]
        if changed:
            spec[name] = changed
    if reverted.spec.resources is not None and reverted.spec.resources != pod.spec.resources:
        spec["resources"] = _resources_patch(reverted.spec.resources)
    named = kubectl.object_arguments(ObjectKey.of(pod))
    return kubectl.render_command("patch", *named, "--subresource=resize", "-p", kubectl.compact_json({"spec": spec}))


def _container_patch(container: Container) -> Json:
    return {"name": container.name, "resources": _resources_patch(container.resources)}


def _resources_patch(resources: ResourceRequirements) -> Json:
    """Return requests and limits, of what can be resized in place."""
    amounts = {"requests": resources.requests, "limits": resources.limits}
    resizable = (resource_names.CPU, resource_names.MEMORY)
    return {
        field: {name: amount for name, amount in own.items() if name in resizable}
        for field, own in amounts.items()
        if own
    }
