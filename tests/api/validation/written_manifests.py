"""Valid manifests, each changed in one field, with the API server's message."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import msgspec

from kschedctl.api.json_values import drop_nulls
from kschedctl.api.validation import ValidationOptions
from kschedctl.api.validation.manifests import KINDS, validate_manifest

Json = dict[str, Any]
AFFINITY_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"
LABELS = {"app": "web"}
SELECTOR = {"matchLabels": LABELS}


def build_pod(**spec: Any) -> Json:
    """Build a valid pod with these fields in its spec."""
    own = {"containers": [{"name": "c", "image": "web"}], **spec}
    return {"kind": "Pod", "metadata": {"name": "web", "labels": LABELS}, "spec": own}


def build_container(**fields: Any) -> Json:
    """Build a pod whose only container has these fields."""
    return build_pod(containers=[{"name": "c", "image": "web", **fields}])


def build_workload(kind: str, template: Json | None = None, **spec: Any) -> Json:
    """Build a valid workload with these fields in its spec and in the spec of its template."""
    pods: Json = {"containers": [{"name": "c", "image": "web"}], **(template or {})}
    inner: Json = {"template": {"metadata": {"labels": LABELS}, "spec": pods}, **spec}
    if kind in ("Job", "CronJob"):
        pods.setdefault("restartPolicy", "Never")
    else:
        inner.setdefault("selector", LABELS if kind == "ReplicationController" else SELECTOR)
    if kind == "CronJob":
        inner = {"schedule": "@daily", "jobTemplate": {"spec": inner}}
    return {"kind": kind, "metadata": {"name": "web"}, "spec": inner}


def list_errors(manifest: Json, **options: bool) -> list[str]:
    """Return the errors of the API server for a manifest."""
    document = drop_nulls(deepcopy(manifest))
    found = msgspec.convert(document, KINDS[manifest["kind"]])
    return [str(error) for error in validate_manifest(manifest["kind"], found, ValidationOptions(**options))]
