"""Removal of data that scheduling does not read before objects are stored.

The removed data are most annotations, messages and times of node conditions, host paths, and the conditions of
workloads except those that report a failed creation.
"""

from __future__ import annotations

import re
from typing import TypeVar

from msgspec.structs import replace

from kschedctl.api.events import reports_creation_failure
from kschedctl.api.objects import (
    Condition,
    Node,
    ObjectMeta,
    PodTemplateSpec,
    ReplicationController,
    StoredWorkload,
    Struct,
    Volume,
)

READ_ANNOTATIONS = frozenset(
    {
        "kschedctl/ignore",
        "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "karpenter.sh/do-not-disrupt",
        "pv.kubernetes.io/bind-completed",
        "resource.kubernetes.io/extended-resource-claim",
        "storage.alpha.kubernetes.io/migrated-plugins",
        "volume.beta.kubernetes.io/storage-class",
        "volume.kubernetes.io/selected-node",
    }
)
"""Annotations that a plugin or kschedctl reads."""
NODE_GROUP_ANNOTATIONS = (
    *("capacity.cluster-autoscaler.kubernetes.io/", "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"),
    *("cluster.x-k8s.io/autoscaling-options-", "cluster.x-k8s.io/owner-", "cluster.x-k8s.io/paused"),
    *("machine.openshift.io/cluster-api-autoscaler-node-group-", "machine.openshift.io/vCPU"),
    *("machine.openshift.io/memoryMb", "machine.openshift.io/GPU", "machine.openshift.io/maxPods"),
    "oci.oraclecloud.com/node-pool-id",
)
"""Prefixes of annotations that describe node groups."""

S = TypeVar("S", bound=Struct)
_DIGEST = re.compile(r"/[0-9a-f]{16}")


def is_read_annotation(annotation: str) -> bool:
    """Return whether a plugin or kschedctl reads the annotation."""
    return annotation in READ_ANNOTATIONS or annotation.startswith(NODE_GROUP_ANNOTATIONS)


def strip_unread_data(obj: S) -> S:
    """Return a copy of the object without the data that nothing reads, or the object itself if it has no such data.

    Annotations that nothing reads, and the times and messages of nodes' conditions, are dropped. Of the conditions of
    workloads, only those that report a failed creation of pods are kept. Host paths in pod templates are hashed.
    """
    meta = getattr(obj, "metadata", None)
    if isinstance(meta, ObjectMeta) and not meta.annotations.keys() <= READ_ANNOTATIONS:
        annotations = {key: value for key, value in meta.annotations.items() if is_read_annotation(key)}
        obj = replace(obj, metadata=replace(meta, annotations=annotations))

    if isinstance(obj, Node):
        conditions = tuple(
            Condition(condition.type, condition.status, condition.reason) for condition in obj.status.conditions
        )
        obj = replace(obj, status=replace(obj.status, conditions=conditions))

    if isinstance(obj, StoredWorkload | ReplicationController) and obj.status.conditions:
        failures = tuple(condition for condition in obj.status.conditions if reports_creation_failure(condition))
        obj = replace(obj, status=replace(obj.status, conditions=failures))

    template = getattr(getattr(obj, "spec", None), "template", None)
    if isinstance(template, PodTemplateSpec) and any(volume.host_path for volume in template.spec.volumes):
        volumes = tuple(map(hash_host_path, template.spec.volumes))
        template = replace(template, spec=replace(template.spec, volumes=volumes))
        obj = replace(obj, spec=replace(obj.spec, template=template))  # type: ignore[attr-defined]  # it has one
    return obj


def hash_host_path(volume: Volume) -> Volume:
    """Return the volume with its host path replaced by a digest.

    Scheduling only compares host paths. A path that already looks like a digest is kept, so that a second call changes
    nothing.
    """
    host = volume.host_path
    if host is None or _DIGEST.fullmatch(host.path):
        return volume
    from hashlib import blake2b  # noqa: PLC0415 - loads OpenSSL, which reading a snapshot does not need

    path = f"/{blake2b(host.path.encode(), digest_size=8).hexdigest()}"
    return replace(volume, host_path=replace(host, path=path))
