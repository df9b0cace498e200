"""Clusters with workloads whose pods a real control plane could not create.

``golden/failedcreate.jsonl.gz``: conditions and events of kube-controller-manager 1.36.2, by case.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

Json = dict[str, Any]
BEFORE, TIME, LATER = "2026-05-06T09:00:00Z", "2026-05-06T09:10:00Z", "2026-05-06T09:20:00Z"


@cache
def read_cases() -> tuple[Json, ...]:
    """Return the cases, each with id, namespace, objects, workload, conditions by kind and events."""
    file = Path(__file__).parent / "golden" / "failedcreate.jsonl.gz"
    return tuple(json.loads(line) for line in gzip.decompress(file.read_bytes()).decode().splitlines())


def get_case(number: int) -> Json:
    """Return the case with this number."""
    return read_cases()[number - 1]


def get_error_message(case: Json) -> str:
    """Return the API server's message without the name of the object."""
    told = next(event["message"] for event in case["events"] if event["type"] == "Warning")
    refused = told.partition(" is forbidden: ")[2]
    return refused or told.partition(" is invalid: ")[2]


def build_objects(case: Json, *, replicas: int = 1, there: int = 0, created: str = BEFORE) -> list[Json]:
    """Build the nodes, the objects of the case, and its workload with some of its replicas."""
    namespace = case["namespace"]
    workload = build_stored_object(case["workload"], case, replicas)
    found = [
        _build_node(),
        _set_namespace(namespace, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": namespace}}),
        workload,
    ]
    found += [_set_namespace(namespace, each) for each in case["objects"]]
    maker = workload
    if workload["kind"] == "Deployment":
        maker = build_replica_set(case, replicas)
        found.append(maker)
    found += [build_pod(maker, number, created) for number in range(there)]
    return [*found, *map(_build_event(case), range(len(case["events"])))]


def build_stored_object(document: Json, case: Json, replicas: int) -> Json:
    """Return the object as the API server stores it."""
    spec = document["spec"] | ({"replicas": replicas} if "replicas" in document["spec"] else {"parallelism": replicas})
    metadata = document["metadata"] | {"namespace": case["namespace"], "uid": f"uid-{document['kind']}"}
    return {
        **document,
        "metadata": metadata,
        "spec": spec,
        "status": {"conditions": _list_conditions(case, document["kind"])},
    }


def build_replica_set(case: Json, replicas: int) -> Json:
    """Return the ReplicaSet of the case's Deployment."""
    deployment = case["workload"]
    name = next(e["involvedObject"]["name"] for e in case["events"] if e["involvedObject"]["kind"] == "ReplicaSet")
    own = {"pod-template-hash": name.rpartition("-")[2]}
    template = deployment["spec"]["template"]
    labels = {**template["metadata"]["labels"], **own}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment["metadata"]["name"], "controller": True}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {**template, "metadata": {"labels": labels}},
    }
    metadata = {"name": name, "namespace": case["namespace"], "uid": "uid-ReplicaSet", "ownerReferences": [owner]}
    status = {"conditions": _list_conditions(case, "ReplicaSet")}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec, "status": status}


def build_pod(maker: Json, number: int, created: str, **status: Any) -> Json:
    """Return a running pod."""
    metadata = maker["metadata"]
    template = maker["spec"]["template"]
    owner = {"apiVersion": maker["apiVersion"], "kind": maker["kind"], "name": metadata["name"], "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name']}-{number}",
            "namespace": metadata["namespace"],
            "uid": f"uid-{number}",
            "labels": template["metadata"].get("labels", {}),
            "creationTimestamp": created,
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "nodeName": "n1"},
        "status": {"phase": "Running", **status},
    }


def _build_node() -> Json:
    status = {"allocatable": {"cpu": "32", "memory": "64Gi", "pods": "110"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": status}


def _set_namespace(namespace: str, document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def _list_conditions(case: Json, kind: str) -> list[Json]:
    return [{**each, "lastTransitionTime": TIME} for each in case["conditions"].get(kind, ())]


def _build_event(case: Json) -> Any:
    """Build the FailedCreate event of a case."""

    def made(number: int) -> Json:
        told = case["events"][number]
        about = {
            **told["involvedObject"],
            "namespace": case["namespace"],
            "uid": f"uid-{told['involvedObject']['kind']}",
        }
        times = {"firstTimestamp": TIME, "lastTimestamp": TIME}
        names = {"name": f"event-{number}", "namespace": case["namespace"]}
        known = {key: told[key] for key in ("message", "reason", "type", "count", "source", "reportingComponent")}
        return {"apiVersion": "v1", "kind": "Event", "metadata": names, "involvedObject": about, **known, **times}

    return made
