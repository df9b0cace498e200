"""The objects of an API server: created, updated, patched and deleted by its rules, garbage collected by owner."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import count
from typing import Any, NamedTuple

import msgspec

from control_plane.immutability import find_rejection
from control_plane.patches import apply_json_patch, apply_strategic_patch, merge_patch
from control_plane.validation import explain_rejected_creation

Json = dict[str, Any]
CLUSTER_SCOPED = {
    *("Node", "Namespace", "PriorityClass", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver"),
    *("VolumeAttachment", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "RuntimeClass"),
    *("ClusterQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass"),
}

REGISTERED = {"Node", "CSIStorageCapacity", "ResourceSlice"}
"""Kinds that kubelets and drivers create, including their status."""


class RefusedError(Exception):
    """The rejection of a request by the API server, or by kubectl before it."""


class Key(NamedTuple):
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, document: Json) -> Key:
        kind, meta = document["kind"], document["metadata"]
        return cls(kind, "" if kind in CLUSTER_SCOPED else meta.get("namespace") or "default", meta["name"])

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class Store:
    """Objects by key. ``numbers`` make UIDs and generated names. ``log`` describes the changes, for failing tests."""

    def __init__(self, documents: Iterable[Json]) -> None:
        self.objects: dict[Key, Json] = {}
        self.numbers = count(1)
        self.log: list[str] = []
        for each in documents:
            found = deepcopy(each)
            found["metadata"].setdefault("uid", f"uid-{next(self.numbers)}")
            self.objects[Key.of(found)] = found

    def copy(self) -> Store:
        """Return an independent copy of the store with an empty log."""
        other = Store(())
        other.objects = pickle.loads(pickle.dumps(self.objects))  # many times faster than deepcopy
        other.numbers = count(next(self.numbers) + 1000)
        return other

    def documents(self) -> list[Json]:
        return list(self.objects.values())

    def encode(self) -> bytes:
        """Return all objects as JSON, which is compared to notice changes."""
        return msgspec.json.encode(self.documents())

    def of_kind(self, kind: str) -> list[Json]:
        return [each for key, each in self.objects.items() if key.kind == kind]

    def get(self, key: Key) -> Json | None:
        return self.objects.get(key)

    def read(self, key: Key) -> Json:
        """Return the object. Raises RefusedError if it does not exist."""
        if key not in self.objects:
            raise RefusedError(f'Error from server (NotFound): {key.kind} "{key.name}" not found')
        return self.objects[key]

    # -- requests --------------------------------------------------------------------------------------------------

    def create(self, document: Json) -> Json:
        """Create the object as the API server does, and return it. Raises RefusedError if the API server rejects it."""
        if reason := explain_rejected_creation(document):
            raise RefusedError(f'The {document["kind"]} "{document["metadata"]["name"]}" is invalid: {reason}')
        found = deepcopy(document)
        key, meta = Key.of(found), found["metadata"]
        if key in self.objects:
            raise RefusedError(f'Error from server (AlreadyExists): {key.kind} "{key.name}" already exists')
        for name in ("resourceVersion", "creationTimestamp", "deletionTimestamp"):
            meta.pop(name, None)
        meta["uid"] = f"uid-{next(self.numbers)}"
        if key.kind not in REGISTERED:
            found.pop("status", None)
        if key.kind == "Pod":
            _admit(found, self)
        if key.kind == "Job" and found["spec"].get("selector"):
            raise RefusedError(f"{key}: spec.selector: Invalid value: `selector` not auto-generated")
        if key.kind == "PersistentVolume":
            found["status"] = {"phase": "Available"}
        self.objects[key] = found
        self.log.append(f"created {key}")
        return found

    def update(self, document: Json, why: str = "updated", subresource: str = "") -> Json:
        """Replace the object except for its status, which only controllers write. Raises RefusedError."""
        key = Key.of(document)
        old = self.read(key)
        if reason := find_rejection(old, document, subresource):
            raise RefusedError(f'The {key.kind} "{key.name}" is invalid: {reason}')
        self.objects[key] = {**deepcopy(document), **({"status": old["status"]} if "status" in old else {})}
        self.log.append(f"{why} {key}")
        return self.objects[key]

    def patch(self, key: Key, patch: Any, sort: str, subresource: str = "") -> Json:
        return self.update(apply_patch(self.read(key), patch, sort), "patched", subresource)

    def delete(self, key: Key) -> None:
        """Delete the object at once with everything that it owned. Raises RefusedError if finalizers keep it."""
        found = self.read(key)
        if keeper := next(self._keepers(found), ""):
            raise RefusedError(f"{key} stays in Terminating: {keeper}")
        del self.objects[key]
        self.log.append(f"deleted {key}")
        self.collect_garbage()

    # -- what follows ----------------------------------------------------------------------------------------------

    def collect_garbage(self) -> None:
        """Delete the objects whose controller is gone."""
        while True:
            uids = {each["metadata"]["uid"] for each in self.objects.values()}
            orphans = [
                key for key, each in self.objects.items() if (own := build_owner(each)) and own["uid"] not in uids
            ]
            if not orphans:
                return
            for key in orphans:
                del self.objects[key]
                self.log.append(f"collected {key}")

    def owned(self, by: Json, kind: str = "Pod") -> list[Json]:
        uid = by["metadata"]["uid"]
        return [each for each in self.of_kind(kind) if (own := build_owner(each)) and own["uid"] == uid]

    def _keepers(self, found: Json) -> Iterator[str]:
        """Yield the finalizers that keep an object: those of volumes and claims in use."""
        meta, kind = found["metadata"], found["kind"]
        if kind == "PersistentVolumeClaim":
            for pod in self.of_kind("Pod"):
                same = (pod["metadata"].get("namespace") or "default") == (meta.get("namespace") or "default")
                if same and pod["spec"].get("nodeName") and meta["name"] in list_claims(pod):
                    yield f"Pod {pod['metadata']['name']} uses it"
        if kind == "PersistentVolume" and (ref := (found["spec"].get("claimRef") or {})):
            claim = self.get(Key("PersistentVolumeClaim", ref["namespace"], ref["name"]))
            if claim and claim["spec"].get("volumeName") == meta["name"]:
                yield f"claim {ref['name']} is bound to it"
        if kind == "ResourceClaim":
            pods = {each["metadata"]["uid"]: each for each in self.of_kind("Pod")}
            for user in (found.get("status") or {}).get("reservedFor") or ():
                if user["uid"] in pods and pods[user["uid"]]["spec"].get("nodeName"):
                    yield f"Pod {user['name']} uses it"


def apply_patch(document: Json, patch: Any, sort: str) -> Json:
    """Return a copy with a patch of one of kubectl's types: json, merge or strategic."""
    apply: Mapping[str, Any] = {"json": apply_json_patch, "merge": merge_patch, "strategic": apply_strategic_patch}
    found: Json = apply[sort](document, patch)
    return found


def build_owner(document: Json) -> Json | None:
    """Return the reference to the controller."""
    references = document["metadata"].get("ownerReferences") or ()
    return next((each for each in references if each.get("controller")), None)


def build_owner_reference(document: Json) -> Json:
    named = {"kind": document["kind"], "name": document["metadata"]["name"], "uid": document["metadata"]["uid"]}
    return {"apiVersion": document.get("apiVersion", "v1"), **named, "controller": True}


def list_claims(pod: Json) -> list[str]:
    """Return the names of the pod's PersistentVolumeClaims."""
    found = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            found.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            found.append(f"{pod['metadata']['name']}-{volume['name']}")
    return found


def _admit(pod: Json, store: Store) -> None:
    """Complete a new pod as admission and the registry do: its priority, and label keys in its selectors."""
    spec, labels = pod["spec"], pod["metadata"].get("labels") or {}
    named = store.get(Key("PriorityClass", "", spec.get("priorityClassName") or ""))
    if spec.get("priorityClassName") and named is None:
        raise RefusedError(f"no PriorityClass with name {spec['priorityClassName']} was found")
    value = named["value"] if named else 0
    if spec.get("priority") not in (None, value):
        raise RefusedError("the integer value of priority must not be provided in pod spec")
    _admit_runtime_class(spec, store)
    spec["priority"] = value
    if named and named.get("preemptionPolicy"):
        spec["preemptionPolicy"] = named["preemptionPolicy"]
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_keys(constraint, labels)
    for field in ("podAffinity", "podAntiAffinity"):
        own = (spec.get("affinity") or {}).get(field) or {}
        for term in own.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_keys(term, labels)


def _admit_runtime_class(spec: Json, store: Store) -> None:
    """Add the fields that the pod's RuntimeClass sets, or reject a pod that contradicts it.

    Upstream: plugin/pkg/admission/runtimeclass/admission.go (v1.36).
    """
    name = spec.get("runtimeClassName")
    if not name:
        if spec.get("overhead"):
            raise RefusedError("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
        return
    runtime_class = store.get(Key("RuntimeClass", "", name))
    if runtime_class is None:
        raise RefusedError(f'pod rejected: RuntimeClass "{name}" not found')
    overhead = (runtime_class.get("overhead") or {}).get("podFixed") or {}
    if (spec.get("overhead") or overhead) != overhead:
        raise RefusedError("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = runtime_class.get("scheduling") or {}
    selector = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            raise RefusedError(f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}")
    if scheduling.get("nodeSelector"):
        spec["nodeSelector"] = {**selector, **scheduling["nodeSelector"]}
    tolerations = spec.get("tolerations") or []
    added = [each for each in scheduling.get("tolerations") or () if each not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def _merge_keys(term: Json, labels: Json) -> None:
    """Add the matchLabelKeys of a term to its selector, as requirements on the pod's labels."""
    for key in term.get("matchLabelKeys") or ():
        only = {"key": key, "operator": "In", "values": [labels.get(key)]}
        expressions = term["labelSelector"].setdefault("matchExpressions", [])
        if key in labels and only not in expressions:
            expressions.append(only)
