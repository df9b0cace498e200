"""What the release notes of 1.37 tell of allocating devices, and whom that concerns.

Upstream: structured/internal/{stable,incubating,experimental} in staging/src/k8s.io/dynamic-resource-allocation, of
which these changes came after what could be read of v1.37 (1 July 2026).
"""

from __future__ import annotations

from kschedctl.api.kube_version import ByVersion
from kschedctl.scheduler.framework.dependencies import Effect
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.framework.noted_changes import NotedChange
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

_1_37 = "1.37"


def asks(info: PodInfo, view: Fork) -> bool:
    """Whether the pod asks for devices."""
    return bool(info.spec.resource_claims or is_any_backed(info.incoming_requests, find_backing_classes(view.objects)))


GATES = tuple(
    (ByVersion(f"what gate {gate} does", (("", "no such gate"), (_1_37, "not replayed")), gate, _1_37), gate)
    for gate in ("DRADerivedAttributes", "DRADeviceCompatibilityGroups")
)

NOTED = (*(NotedChange(change, Effect.EITHER, asks, gate) for change, gate in GATES),)
CHANGES: tuple[ByVersion[object], ...] = tuple(change.change for change in NOTED)
