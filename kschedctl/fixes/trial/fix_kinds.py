"""The kinds of fixes, each with its price: the order in which an experienced operator tries them.

A set of changes is compared by its highest price, then the next. Within a price, `Fix.cost` orders changes.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Price(IntEnum):
    """Steps of the price of a change, the cheapest first."""

    PATIENCE = 0
    """Wait for something that is under way."""
    CORRECTION = 1
    """Correct a mistake or create a forgotten object."""
    ROOM = 2
    """Make room in the cluster, reversibly and without changing the workload."""
    NEIGHBOUR = 3
    """Change another workload or a shared object."""
    WISH = 4
    """Change what the workload asks for, to which its author has to agree."""
    GUARANTEE = 5
    """Give up a guarantee of the workload, of a neighbour or of a node."""
    LOSS = 6
    """Lose something irreversibly, such as data or a running pod."""


class FixKind(StrEnum):
    """The kinds of changes that fixes make. Users select fixes by the values."""

    price: Price
    """The price of fixes of this kind, unless the fix itself has another."""

    def __new__(cls, word: str, price: Price) -> FixKind:
        """Create a member from its word and price."""
        kind = str.__new__(cls, word)
        kind._value_, kind.price = word, price
        return kind

    WAIT = "Wait", Price.PATIENCE
    """Wait for a pod to leave, a node to start or a volume to be provisioned."""

    CORRECT_SELECTOR = "CorrectSelector", Price.CORRECTION
    """Correct a misspelled label in the node selector."""
    CORRECT_NODE_AFFINITY = "CorrectNodeAffinity", Price.CORRECTION
    """Correct a misspelled label in the required node affinity."""
    CORRECT_POD_SELECTOR = "CorrectPodSelector", Price.CORRECTION
    """Correct the labels by which a pod affinity term selects pods."""
    CORRECT_NAMESPACE = "CorrectNamespace", Price.CORRECTION
    """Correct the name of a namespace in a pod affinity term."""
    CORRECT_NAMESPACE_SELECTOR = "CorrectNamespaceSelector", Price.CORRECTION
    """Correct the labels by which a pod affinity term selects namespaces."""
    CORRECT_TOPOLOGY_KEY = "CorrectTopologyKey", Price.CORRECTION
    """Correct the topology key of a pod affinity term or topology spread constraint."""
    CORRECT_CLAIM = "CorrectClaim", Price.CORRECTION
    """Correct the name of a claim or claim template."""
    CORRECT_STORAGE_CLASS = "CorrectStorageClass", Price.CORRECTION
    """Correct the name of a claim's StorageClass."""
    CORRECT_RUNTIME_CLASS = "CorrectRuntimeClass", Price.CORRECTION
    """Correct the node selector of the pod's RuntimeClass."""
    CORRECT_DEVICE_CLASS = "CorrectDeviceClass", Price.CORRECTION
    """Correct the name of a DeviceClass in a device request."""
    CREATE_CLAIM = "CreateClaim", Price.CORRECTION
    """Create a missing PersistentVolumeClaim."""
    CREATE_RESOURCE_CLAIM = "CreateResourceClaim", Price.CORRECTION
    """Create a missing ResourceClaim."""
    CREATE_RESOURCE_CLAIM_TEMPLATE = "CreateResourceClaimTemplate", Price.CORRECTION
    """Create a missing ResourceClaimTemplate."""
    GENERATE_RESOURCE_CLAIM = "GenerateResourceClaim", Price.CORRECTION
    """Let the controller generate a ResourceClaim from its template."""
    OTHER_SCHEDULER = "OtherScheduler", Price.CORRECTION
    """Name another scheduler profile in the pod."""
    BIND_VOLUME = "BindVolume", Price.CORRECTION
    """Reserve a suitable free volume for the claim."""
    FORGET_SELECTED_NODE = "ForgetSelectedNode", Price.CORRECTION
    """Remove the annotation with the node that was selected for a claim."""
    START_CLOUD_CONTROLLER = "StartCloudController", Price.CORRECTION
    """Start the cloud controller manager, which initializes nodes."""
    PUBLISH_RESOURCE = "PublishResource", Price.CORRECTION
    """Repair a device plugin that publishes no devices of its node."""
    REVERT_RESIZE = "RevertResize", Price.CORRECTION
    """Revert a resize of a running pod that its node cannot accommodate."""
    IGNORE_STORAGE_CAPACITY = "IgnoreStorageCapacity", Price.CORRECTION
    """Let the scheduler ignore the storage capacity that a CSI driver publishes."""

    REPAIR_NODE = "RepairNode", Price.ROOM
    """Make an unready node ready again."""
    UNCORDON = "Uncordon", Price.ROOM
    """Uncordon a node."""
    LABEL_NODE = "LabelNode", Price.ROOM
    """Add a label to a node."""
    LABEL_NAMESPACE = "LabelNamespace", Price.ROOM
    """Label a namespace so that a pod affinity term selects it."""
    ADD_NODE = "AddNode", Price.ROOM
    """Add one or more nodes like an existing one."""
    CREATE_VOLUME = "CreateVolume", Price.ROOM
    """Create a PersistentVolume for a claim."""
    CREATE_STORAGE_CLASS = "CreateStorageClass", Price.ROOM
    """Create a missing StorageClass."""
    CREATE_DEVICE_CLASS = "CreateDeviceClass", Price.ROOM
    """Create a missing DeviceClass."""
    BACK_RESOURCE = "BackResource", Price.ROOM
    """Back an extended resource with a DeviceClass."""
    RAISE_CAPACITY = "RaiseCapacity", Price.ROOM
    """Enlarge or create a storage pool."""
    RAISE_QUOTA_MAX = "RaiseQuotaMax", Price.ROOM
    """Raise the max of an ElasticQuota."""
    UNTAINT_DEVICES = "UntaintDevices", Price.ROOM
    """Remove the taints of devices."""

    MOVE_POD = "MovePod", Price.NEIGHBOUR
    """Evict a pod that fits on another node."""
    WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer", Price.NEIGHBOUR
    """Let a StorageClass provision volumes only after a pod was scheduled."""
    ALLOW_TOPOLOGY = "AllowTopology", Price.NEIGHBOUR
    """Allow a StorageClass to provision volumes in another topology."""
    RAISE_QUOTA_MIN = "RaiseQuotaMin", Price.NEIGHBOUR
    """Raise the min of an ElasticQuota, at the expense of other quotas."""

    LOWER_REQUEST = "LowerRequest", Price.WISH
    """Request less of a resource."""
    TOLERATE = "Tolerate", Price.WISH
    """Tolerate a taint."""
    OTHER_SELECTOR = "OtherSelector", Price.WISH
    """Select another value of a node label."""
    DROP_SELECTOR = "DropSelector", Price.WISH
    """Drop a label from the node selector."""
    WIDEN_NODE_AFFINITY = "WidenNodeAffinity", Price.WISH
    """Accept more values of a label in the required node affinity."""
    DROP_NODE_AFFINITY = "DropNodeAffinity", Price.WISH
    """Drop an expression of the required node affinity."""
    SOFTEN_NODE_AFFINITY = "SoftenNodeAffinity", Price.WISH
    """Prefer the required node affinity instead of requiring it."""
    OTHER_NAMESPACE = "OtherNamespace", Price.WISH
    """Select pods of another namespace in a pod affinity term."""
    MATCH_LABEL_KEYS = "MatchLabelKeys", Price.WISH
    """Count only pods of the same revision, by matchLabelKeys."""
    NODE_AFFINITY_POLICY = "NodeAffinityPolicy", Price.WISH
    """Spread only over nodes that match the pod's node selector and affinity."""
    NODE_TAINTS_POLICY = "NodeTaintsPolicy", Price.WISH
    """Spread only over nodes whose taints the pod tolerates."""
    OTHER_HOST_PORT = "OtherHostPort", Price.WISH
    """Use another host port."""
    DROP_HOST_PORT = "DropHostPort", Price.WISH
    """Use no host port."""
    OTHER_STORAGE_CLASS = "OtherStorageClass", Price.WISH
    """Use another StorageClass for a claim."""
    SMALLER_CLAIM = "SmallerClaim", Price.WISH
    """Request less storage."""
    OTHER_VOLUME = "OtherVolume", Price.WISH
    """Bind a claim to another volume."""
    REMAKE_CLAIM = "RemakeClaim", Price.WISH
    """Delete and recreate a PersistentVolumeClaim."""
    REMAKE_RESOURCE_CLAIM = "RemakeResourceClaim", Price.WISH
    """Delete and recreate a ResourceClaim."""
    FEWER_DEVICES = "FewerDevices", Price.WISH
    """Request fewer devices."""
    OTHER_DEVICE_CLASS = "OtherDeviceClass", Price.WISH
    """Request devices of another DeviceClass."""
    DROP_DEVICE_SELECTOR = "DropDeviceSelector", Price.WISH
    """Drop a CEL selector of a device request."""
    DROP_DEVICE_CAPACITY = "DropDeviceCapacity", Price.WISH
    """Drop the capacity that a device request requires."""
    DROP_DEVICE_CONSTRAINT = "DropDeviceConstraint", Price.WISH
    """Drop a constraint between the devices of a claim."""
    RAISE_MAX_PODS = "RaiseMaxPods", Price.WISH
    """Let the kubelet run more pods on a node."""

    SOFTEN_POD_AFFINITY = "SoftenPodAffinity", Price.GUARANTEE
    """Prefer a required pod affinity term instead of requiring it."""
    SOFTEN_ANTI_AFFINITY = "SoftenAntiAffinity", Price.GUARANTEE
    """Prefer a required pod anti-affinity term instead of requiring it."""
    MAX_SKEW = "MaxSkew", Price.GUARANTEE
    """Raise the maxSkew of a topology spread constraint."""
    MIN_DOMAINS = "MinDomains", Price.GUARANTEE
    """Lower the minDomains of a topology spread constraint."""
    SCHEDULE_ANYWAY = "ScheduleAnyway", Price.GUARANTEE
    """Prefer to spread instead of requiring it."""
    DROP_REQUEST = "DropRequest", Price.GUARANTEE
    """Request nothing of a resource."""
    OTHER_RUNTIME_CLASS = "OtherRuntimeClass", Price.GUARANTEE
    """Use another RuntimeClass."""
    DROP_DEVICE_REQUEST = "DropDeviceRequest", Price.GUARANTEE
    """Drop a device request."""
    TOLERATE_DEVICE_TAINT = "TolerateDeviceTaint", Price.GUARANTEE
    """Tolerate a taint of devices."""
    DELETE_DEVICE_TAINT_RULE = "DeleteDeviceTaintRule", Price.GUARANTEE
    """Delete a DeviceTaintRule."""
    REMOVE_TAINT = "RemoveTaint", Price.GUARANTEE
    """Remove a taint from a node."""
    UNLABEL_NODE = "UnlabelNode", Price.GUARANTEE
    """Remove a label from a node."""
    RAISE_VOLUME_LIMIT = "RaiseVolumeLimit", Price.GUARANTEE
    """Let a CSI driver attach more volumes to a node."""
    SCALE_DOWN = "ScaleDown", Price.GUARANTEE
    """Scale down another workload."""
    USE_PRIORITY_CLASS = "UsePriorityClass", Price.GUARANTEE
    """Give the pod a higher PriorityClass, so that it can preempt other pods."""

    STOP_POD = "StopPod", Price.LOSS
    """Evict a pod that no controller recreates."""
    FREE_DEVICES = "FreeDevices", Price.LOSS
    """Free the devices that are allocated to a claim."""
    RELEASE_VOLUME = "ReleaseVolume", Price.LOSS
    """Reserve the volume of a deleted claim for the claim."""
    DETACH_VOLUME = "DetachVolume", Price.LOSS
    """Detach a volume from a node."""


class PoolFixKind(StrEnum):
    """The kinds of changes that fixes make to an autoscaler's groups or pools.

    They are not combined with other fixes.
    """

    CHANGE_NODE_GROUP = "ChangeNodeGroup"
    """Change the maximum or the template of a node group of the Cluster Autoscaler."""
    CHANGE_NODE_POOL = "ChangeNodePool"
    """Change a NodePool of Karpenter."""
    CHANGE_NODE_CLASS = "ChangeNodeClass"
    """Change a node class of Karpenter."""
