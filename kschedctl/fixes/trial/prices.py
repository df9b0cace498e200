"""What a change costs those whom it concerns: the order in which an experienced operator tries changes.

The ideas, the cheapest first. Nothing is cheaper than to wait for what is under way. What is plainly wrong is put
right, and what was forgotten made, before anybody looks for room. Then the cluster gets room in a way that can be taken
back, and the workload stays as it is; then so that a neighbour has to move. Only then does the workload ask for
something else, which its author has to agree to; then a guarantee is given up, be it its own, its neighbours' or that
of a node. Last comes what is lost for good, and what nobody should do though the scheduler would be content.

A set of changes is as dear as the dearest of them, then the next. Within a price ``Fix.cost`` orders changes by how
little they are.
"""

from __future__ import annotations

from enum import IntEnum


class Price(IntEnum):
    """The steps, the cheapest first."""

    PATIENCE = 0
    CORRECTION = 1
    ROOM = 2
    NEIGHBOUR = 3
    WISH = 4
    GUARANTEE = 5
    LOSS = 6


NEGLIGIBLE, SUBSTANTIAL = 0.05, 0.5
"""The share of a request that nobody misses, and that without which it is another workload."""
OF_KINDS = {
    Price.PATIENCE: ("Wait",),
    Price.CORRECTION: (
        "CorrectSelector",
        "CorrectNodeAffinity",
        "CorrectPodSelector",
        "CorrectNamespace",
        "CorrectNamespaceSelector",
        "CorrectTopologyKey",
        "CorrectClaim",
        "CorrectStorageClass",
        "CorrectRuntimeClass",
        "CorrectDeviceClass",
        "CreateClaim",
        "CreateResourceClaim",
        "CreateResourceClaimTemplate",
        "GenerateResourceClaim",
        "OtherScheduler",
        "BindVolume",
        "ForgetSelectedNode",
        "StartCloudController",
        "PublishResource",
        "RevertResize",
        "IgnoreStorageCapacity",
    ),
    Price.ROOM: (
        "RepairNode",
        "Uncordon",
        "LabelNode",
        "LabelNamespace",
        "AddNode",
        "CreateVolume",
        "CreateStorageClass",
        "CreateDeviceClass",
        "BackResource",
        "RaiseCapacity",
        "RaiseQuotaMax",
        "UntaintDevices",
    ),
    Price.NEIGHBOUR: ("MovePod", "WaitForFirstConsumer", "AllowTopology", "RaiseQuotaMin"),
    Price.WISH: (
        "LowerRequest",
        "Tolerate",
        "OtherSelector",
        "DropSelector",
        "WidenNodeAffinity",
        "DropNodeAffinity",
        "SoftenNodeAffinity",
        "OtherNamespace",
        "MatchLabelKeys",
        "NodeAffinityPolicy",
        "NodeTaintsPolicy",
        "OtherHostPort",
        "DropHostPort",
        "OtherStorageClass",
        "SmallerClaim",
        "OtherVolume",
        "RemakeClaim",
        "RemakeResourceClaim",
        "FewerDevices",
        "OtherDeviceClass",
        "DropDeviceSelector",
        "DropDeviceCapacity",
        "DropDeviceConstraint",
        "RaiseMaxPods",
    ),
    Price.GUARANTEE: (
        "SoftenPodAffinity",
        "SoftenAntiAffinity",
        "MaxSkew",
        "MinDomains",
        "ScheduleAnyway",
        "DropRequest",
        "OtherRuntimeClass",
        "DropDeviceRequest",
        "TolerateDeviceTaint",
        "DeleteDeviceTaintRule",
        "RemoveTaint",
        "UnlabelNode",
        "RaiseVolumeLimit",
        "ScaleDown",
        "UsePriorityClass",
    ),
    Price.LOSS: ("StopPod", "FreeDevices", "ReleaseVolume", "DetachVolume"),
}
"""What a change of a kind costs where its way says nothing else of it."""
PRICES = {kind: price for price, kinds in OF_KINDS.items() for kind in kinds}
"""Kind of change, by which people choose among them, -> what it costs."""
