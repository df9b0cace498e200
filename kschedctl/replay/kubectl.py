"""kubectl commands for fixes. Names are untrusted and therefore quoted."""

from __future__ import annotations

import json
from shlex import quote

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.patches import Operation, build_json_merge_patch, to_document

SHORT_NAMES = {"PersistentVolumeClaim": "pvc", "PersistentVolume": "pv"}
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SERVER_FIELDS = ("uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")
FIELDS_NOT_COPIED = ("annotations", "creationTimestamp", "resourceVersion", "uid")


def render_command(*words: str) -> str:
    """Return the kubectl command with these words, quoted for a shell.

    >>> render_command("uncordon", "n1; reboot")
    "kubectl uncordon 'n1; reboot'"
    """
    return f"kubectl {' '.join(map(quote, words))}"


def build_manifest(key: ObjectKey, obj: Struct, extra_spec: JsonObject | None = None) -> JsonObject:
    """Build the manifest that creates the object: without status and without fields that the server sets.

    ``extra_spec`` are additional fields of its spec.
    """
    document = to_document(obj)
    document.pop("status", None)
    metadata = {name: value for name, value in object_at(document, "metadata").items() if name not in SERVER_FIELDS}
    if LAST_APPLIED in object_at(metadata, "annotations"):
        metadata["annotations"] = {k: v for k, v in object_at(metadata, "annotations").items() if k != LAST_APPLIED}
    spec = {"spec": {**object_at(document, "spec"), **extra_spec}} if extra_spec else {}
    return {"apiVersion": KINDS[key.kind].versions[0], "kind": key.kind, **document, "metadata": metadata, **spec}


def render_apply(document: JsonObject) -> str:
    """Return the command that applies a manifest, as quoted JSON in one line."""
    return f"printf %s {quote(json.dumps(document))} | kubectl apply -f -"


def render_forced_replace(key: ObjectKey, after: Struct) -> str:
    """Return the command that deletes the object if it exists, and creates it in this form.

    Unlike `render_recreate` it does not read the object from the cluster, so it may follow a deletion and may be
    repeated.
    """
    return f"printf %s {quote(json.dumps(build_manifest(key, after)))} | kubectl replace --force -f -"


def render_delete(key: ObjectKey) -> str:
    """Return the command that deletes the object."""
    return render_command("delete", *object_arguments(key))


def render_eviction(pod: Pod) -> str:
    """Return the command that evicts the pod by the Eviction API, which respects PDBs, unlike a deletion."""
    meta = pod.metadata
    name = {"name": meta.name, "namespace": meta.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/eviction"
    return f"printf %s {quote(json.dumps(eviction))} | {render_command('create', '--raw', path, '-f', '-')}"


def render_wait_until_gone(pod: Pod) -> str:
    """Return the command that waits until the pod is gone, for five minutes at most."""
    meta = pod.metadata
    return render_command("wait", "-n", meta.namespace, "--for=delete", f"pod/{meta.name}", "--timeout=5m")


def render_patch(key: ObjectKey, change: JsonObject | list[Operation]) -> str:
    """Return the command that applies a merge patch, or the operations of a JSON patch."""
    patch_type = "json" if isinstance(change, list) else "merge"
    return render_command("patch", *object_arguments(key), f"--type={patch_type}", "-p", json.dumps(change))


def compact_json(document: JsonObject) -> str:
    """Return the document as JSON without blanks."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def render_recreate_with_patch(key: ObjectKey, change: JsonObject, patch_type: str = "merge") -> str:
    """Return the command that deletes the object and creates it as it is in the cluster, with a patch applied."""
    read = _render_client_patch(key, change, patch_type) if change else _render_get(key)
    return f"{read} | kubectl replace --force -f -"


def render_recreate(key: ObjectKey, before: Struct, after: Struct) -> str:
    """Return the command that deletes the object and creates it in another form."""
    return render_recreate_with_patch(key, build_merge_patch(before, after))


def build_merge_patch(before: Struct, after: Struct) -> JsonObject:
    """Build the merge patch from one object to another, without status and server fields."""
    old_document, new_document = (to_document(obj) for obj in (before, after))
    for document in (old_document, new_document):
        document.pop("status", None)
        document["metadata"] = {name: object_at(document, "metadata", name) for name in ("annotations", "labels")}
    return object_at(build_json_merge_patch(old_document, new_document))


def render_copy(key: ObjectKey, name: str) -> str:
    """Return the command that creates another object like this one, without its annotations."""
    change = {"metadata": {"name": name, **dict.fromkeys(FIELDS_NOT_COPIED)}}
    return f"{_render_client_patch(key, change, 'merge')} | kubectl create -f -"


def _render_client_patch(key: ObjectKey, change: JsonObject, patch_type: str) -> str:
    """Return the command that prints the object with a patch applied by kubectl alone."""
    options = (f"--type={patch_type}", "-p", compact_json(change))
    return render_command("patch", *object_arguments(key), *options, "--dry-run=client", "-o", "json")


def _render_get(key: ObjectKey) -> str:
    """Return the command that prints the object as JSON."""
    return render_command("get", *object_arguments(key), "-o", "json")


def render_annotate(key: ObjectKey, annotation: str) -> str:
    """Return the command that sets an annotation ``KEY=VALUE`` or removes it with ``KEY-``."""
    return render_command("annotate", *object_arguments(key), annotation)


def object_arguments(key: ObjectKey) -> tuple[str, ...]:
    """Return the arguments by which kubectl identifies the object."""
    namespace = ("-n", key.namespace) if key.namespace else ()
    return (SHORT_NAMES.get(key.kind, key.kind.lower()), *namespace, key.name)


def render_scale_down(pod: Pod, owner: Owner, replicas: int) -> tuple[str, ...]:
    """Return the commands that scale a workload to ``replicas`` so that this pod is removed.

    A StatefulSet removes its last pod by itself; other workloads remove the pod with the lowest deletion cost.
    Reference: Pod deletion cost, in ReplicaSet (k8s.io/docs).
    """
    scale = render_command("scale", owner.kind.lower(), "-n", owner.namespace, owner.name, f"--replicas={replicas}")
    if owner.kind == "StatefulSet":
        return (scale,)
    cost = render_command("annotate", *object_arguments(ObjectKey.of(pod)), f"{DELETION_COST}=-1000", "--overwrite")
    return (cost, scale)
