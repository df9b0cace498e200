"""How people change what a pod asks for: the template of the workload that makes it, not the pod itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.json_values import Json, JsonObject, object_at
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.fixes.trial.immutable import is_updated
from kschedctl.lint.objects.stored_pods import remove_node_pin, to_written_spec
from kschedctl.replay import kubectl
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.patches import build_strategic_patch, to_document, wrap_in_template

SET_AT_ADMISSION = ("priority", "preemptionPolicy")
BY_UID = ("batch.kubernetes.io/controller-uid", "controller-uid")
"""The labels by which a Job knows its pods; they, and the selector, are made for each Job."""
ADDED_TOLERATIONS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""What admission adds to every pod, with tolerationSeconds."""
REPLACES_NONE = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""Who does not replace a pod that waits when its template is another; a StatefulSet does not in order, see Forced
rollback in StatefulSets (k8s.io/docs)."""


class OwnerPatch(NamedTuple):
    """What the author of the ``owner`` writes: the ``patch``; ``anew``: it cannot be patched in place.

    ``waiting``: the pods that keep the old template forever unless somebody deletes them.
    """

    owner: Owner
    patch: JsonObject
    anew: bool
    waiting: tuple[ObjectKey, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """The command that patches, or creates anew, and those without which that does nothing."""
        key = ObjectKey(*self.owner)
        if self.anew:
            return (kubectl.render_recreate_with_patch(key, _created_anew(self.patch, key.kind), "strategic"),)
        patch = kubectl.render_command("patch", *kubectl.object_arguments(key), "--type", "strategic", "-p", self.text)
        return (patch, *map(kubectl.render_delete, self.waiting))

    @property
    def text(self) -> str:
        return kubectl.compact_json(self.patch)


def _created_anew(patch: JsonObject, kind: str) -> JsonObject:
    """The patch, and without what admission and the Job controller set, which they refuse when it is another."""
    if kind == "Job":
        template = {**object_at(patch, "spec", "template"), "metadata": {"labels": dict.fromkeys(BY_UID)}}
        return {"spec": {**object_at(patch, "spec"), "selector": None, "template": template}}
    spec = object_at(patch, "spec")
    if not spec or "priorityClassName" in spec:  # nothing else is another: what admission made of the class once
        return {**patch, "spec": {**dict.fromkeys(SET_AT_ADMISSION), **spec}}
    return patch


def owner_patch(before: Pod, after: Pod, waiting: Iterable[Pod] = ()) -> OwnerPatch:
    """From the pod as it was read, and as it should be; ``waiting``: those of its pods that this is for."""
    owner = find_owner(before)
    old, new = (_template(pod, owner) for pod in (before, after))
    patch: JsonObject = build_strategic_patch(old, new)
    patch = wrap_in_template(owner.kind, patch)
    anew = owner.kind == "Job" or (owner.kind == "Pod" and not is_updated(before, after))
    deleted = tuple(map(ObjectKey.of, waiting)) if owner.kind in REPLACES_NONE else ()
    return OwnerPatch(owner, patch, anew, deleted)


def _template(pod: Pod, owner: Owner) -> dict[str, Json]:
    """What of the pod stands in its template; of a bare one in the pod itself."""
    spec = to_written_spec(pod)
    if owner.kind == "DaemonSet":
        spec = remove_node_pin(spec)
    if owner.kind != "Pod":
        own = tuple(t for t in spec.tolerations if t.key not in ADDED_TOLERATIONS or t.toleration_seconds is None)
        overhead = {} if spec.runtime_class_name else spec.overhead
        spec = replace(spec, tolerations=own, overhead=overhead)
    patch = to_document(spec)
    for field in SET_AT_ADMISSION if pod.spec.priority_class_name else ():
        patch.pop(field, None)
    return {"spec": patch}
