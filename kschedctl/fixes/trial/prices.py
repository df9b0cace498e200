"""The price of each kind of change: the order in which an experienced operator tries changes.

Waiting for what is under way is cheapest. Mistakes are corrected, and forgotten objects created, before anybody looks
for room. Then the cluster gets room in a reversible way and the workload stays as it is; then a neighbour has to move.
Only then does the workload ask for something else, which its author has to agree to. Then a guarantee of the workload,
a neighbour or a node is given up. Irreversible losses come last. A set of changes is compared by its highest price,
then the next. Within a price, `Fix.cost` orders changes.
"""

from __future__ import annotations

from enum import IntEnum


class Price(IntEnum):
    """Steps of the price of a change, the cheapest first."""

    PATIENCE = 0
    CORRECTION = 1
    ROOM = 2
    NEIGHBOUR = 3
    WISH = 4
    GUARANTEE = 5
    LOSS = 6


NEGLIGIBLE, SUBSTANTIAL = 0.05, 0.5
"""The share of a request that nobody misses, and that without which it is another workload."""
KINDS_BY_PRICE = {
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
"""The kinds of changes of each price, unless the fix itself has another."""
PRICES = {kind: price for price, kinds in KINDS_BY_PRICE.items() for kind in kinds}
"""Kind of change -> its price."""
