"""Build a control plane from what kschedctl reads, with invented workloads that own exactly the existing pods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from control_plane.store import Key, Store, build_owner
from control_plane.workloads import HASH, REVISION, build_revision_annotations, is_ready

Json = dict[str, Any]
ADDED = (
    HASH,
    REVISION,
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "pod-template-generation",
)
OF_GROUP = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1"}


def build_store(documents: Iterable[Json], asked: str) -> Store:
    """Build a store from documents as kubectl prints them.

    The ``asked`` pod gets the current template of its workload.
    """
    found = json.loads(json.dumps([each for each in documents if each["kind"] not in ("Event", "Lease")]))
    for each in found:
        each["metadata"].setdefault("labels", {})
    store = Store(each for each in found if each["kind"] not in ("ReplicaSet", "StatefulSet", "Deployment"))
    pods = sorted(store.of_kind("Pod"), key=lambda pod: Key.of(pod) != Key("Pod", *asked.split("/")))
    groups: dict[Key, list[Json]] = {}
    for pod in pods:
        if (by := build_owner(pod)) is not None and pod["metadata"].get("deletionTimestamp"):
            pod["metadata"]["ownerReferences"] = []
        elif by is not None:
            groups.setdefault(Key(by["kind"], pod["metadata"].get("namespace") or "default", by["name"]), []).append(
                pod
            )
    for key, group in groups.items():
        _create_controller(store, key, group)
    return store


def _create_controller(store: Store, key: Key, pods: list[Json]) -> None:
    """Create the object of that kind and name as the controller of the pods."""
    maker = MAKERS.get(key.kind)
    meta: Json = {"name": key.name, "namespace": key.namespace, "labels": {}, "uid": f"uid-{next(store.numbers)}"}
    made: Json = {"kind": key.kind, "apiVersion": OF_GROUP.get(key.kind, "batch/v1"), "metadata": meta, "spec": {}}
    if maker is not None:
        made["spec"] = maker(store, key, pods)
    store.objects[key] = made
    for pod in pods:
        reference = build_owner(pod)
        assert reference is not None
        reference["uid"] = meta["uid"]
        if key.kind in ("StatefulSet", "DaemonSet"):
            pod["metadata"].setdefault("labels", {})[REVISION] = "r0"
    if key.kind in ("StatefulSet", "DaemonSet"):
        made["revisions"] = [deepcopy(made["spec"]["template"])]
    hashed = pods[0]["metadata"]["labels"].get(HASH)
    if key.kind == "ReplicaSet" and hashed and key.name.endswith(f"-{hashed}"):
        _create_deployment(store, made, key, hashed)


def _create_deployment(store: Store, replica_set: Json, key: Key, hashed: str) -> None:
    """Create the Deployment of a ReplicaSet. A Deployment with several ReplicaSets is in the middle of a rollout."""
    name = Key("Deployment", key.namespace, key.name.removesuffix(f"-{hashed}"))
    template, count = deepcopy(replica_set["spec"]["template"]), replica_set["spec"]["replicas"]
    template["metadata"]["labels"].pop(HASH, None)
    known = store.get(name)
    if known is None:
        meta = {"name": name.name, "namespace": name.namespace, "labels": {}, "uid": f"uid-{next(store.numbers)}"}
        known = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": meta}
        known["spec"] = {"replicas": count, "template": template}
        store.objects[name] = known
    else:
        waiting = known["spec"]["replicas"]
        known["spec"] |= {"replicas": count, "strategy": {"rollingUpdate": {"maxSurge": waiting, "maxUnavailable": 0}}}
    own = {"kind": "Deployment", "name": name.name, "uid": known["metadata"]["uid"], "controller": True}
    replica_set["metadata"]["ownerReferences"] = [own]
    for each in store.owned(known, "ReplicaSet"):
        each["metadata"]["annotations"] = build_revision_annotations(known)


def _build_replica_set(_store: Store, _key: Key, pods: list[Json]) -> Json:
    labels = pods[0]["metadata"].get("labels") or {}
    return {
        "replicas": len(pods),
        "template": build_template(pods[0], keep=(HASH,)),
        "selector": {"matchLabels": labels},
    }


def _build_stateful_set(store: Store, key: Key, pods: list[Json]) -> Json:
    """Build the spec of a StatefulSet for the pods, with templates of the claims that are named after it.

    It is ordered unless ordered creation could not have led to these pods.
    """
    numbers = sorted(int(pod["metadata"]["name"].rpartition("-")[2]) for pod in pods)
    template, claims = build_template(pods[0]), []
    for volume in template["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if name == f"{volume['name']}-{pods[0]['metadata']['name']}":
            claim = store.get(Key("PersistentVolumeClaim", key.namespace, name))
            spec = {k: v for k, v in (claim["spec"] if claim else {}).items() if k != "volumeName"}
            claims.append({"metadata": {"name": volume["name"]}, "spec": spec})
    own = {each["metadata"]["name"] for each in claims}
    if own:
        template["spec"]["volumes"] = [each for each in template["spec"]["volumes"] if each["name"] not in own]
    waiting = sum(not is_ready(pod) for pod in pods)
    gaps = numbers != list(range(numbers[0], numbers[0] + len(numbers)))
    policy = "Parallel" if waiting > 1 or gaps else "OrderedReady"
    spec = {"replicas": numbers[-1] - numbers[0] + 1, "ordinals": {"start": numbers[0]}, "template": template}
    return {**spec, "podManagementPolicy": policy, "volumeClaimTemplates": claims}


def _build_daemon_set(_store: Store, _key: Key, pods: list[Json]) -> Json:
    template = build_template(pods[0])
    (template["spec"].get("affinity") or {}).pop("nodeAffinity", None)
    return {"template": template}


def _build_job(_store: Store, _key: Key, pods: list[Json]) -> Json:
    """Build the spec of a Job for the pods."""
    return {
        "parallelism": len(pods),
        "template": build_template(pods[0]),
        "selector": {"matchLabels": {"controller": "1"}},
    }


MAKERS: Mapping[str, Any] = {
    "ReplicaSet": _build_replica_set,
    "StatefulSet": _build_stateful_set,
    "DaemonSet": _build_daemon_set,
    "Job": _build_job,
}


def build_template(pod: Json, keep: tuple[str, ...] = ()) -> Json:
    """Return the pod without the fields that controllers, scheduler and API server add."""
    labels = {k: v for k, v in (pod["metadata"].get("labels") or {}).items() if k not in ADDED or k in keep}
    spec = {k: v for k, v in deepcopy(pod["spec"]).items() if k not in ("nodeName", "priority", "preemptionPolicy")}
    if "tolerations" in spec:
        spec["tolerations"] = [each for each in spec["tolerations"] if "tolerationSeconds" not in each]
    own = pod["metadata"].get("labels") or {}
    for constraint in spec.get("topologySpreadConstraints") or ():
        _drop_merged_requirements(constraint, own)
    for field in ("podAffinity", "podAntiAffinity"):
        terms = ((spec.get("affinity") or {}).get(field) or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
        for term in terms or ():
            _drop_merged_requirements(term, own)
    return {"metadata": {"labels": labels}, "spec": spec}


def _drop_merged_requirements(term: Json, labels: Json) -> None:
    """Remove the requirements that the API server added to a term's selector for its matchLabelKeys."""
    added = [{"key": k, "operator": "In", "values": [labels.get(k)]} for k in term.get("matchLabelKeys") or ()]
    selector = term.get("labelSelector") or {}
    if selector.get("matchExpressions"):
        selector["matchExpressions"] = [each for each in selector["matchExpressions"] if each not in added]
