"""kubectl commands for fixes, and the patches in them. Names are untrusted and therefore quoted.

Patches have a fixed order, so that the same change always reads the same, and JSON patches use only ``add``, ``remove``
and ``replace``. A strategic merge patch merges lists by the keys that the API defines for them and replaces other
lists; ``$patch: replace`` replaces a list that would be merged. Reference: JSON Patch (RFC 6902), JSON Merge Patch
(RFC 7386), and Update API Objects in Place Using kubectl patch (k8s.io/docs).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import Any

import msgspec

from kschedctl.api.json_values import Json, JsonObject, object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.workloads import POD_TEMPLATE_PATHS, USUAL_TEMPLATE_PATH
from kschedctl.replay.edits import ObjectKey

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
    """Build the manifest that creates the object, without its status and the fields that the server sets.

    ``extra_spec`` holds additional fields for the spec.
    """
    document = to_document(obj)
    document.pop("status", None)
    metadata = {name: value for name, value in object_at(document, "metadata").items() if name not in SERVER_FIELDS}
    annotations = object_at(metadata, "annotations")
    if LAST_APPLIED in annotations:
        metadata["annotations"] = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
    preferred_version, *_ = KINDS[key.kind].versions
    manifest = {"apiVersion": preferred_version, "kind": key.kind, **document, "metadata": metadata}
    if extra_spec:
        manifest["spec"] = {**object_at(document, "spec"), **extra_spec}
    return manifest


def render_apply(document: JsonObject) -> str:
    """Return the command that applies a manifest. The manifest is passed as JSON on the same line."""
    return f"printf %s {quote(json.dumps(document))} | kubectl apply -f -"


def render_forced_replace(key: ObjectKey, after: Struct) -> str:
    """Return the command that deletes the object if it exists, and creates it in its new form.

    The command does not read the object from the cluster. It may therefore follow a deletion and may be repeated.
    """
    manifest = json.dumps(build_manifest(key, after))
    return f"printf %s {quote(manifest)} | kubectl replace --force -f -"


def render_delete(key: ObjectKey) -> str:
    """Return the command that deletes the object."""
    return render_command("delete", *build_object_arguments(key))


def render_eviction(pod: Pod) -> str:
    """Return the command that evicts the pod through the Eviction API, which respects PDBs."""
    meta = pod.metadata
    name = {"name": meta.name, "namespace": meta.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/eviction"
    return f"printf %s {quote(json.dumps(eviction))} | {render_command('create', '--raw', path, '-f', '-')}"


MIN_WAIT_SECONDS = 300
"""The minimum time for which commands wait for a deletion."""
MARGIN_SECONDS = 60
"""The time by which commands wait longer than the grace period."""
DEFAULT_GRACE_SECONDS = 30
"""The grace period of a pod that sets none."""


def get_longest_grace_seconds(pods: Iterable[Pod]) -> int:
    """Return the longest terminationGracePeriodSeconds of the pods."""
    periods = (pod.spec.termination_grace_period_seconds for pod in pods)
    return max(DEFAULT_GRACE_SECONDS if seconds is None else seconds for seconds in periods)


def render_wait_until_gone(*pods: Pod) -> str:
    """Return the command that waits until the pods of one namespace are deleted.

    The timeout is five minutes, or the longest grace period plus one minute if that is longer.
    """
    seconds = get_longest_grace_seconds(pods) + MARGIN_SECONDS
    timeout = "5m" if seconds <= MIN_WAIT_SECONDS else f"{seconds}s"
    names = (f"pod/{pod.metadata.name}" for pod in pods)
    namespace = pods[0].metadata.namespace
    return render_command("wait", "-n", namespace, "--for=delete", *names, f"--timeout={timeout}")


KINDS_WITH_ROLLOUT_STATUS = ("Deployment", "StatefulSet")
"""The kinds of workloads that `kubectl rollout status` waits for, as far as their pods may be moved."""


def render_wait_for_replacement(pod: Pod, *, are_others_available: bool) -> str:
    """Return the command that waits until the evicted pod's replacement runs.

    kubectl can only wait until all pods of a workload are available. If other pods of the workload are not, or if
    kubectl cannot wait for the workload, the command asks the user to press Enter. Without a terminal it fails.
    """
    owner = find_owner(pod)
    if owner.kind in KINDS_WITH_ROLLOUT_STATUS and are_others_available:
        target = f"{owner.kind.lower()}/{owner.name}"
        return render_command("rollout", "status", "-n", owner.namespace, target, "--timeout=5m")
    prompt = f"Press Enter once the replacement of {pod.key} runs"
    return f"echo {quote(prompt)} && read -r REPLY"


def render_stuck_deletion_checks(node: str, *pods: Pod) -> tuple[str, str]:
    """Return the commands that show why terminating pods of one namespace are still on the node.

    The first shows their finalizers, and the second shows the state of the node and its kubelet.
    """
    names = (pod.metadata.name for pod in pods)
    columns = "custom-columns=NAME:.metadata.name,FINALIZERS:.metadata.finalizers"
    return (
        render_command("get", "pods", "-n", pods[0].metadata.namespace, *names, "-o", columns),
        render_command("describe", "node", node),
    )


def render_patch(key: ObjectKey, change: JsonObject | list[Operation]) -> str:
    """Return the command that applies a merge patch, or the operations of a JSON patch."""
    patch_type = "json" if isinstance(change, list) else "merge"
    return render_command("patch", *build_object_arguments(key), f"--type={patch_type}", "-p", json.dumps(change))


def encode_compact_json(document: JsonObject) -> str:
    """Encode the document as JSON without whitespace."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def render_recreate_with_patch(key: ObjectKey, change: JsonObject, patch_type: str = "merge") -> str:
    """Return the command that deletes the object and creates it again with a patch applied.

    The command reads the object from the cluster. Without a change, the object is created again as it was.
    """
    print_object = _render_client_patch(key, change, patch_type) if change else _render_get(key)
    return f"{print_object} | kubectl replace --force -f -"


def render_recreate(key: ObjectKey, before: Struct, after: Struct) -> str:
    """Return the command that deletes the object and creates it again in its changed form."""
    return render_recreate_with_patch(key, build_merge_patch(before, after))


def _build_comparable_document(obj: Struct) -> JsonObject:
    """Return the document of an object without its status, and with only labels and annotations as metadata."""
    document = to_document(obj)
    document.pop("status", None)
    document["metadata"] = {
        "annotations": object_at(document, "metadata", "annotations"),
        "labels": object_at(document, "metadata", "labels"),
    }
    return document


def build_merge_patch(before: Struct, after: Struct) -> JsonObject:
    """Build the JSON merge patch that turns one object into another.

    The status is ignored, and only labels and annotations of the metadata are compared.
    """
    old_document, new_document = _build_comparable_document(before), _build_comparable_document(after)
    patch = build_json_merge_patch(old_document, new_document)
    return object_at(patch)  # a patch between two objects is an object


def render_copy(key: ObjectKey, name: str) -> str:
    """Return the command that creates another object like this one, without its annotations."""
    change = {"metadata": {"name": name, **dict.fromkeys(FIELDS_NOT_COPIED)}}
    return f"{_render_client_patch(key, change, 'merge')} | kubectl create -f -"


def _render_client_patch(key: ObjectKey, change: JsonObject, patch_type: str) -> str:
    """Return the command that prints the object with a patch applied by kubectl itself."""
    options = (f"--type={patch_type}", "-p", encode_compact_json(change))
    return render_command("patch", *build_object_arguments(key), *options, "--dry-run=client", "-o", "json")


def _render_get(key: ObjectKey) -> str:
    """Return the command that prints the object as JSON."""
    return render_command("get", *build_object_arguments(key), "-o", "json")


def render_annotate(key: ObjectKey, annotation: str) -> str:
    """Return the command that sets an annotation ``KEY=VALUE`` or removes it with ``KEY-``."""
    return render_command("annotate", *build_object_arguments(key), annotation)


def build_object_arguments(key: ObjectKey) -> tuple[str, ...]:
    """Return the arguments by which kubectl identifies the object: its kind, its namespace, if any, and its name."""
    namespace = ("-n", key.namespace) if key.namespace else ()
    return (SHORT_NAMES.get(key.kind, key.kind.lower()), *namespace, key.name)


def render_scale_down(pod: Pod, owner: Owner, replicas: int) -> tuple[str, ...]:
    """Return the commands that scale a workload down to ``replicas`` so that this pod is removed.

    A StatefulSet always removes its last pod. In other workloads, the pod first gets the lowest deletion cost.
    Reference: Pod deletion cost, in ReplicaSet (k8s.io/docs).
    """
    scale = render_command("scale", owner.kind.lower(), "-n", owner.namespace, owner.name, f"--replicas={replicas}")
    if owner.kind == "StatefulSet":
        return (scale,)
    pod_arguments = build_object_arguments(ObjectKey.of(pod))
    set_lowest_cost = render_command("annotate", *pod_arguments, f"{DELETION_COST}=-1000", "--overwrite")
    return (set_lowest_cost, scale)


Operation = dict[str, Json]
REPLACED_LISTS = {"topologySpreadConstraints", "ports"}
"""Lists that are replaced as a whole, although a strategic merge patch would merge them."""
LISTS_MERGED_BY_NAME = {"containers", "initContainers", "resourceClaims", "volumes"}


def build_json_patch(before: Json, after: Json, path: str = "") -> Iterator[Operation]:
    """Yield the JSON patch operations that turn ``before`` into ``after``.

    Objects are compared field by field and lists item by item. All other values are replaced as a whole.

    >>> list(build_json_patch({"a": [1, 2], "b": 0}, {"a": [2], "c": 1}))
    [{'op': 'remove', 'path': '/a/0'}, {'op': 'remove', 'path': '/b'}, {'op': 'add', 'path': '/c', 'value': 1}]
    """
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _iter_object_patch_operations(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _iter_list_operations(before, after, path)
    else:
        yield {"op": "replace", "path": path, "value": after}


def describe_patch_operations(operations: Any) -> Iterator[str]:
    """Yield each JSON patch operation as the path of a field with its new value.

    >>> list(describe_patch_operations([{"op": "add", "path": "/spec/containers/0/ports", "value": [80]}]))
    ['spec.containers[0].ports: [80]']
    >>> list(describe_patch_operations([{"op": "remove", "path": "/metadata/labels/a.b~1c"}]))
    ['remove metadata.labels["a.b/c"]']
    """
    for operation in operations:
        path = _format_json_pointer(operation["path"])
        if operation["op"] == "remove":
            yield f"remove {path}"
        else:
            value = operation["value"]
            yield f"{path}: {value if isinstance(value, str) else msgspec.json.encode(value).decode()}"


def _format_json_pointer(pointer: str) -> str:
    """Return a JSON pointer as the path of a field, such as ``spec.containers[0].ports``."""
    path = ""
    for part in pointer.split("/")[1:]:
        # JSON pointers escape slashes and tildes
        key = part.replace("~1", "/").replace("~0", "~")
        if key.isdecimal():
            path += f"[{key}]"
        elif key.isidentifier():
            path += f".{key}" if path else key
        else:
            path += f'["{key}"]'
    return path


def build_json_merge_patch(before: Json, after: Json) -> Json:
    """Return the JSON merge patch from ``before`` to ``after``, in which null removes a field.

    Values other than objects are replaced as a whole.

    >>> build_json_merge_patch({"a": {"b": 1, "c": 2}, "d": [1]}, {"a": {"b": 3}, "d": [1]})
    {'a': {'b': 3, 'c': None}}
    """
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    patch: dict[str, Json] = {}
    for key, value in after.items():
        if before.get(key) != value:
            patch[key] = build_json_merge_patch(before.get(key), value)
    for key in before:
        if key not in after:
            patch[key] = None
    return patch


def build_strategic_patch(before: JsonObject, after: JsonObject) -> dict[str, Json]:
    """Return the strategic merge patch from one document to another, in which null removes a field.

    Lists that the API merges by name are patched item by item. All other lists are replaced as a whole, with the
    directive ``$patch: replace`` if the API would merge them.
    """
    merged: dict[str, Json] = {}
    for key in sorted(before.keys() | after.keys()):
        old_value, new_value = before.get(key), after.get(key)
        if old_value == new_value:
            continue
        if isinstance(old_value, Mapping) and isinstance(new_value, Mapping):
            merged[key] = build_strategic_patch(old_value, new_value)
        elif key in LISTS_MERGED_BY_NAME and isinstance(old_value, list) and isinstance(new_value, list):
            merged[key] = _build_named_list_patch(old_value, new_value)
        elif key in REPLACED_LISTS and isinstance(new_value, list):
            merged[key] = [{"$patch": "replace"}, *new_value]
        else:
            merged[key] = new_value
    return merged


def _build_named_list_patch(before: list[JsonObject], after: list[JsonObject]) -> list[JsonObject]:
    """Return the strategic merge patch of a list whose items are identified by name.

    An item that is only in ``before`` is deleted with ``$patch: delete``.
    """
    old_items = {item["name"]: item for item in before}
    new_items = {item["name"]: item for item in after}
    patch: list[JsonObject] = []
    for name, item in new_items.items():
        old_item = old_items.get(name, {})
        if old_item != item:
            patch.append({"name": name, **build_strategic_patch(old_item, item)})
    for name in old_items:
        if name not in new_items:
            patch.append({"name": name, "$patch": "delete"})
    return patch


def wrap_in_template(kind: str, patch: JsonObject) -> JsonObject:
    """Wrap the patch of a pod template into a patch of its workload.

    >>> wrap_in_template("Deployment", {"spec": {"hostNetwork": True}})
    {'spec': {'template': {'spec': {'hostNetwork': True}}}}
    """
    for part in reversed(POD_TEMPLATE_PATHS.get(kind, USUAL_TEMPLATE_PATH)):
        patch = {part: patch}
    return patch


def _iter_object_patch_operations(before: dict[str, Json], after: dict[str, Json], path: str) -> Iterator[Operation]:
    """Yield the JSON patch operations that turn the object ``before`` into ``after``, field by field, sorted by field.

    ``path`` is the JSON pointer of both objects.
    """
    for key in sorted(before.keys() | after.keys()):
        member_path = f"{path}/{escape_pointer(key)}"
        if key not in after:
            yield {"op": "remove", "path": member_path}
        elif key not in before:
            yield {"op": "add", "path": member_path, "value": after[key]}
        else:
            yield from build_json_patch(before[key], after[key], member_path)


def _iter_list_operations(before: list[Json], after: list[Json], path: str) -> Iterator[Operation]:
    """Yield the JSON patch operations that turn one list at a path into another.

    Lists of equal length are patched item by item. Otherwise the items between a common start and a common end are
    replaced.
    """
    if len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from build_json_patch(old, new, f"{path}/{place}")
        return
    start = _count_common_items(before, after)
    end = _count_common_items(before[start:][::-1], after[start:][::-1])
    # Remove the last item first, so that the other indexes stay valid
    for place in reversed(range(start, len(before) - end)):
        yield {"op": "remove", "path": f"{path}/{place}"}
    for place in range(start, len(after) - end):
        yield {"op": "add", "path": f"{path}/{place}", "value": after[place]}


def _count_common_items(left: list[Json], right: list[Json]) -> int:
    """Return how many leading items the two lists have in common."""
    count = 0
    for left_item, right_item in zip(left, right, strict=False):
        if left_item != right_item:
            break
        count += 1
    return count


def to_document(obj: msgspec.Struct) -> dict[str, Json]:
    """Return a typed object as a JSON document, without fields that have their default."""
    document: dict[str, Json] = msgspec.json.decode(msgspec.json.encode(obj))
    return document


def escape_pointer(key: str) -> str:
    """Escape a key for use in a JSON pointer.

    >>> escape_pointer("node.kubernetes.io/x~y")
    'node.kubernetes.io~1x~0y'
    """
    return key.replace("~", "~0").replace("/", "~1")
