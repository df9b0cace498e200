"""Changes in allocating devices that are known only from release notes."""

from __future__ import annotations

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.framework.noted_changes import NotedChange
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


def requests_devices(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod requests devices, by claims or by extended resources that a DeviceClass backs."""
    return bool(info.spec.resource_claims or is_any_backed(info.incoming_requests, find_backing_classes(view.objects)))


NOTED = tuple(
    NotedChange(
        ByVersion(f"what gate {gate} does", (("", "no such gate"), ("1.37", "not replayed")), gate, from_notes="1.37"),
        Effect.EITHER,
        requests_devices,
        gate,
    )
    for gate in ("DRADerivedAttributes", "DRADeviceCompatibilityGroups")
)
"""Changes known only from the release notes of 1.37. They came after the source that could be read (1 July 2026).

Upstream: structured/internal/{stable,incubating,experimental} in staging/src/k8s.io/dynamic-resource-allocation.
"""
