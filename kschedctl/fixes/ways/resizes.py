"""Fixes that revert deferred in-place resizes, so that pods reserve no more than they run with."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api import resource_names
from kschedctl.api.json_values import Json
from kschedctl.api.objects import Container, Pod, ResourceRequirements
from kschedctl.api.pod_requests import revert_resize
from kschedctl.fixes.trial.changes import Fix, on_pod
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.scheduler.plugins.node_resources.facts import Insufficient

REVERT = 5
MOST_REVERTED = 3
"""How many resizes on a node are proposed for reverting."""


def revert_resizes(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield fixes that revert the largest deferred resizes on the node."""
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
            FixKind.REVERT_RESIZE,
            resize.pod,
            text,
            "operator",
            on_pod(pod, revert_resize),
            REVERT,
            commands=(_render_resize_command(pod),),
            where=resize.pod,
        )


def _render_resize_command(pod: Pod) -> str:
    """Return the command that patches the pod's resize subresource back to the allocated resources (kubectl 1.32+)."""
    reverted = revert_resize(pod)
    spec: dict[str, Json] = {}
    for field, name in (("containers", "containers"), ("init_containers", "initContainers")):
        pairs = zip(getattr(pod.spec, field), getattr(reverted.spec, field), strict=True)
        changed = [_build_container_patch(after) for before, after in pairs if before != after]
        if changed:
            spec[name] = changed
    if reverted.spec.resources is not None and reverted.spec.resources != pod.spec.resources:
        spec["resources"] = _build_resources_patch(reverted.spec.resources)
    named = kubectl.object_arguments(ObjectKey.of(pod))
    return kubectl.render_command("patch", *named, "--subresource=resize", "-p", kubectl.compact_json({"spec": spec}))


def _build_container_patch(container: Container) -> Json:
    """Return the patch that sets a container's resources."""
    return {"name": container.name, "resources": _build_resources_patch(container.resources)}


def _build_resources_patch(resources: ResourceRequirements) -> Json:
    """Return the requests and limits of the resources that can be resized in place: CPU and memory."""
    amounts = {"requests": resources.requests, "limits": resources.limits}
    resizable = (resource_names.CPU, resource_names.MEMORY)
    return {
        field: {name: amount for name, amount in values.items() if name in resizable}
        for field, values in amounts.items()
        if values
    }
