"""Claims and groups of pods that manifests bring: those that the API server refuses are not there for pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.copying import replace
from kschedctl.api.objects import PersistentVolumeClaim, PodGroup, ResourceClaim
from kschedctl.api.ownership import Owner
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.not_created import refusal
from kschedctl.replay.controllers.sent_pods import SentPod
from kschedctl.reports.not_created import NotCreated

VERSIONS = {
    "PersistentVolumeClaim": "v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "PodGroup": "scheduling.k8s.io/v1alpha2",
}


class WithNewObjects(NamedTuple):
    """The cluster less the objects that are refused, and with the others counted; and the refused ones."""

    cluster: Cluster
    refused: list[NotCreated]


def with_new_objects(cluster: Cluster) -> WithNewObjects:
    """The objects that no API server has seen yet, created in the order of their names."""
    admissions, refused, fields = Admissions(cluster, {}), list[NotCreated](), dict[str, Any]()
    for kind in VERSIONS:
        objects = getattr(cluster, FIELDS[kind])
        lacking = dict(_refused(kind, filter(_is_new, objects), admissions))
        if lacking:
            fields[FIELDS[kind]] = tuple(o for o in objects if (o.metadata.namespace, o.metadata.name) not in lacking)
            refused += lacking.values()
    counted = admissions.counted(cluster)
    return WithNewObjects(replace(counted, **fields) if fields else counted, refused)


def _refused(kind: str, objects: Iterable[Any], admissions: Admissions) -> Iterator[tuple[tuple[str, str], NotCreated]]:
    for obj in objects:
        meta = obj.metadata
        owner = Owner(kind, meta.namespace, meta.name)
        metadata = {"name": meta.name, "namespace": meta.namespace, "annotations": meta.annotations}
        manifest = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": metadata}
        asked = SentPod(owner, manifest | {"spec": msgspec.to_builtins(obj.spec)}, meta.namespace, in_full=False)
        if words := admissions.of_one(asked):
            yield (meta.namespace, meta.name), refusal(owner, words, 1, 1)


def _is_new(obj: PersistentVolumeClaim | ResourceClaim | PodGroup) -> bool:
    """Without what only a server sets."""
    if obj.metadata.uid:
        return False
    match obj:
        case ResourceClaim():
            return obj.status.allocation is None
        case PodGroup():
            return not obj.status.conditions
    return not obj.status.phase
