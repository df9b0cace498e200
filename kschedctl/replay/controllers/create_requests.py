"""TODO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from kschedctl.admission.pod_security_policy import pod_of
from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import PersistentVolumeClaim, Pod, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.workloads import identity
from kschedctl.cluster import without_nulls
from kschedctl.replay.controllers.workload_change import Change

NAMED = ("Pod", "StatefulSet")
"""Whose pods do not get a name that the API server generates."""
OF_CONTROLLERS = ("affinity", "tolerations", "nodeName")
"""The fields of a pod that controllers add to."""


class SentPod(NamedTuple):
    """The pods of a workload as they are sent to the API server: one that stands for all; ``in_full`` as written."""

    owner: Owner
    manifest: JsonObject
    namespace: str
    in_full: bool


def sent(owner: Owner, pod: Pod, document: JsonObject | None) -> SentPod:
    """One of the pods of a workload, which may be known as it is written."""
    own, namespace = msgspec.to_builtins(pod), pod.metadata.namespace
    named = owner.kind in NAMED
    names = {"name": pod.metadata.name} if named else {"generateName": f"{owner.name}-"}
    metadata = {"namespace": namespace, **names}
    if document is None:
        of_pod = {**own["metadata"], "name": "", **metadata}
        return SentPod(owner, {"kind": "Pod", "metadata": of_pod, "spec": own["spec"]}, namespace, in_full=False)
    template: Any = pod_of(owner.kind, without_nulls(document))
    labels = pod.metadata.labels
    of_template = {"labels": labels, "annotations": (template.get("metadata") or {}).get("annotations")}
    spec = {
        **(template.get("spec") or {}),
        **{name: own["spec"][name] for name in OF_CONTROLLERS if own["spec"].get(name)},
    }
    spec["volumes"] = _volumes(spec.get("volumes") or [], own["spec"].get("volumes") or [])
    return SentPod(owner, {"kind": "Pod", "metadata": {**of_template, **metadata}, "spec": spec}, namespace, True)


def _volumes(written: Sequence[JsonObject], made: Iterable[JsonObject]) -> list[JsonObject]:
    """The volumes of a template with those that its controller puts there, of claims."""
    claims = {volume["name"]: volume for volume in made if volume.get("persistentVolumeClaim")}
    kept = [volume for volume in written if volume.get("name") not in claims]
    return [*kept, *claims.values()]


def as_template(pod: Pod) -> Pod:
    """Without a node and what admission sets anew."""
    spec = replace(pod.spec, node_name="", priority=None, preemption_policy=None)
    return replace(pod, spec=replace(spec, overhead={}) if spec.runtime_class_name else spec)


def sent_claim(template: PersistentVolumeClaim, namespace: str, name: str) -> SentPod:
    """A claim of a template."""
    metadata = {"name": name, "namespace": namespace, "annotations": template.metadata.annotations}
    manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": msgspec.to_builtins(template.spec),
    }
    return SentPod(Owner("PersistentVolumeClaim", namespace, name), manifest, namespace, in_full=False)


def alike_bare_pods(
    workloads: Sequence[Struct], changes: Sequence[Change], written: Mapping[Owner, JsonObject]
) -> dict[object, list[int]]:
    """The places of bare pods that differ in their names alone; of all else each by itself."""
    groups: dict[object, list[int]] = {}
    for at, (workload, change) in enumerate(zip(workloads, changes, strict=True)):
        bare = isinstance(workload, Pod) and len(change.new) == 1 and not (change.kept or change.removed)
        groups.setdefault(_template(workload, written) if bare else at, []).append(at)
    return groups


def _template(pod: Any, written: Mapping[Owner, JsonObject]) -> tuple[object, ...]:
    document = written.get(identity(pod), {})
    meta = object_at(document, "metadata")
    parts = document.get("spec") or pod.spec, meta.get("annotations"), pod.metadata.labels
    return pod.metadata.namespace, msgspec.json.encode(parts)
