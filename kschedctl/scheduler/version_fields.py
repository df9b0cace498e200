"""What older versions of the API do not have: such fields and kinds are ignored there, and an answer says so.

Upstream: the alpha release of each (KEPs 2837, 4639, 5307, 4671, 5055).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kschedctl.api.kube_version import KubeVersion
from kschedctl.api.objects import PodSpec
from kschedctl.cluster import Cluster


class LaterField(NamedTuple):
    """A field of pods that the scheduler reads since a minor version; ``has``: whether a pod's spec has it."""

    path: str
    since: int
    has: Callable[[PodSpec], bool]


def _has_restart_rules(spec: PodSpec) -> bool:
    return any(container.restart_policy_rules for container in (*spec.containers, *spec.init_containers))


FIELDS = (
    LaterField("spec.volumes[].image", 31, lambda spec: any(volume.image for volume in spec.volumes)),
    LaterField("spec.resources", 32, lambda spec: spec.resources is not None),
    LaterField("spec.containers[].restartPolicyRules", 34, _has_restart_rules),
    LaterField("spec.schedulingGroup", 36, lambda spec: spec.scheduling_group is not None),
)
KINDS = {"device_taint_rules": ("DeviceTaintRule", 33), "pod_groups": ("PodGroup", 36)}
"""Field of a Cluster -> the kind that it holds, and since when the API has it."""


def ignored(spec: PodSpec, cluster: Cluster, version: KubeVersion) -> Iterator[str]:
    """The fields of a pod, and the kinds of a cluster, that a version does not know."""
    for field in FIELDS:
        if version.minor < field.since and field.has(spec):
            yield f"{field.path} needs 1.{field.since}"
    for name, (kind, since) in KINDS.items():
        if version.minor < since and getattr(cluster, name):
            yield f"{kind} needs 1.{since}"
