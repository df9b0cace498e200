"""Lines for an operator's shell: objects that are made, deleted or changed. Names are quoted, as they are untrusted."""

from __future__ import annotations

import json
from shlex import quote

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.patches import Operation, merge_patch, plain

SHORT = {"PersistentVolumeClaim": "pvc", "PersistentVolume": "pv"}
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
GIVEN_BY_THE_SERVER = ("uid", "creationTimestamp", "deletionTimestamp", "ownerReferences")
NOT_COPIED = ("annotations", "creationTimestamp", "resourceVersion", "uid")


def run(*words: str) -> str:
    """A command of these words, each quoted where a shell would read more into it.

    >>> run("uncordon", "n1; reboot")
    "kubectl uncordon 'n1; reboot'"
    """
    return f"kubectl {' '.join(map(quote, words))}"


def manifest(key: ObjectKey, obj: Struct, more: JsonObject | None = None) -> JsonObject:
    """What is applied to get the object: less its status and what the server gives; ``more`` fields of its spec."""
    document = plain(obj)
    document.pop("status", None)
    meta = {name: value for name, value in object_at(document, "metadata").items() if name not in GIVEN_BY_THE_SERVER}
    if LAST_APPLIED in object_at(meta, "annotations"):
        meta["annotations"] = {k: v for k, v in object_at(meta, "annotations").items() if k != LAST_APPLIED}
    spec = {"spec": {**object_at(document, "spec"), **more}} if more else {}
    return {"apiVersion": KINDS[key.kind].versions[0], "kind": key.kind, **document, "metadata": meta, **spec}


def apply(document: JsonObject) -> str:
    """In one line, of JSON that is quoted."""
    return f"printf %s {quote(json.dumps(document))} | kubectl apply -f -"


def replaced(key: ObjectKey, after: Struct) -> str:
    """Return the command that deletes the object, if it is still there, and creates it in this form.

    Unlike ``recreated`` it does not read the object from the cluster, so it may follow a deletion and may be repeated.
    """
    return f"printf %s {quote(json.dumps(manifest(key, after)))} | kubectl replace --force -f -"


def delete(key: ObjectKey) -> str:
    return run("delete", *named(key))


def evict(pod: Pod) -> str:
    """Return the command that evicts the pod by the Eviction API, which respects PDBs, as a deletion does not."""
    meta = pod.metadata
    name = {"name": meta.name, "namespace": meta.namespace}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": name}
    path = f"/api/v1/namespaces/{meta.namespace}/pods/{meta.name}/eviction"
    return f"printf %s {quote(json.dumps(eviction))} | {run('create', '--raw', path, '-f', '-')}"


def gone(pod: Pod) -> str:
    """Return the command that waits until the pod is gone, for as long as pods are commonly given to end."""
    meta = pod.metadata
    return run("wait", "-n", meta.namespace, "--for=delete", f"pod/{meta.name}", "--timeout=5m")


def patch(key: ObjectKey, change: JsonObject | list[Operation]) -> str:
    """A merge patch, or the operations of a JSON patch."""
    sort = "json" if isinstance(change, list) else "merge"
    return run("patch", *named(key), f"--type={sort}", "-p", json.dumps(change))


def compact(document: JsonObject) -> str:
    """JSON without blanks."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def anew(key: ObjectKey, change: JsonObject, sort: str = "merge") -> str:
    """The object as it is in the cluster, with all that nobody read, deleted and created with a patch applied."""
    return f"{_patched(key, change, sort) if change else _as_it_is(key)} | kubectl replace --force -f -"


def recreated(key: ObjectKey, before: Struct, after: Struct) -> str:
    """The object deleted and created in another form."""
    return anew(key, merged(before, after))


def merged(before: Struct, after: Struct) -> JsonObject:
    """The merge patch from one object to the other: of what people write."""
    old, new = (plain(obj) for obj in (before, after))
    for document in (old, new):
        document.pop("status", None)
        document["metadata"] = {name: object_at(document, "metadata", name) for name in ("annotations", "labels")}
    return object_at(merge_patch(old, new))


def copied(key: ObjectKey, name: str) -> str:
    """Another object of that name, like the one that is there, less its annotations."""
    return f"{_patched(key, {'metadata': {'name': name, **dict.fromkeys(NOT_COPIED)}}, 'merge')} | kubectl create -f -"


def _patched(key: ObjectKey, change: JsonObject, sort: str) -> str:
    """Only kubectl applies the patch: the API server gets the result as a new object."""
    how = (f"--type={sort}", "-p", compact(change))
    return run("patch", *named(key), *how, "--dry-run=client", "-o", "json")


def _as_it_is(key: ObjectKey) -> str:
    return run("get", *named(key), "-o", "json")


def annotate(key: ObjectKey, annotation: str) -> str:
    """``annotation``: ``KEY=VALUE``, or ``KEY-`` to remove it."""
    return run("annotate", *named(key), annotation)


def named(key: ObjectKey) -> tuple[str, ...]:
    """How a command is told which object it is about."""
    namespace = ("-n", key.namespace) if key.namespace else ()
    return (SHORT.get(key.kind, key.kind.lower()), *namespace, key.name)


def one_fewer(pod: Pod, owner: Owner, left: int) -> tuple[str, ...]:
    """The workload with so many replicas left, of which the pod is none: a StatefulSet gives up the last by itself.

    Reference: Pod deletion cost, in ReplicaSet (k8s.io/docs).
    """
    scale = run("scale", owner.kind.lower(), "-n", owner.namespace, owner.name, f"--replicas={left}")
    if owner.kind == "StatefulSet":
        return (scale,)
    cost = run("annotate", *named(ObjectKey.of(pod)), f"{DELETION_COST}=-1000", "--overwrite")
    return (cost, scale)
