"""Patches of the workload that owns a pod, since people change its pod template rather than the pod."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.json_values import Json, JsonObject, object_at
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.fixes.trial.immutable import is_valid_update
from kschedctl.lint.objects.stored_pods import remove_node_pin, to_written_spec
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.patches import build_strategic_patch, to_document, wrap_in_template

SET_AT_ADMISSION = ("priority", "preemptionPolicy")
"""Fields of a pod's spec that admission sets from its PriorityClass."""
BY_UID = ("batch.kubernetes.io/controller-uid", "controller-uid")
"""Labels by which a Job selects its pods; they and the selector are generated for each Job."""
ADDED_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""What admission adds to every pod, with tolerationSeconds."""
REPLACES_NONE = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Kinds that do not replace a waiting pod when their template changes. For StatefulSets, see Forced rollback in
their documentation on kubernetes.io.
"""


class OwnerPatch(NamedTuple):
    """A patch of a pod's owner, as its author would write it."""

    owner: Owner
    patch: JsonObject
    """The strategic merge patch."""
    anew: bool
    """Whether the owner has to be created anew, since it cannot be patched in place."""
    waiting: tuple[ObjectKey, ...] = ()
    """Waiting pods that keep the old template until somebody deletes them."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The command that patches or recreates the owner, followed by those that delete its waiting pods."""
        key = ObjectKey(*self.owner)
        if self.anew:
            return (kubectl.render_recreate_with_patch(key, _drop_generated_fields(self.patch, key.kind), "strategic"),)
        patch = kubectl.render_command("patch", *kubectl.object_arguments(key), "--type", "strategic", "-p", self.text)
        return (patch, *map(kubectl.render_delete, self.waiting))

    @property
    def text(self) -> str:
        """The patch as compact JSON."""
        return kubectl.compact_json(self.patch)


def _drop_generated_fields(owner_patch: JsonObject, kind: str) -> JsonObject:
    """Return the patch extended to remove generated fields, which the API server rejects in a new object."""
    if kind == "Job":
        template = {**object_at(owner_patch, "spec", "template"), "metadata": {"labels": dict.fromkeys(BY_UID)}}
        return {"spec": {**object_at(owner_patch, "spec"), "selector": None, "template": template}}
    spec = object_at(owner_patch, "spec")
    if not spec or "priorityClassName" in spec:  # nothing else is another: what admission made of the class once
        return {**owner_patch, "spec": {**dict.fromkeys(SET_AT_ADMISSION), **spec}}
    return owner_patch


def build_owner_patch(before: Pod, after: Pod, waiting: Iterable[Pod] = ()) -> OwnerPatch:
    """Return the patch of the pod's owner that turns the pod `before` into `after`.

    `waiting` are the owner's waiting pods that should get the change.
    """
    owner = find_owner(before)
    old, new = (_build_template_document(pod, owner) for pod in (before, after))
    patch: JsonObject = build_strategic_patch(old, new)
    patch = wrap_in_template(owner.kind, patch)
    anew = owner.kind == "Job" or (owner.kind == "Pod" and not is_valid_update(before, after))
    deleted = tuple(map(ObjectKey.of, waiting)) if owner.kind in REPLACES_NONE else ()
    return OwnerPatch(owner, patch, anew, deleted)


def _build_template_document(pod: Pod, owner: Owner) -> dict[str, Json]:
    """Return the part of the pod that its owner's template contains, without what admission added."""
    spec = to_written_spec(pod)
    if owner.kind == "DaemonSet":
        spec = remove_node_pin(spec)
    if owner.kind != "Pod":
        written_tolerations = tuple(
            t for t in spec.tolerations if t.key not in ADDED_TOLERATIONS or t.toleration_seconds is None
        )
        overhead = {} if spec.runtime_class_name else spec.overhead
        spec = replace(spec, tolerations=written_tolerations, overhead=overhead)
    spec_document = to_document(spec)
    for field in SET_AT_ADMISSION if pod.spec.priority_class_name else ():
        spec_document.pop(field, None)
    return {"spec": spec_document}
