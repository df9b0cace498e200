"""Objects of the tables of upstream's own admission tests."""

from __future__ import annotations

import json
from typing import Any

import kschedctl
from kschedctl.admission.request import AdmissionRequest, NotAdmittedError

Json = dict[str, Any]
CPU, MEMORY, DISK = "cpu", "memory", "ephemeral-storage"
NONE: Json = {}


def build_resources(requests: Json, limits: Json) -> Json:
    return {"requests": dict(requests), "limits": dict(limits)}


def build_pod(number: int, each_of: Json, *init: Json, **spec: Any) -> Json:
    """Build a pod with ``number`` containers that have equal resources, and an init container for each of ``init``."""
    containers = [
        {"name": f"foo-{i}", "image": "foo", "resources": json.loads(json.dumps(each_of))} for i in range(number)
    ]
    before = [{"name": f"init-{i}", "image": "foo", "resources": each} for i, each in enumerate(init)]
    meta = {"name": "p", "namespace": "test"}
    return {"metadata": meta, "spec": {"containers": containers, "initContainers": before, **spec}}


def request(obj: Json, *objects: Json) -> AdmissionRequest:
    cluster = kschedctl.Cluster.from_objects(objects)
    ranges, quotas = cluster.limit_ranges, cluster.resource_quotas
    return AdmissionRequest(cluster, "Pod", obj, "test", ranges, quotas, "p")


def build_limits(kind: str, **item: Json) -> Json:
    meta = {"name": "abc", "namespace": "test"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": [{"type": kind, **item}]}}


def is_admitted(asked: AdmissionRequest, *plugins: Any) -> bool:
    """Return whether all plugins admit the request."""
    try:
        for plugin in plugins:
            plugin(asked)
    except NotAdmittedError:
        return False
    return True
