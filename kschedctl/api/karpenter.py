"""Karpenter's objects and its providers' NodeClasses, limited to the fields that scheduling and disruption read.

Upstream: pkg/apis/v1/nodepool.go, nodeclaim.go, nodeclaim_status.go, pkg/apis/v1alpha1/nodeoverlay.go
(sigs.k8s.io/karpenter v1.14.1). Fields of v1beta1 are converted to v1 as nodepool_conversion.go of v1.0.0 does.
NodeClasses are EC2NodeClass of karpenter-provider-aws (pkg/apis/v1), AKSNodeClass of Azure/karpenter-provider-azure
(pkg/apis/v1beta1), GCENodeClass of cloudpilot-ai/karpenter-provider-gcp, and NodeClass of EKS Auto Mode.
"""

from __future__ import annotations

import msgspec

from kschedctl.api.objects import Condition, Int64, ObjectMeta, Resources, Struct, Taint

RAID0 = "RAID0"
"""The instanceStorePolicy that makes the machine's own disks its ephemeral storage."""


class RequirementWithMinValues(Struct, frozen=True):
    """A requirement on a label of new nodes, with a minimum number of distinct values."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()
    min_values: Int64 | None = None


class NodeClassReference(Struct, frozen=True):
    """A reference to a NodeClass."""

    group: str = ""
    kind: str = ""
    name: str = ""
    api_version: str = ""
    """Set by v1beta1 instead of ``group``."""

    def __post_init__(self) -> None:
        if self.api_version and not self.group:
            msgspec.structs.force_setattr(self, "group", self.api_version.partition("/")[0])


class ClaimedResources(Struct, frozen=True):
    requests: Resources = {}


class NodeClaimSpec(Struct, frozen=True):
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    requirements: tuple[RequirementWithMinValues, ...] = ()
    resources: ClaimedResources = ClaimedResources()
    node_class_ref: NodeClassReference = NodeClassReference()
    termination_grace_period: str | None = None
    expire_after: str | None = None


class NodeClaimStatus(Struct, frozen=True):
    node_name: str = ""
    provider_id: str = msgspec.field(default="", name="providerID")
    capacity: Resources = {}
    allocatable: Resources = {}
    conditions: tuple[Condition, ...] = ()
    last_pod_event_time: str | None = None


class NodeClaim(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec = NodeClaimSpec()
    status: NodeClaimStatus = NodeClaimStatus()


class NodeClaimTemplate(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClaimSpec = NodeClaimSpec()


class DisruptionBudget(Struct, frozen=True):
    """A limit on how many nodes Karpenter may disrupt at once."""

    nodes: str | Int64 = "10%"
    """A number or a percentage of nodes."""
    reasons: tuple[str, ...] = ()
    schedule: str | None = None
    """The cron schedule at which the budget starts to apply; None means always."""
    duration: str | None = None
    """The duration for which the budget applies from each start."""


class PoolDisruption(Struct, frozen=True):
    """The disruption settings of a NodePool, with the API server's defaults filled in."""

    consolidate_after: str | None = None
    consolidation_policy: str = "WhenEmptyOrUnderutilized"
    budgets: tuple[DisruptionBudget, ...] | None = None
    """An empty tuple allows every disruption."""
    expire_after: str | None = None
    """Set by v1beta1; v1 has it in the template."""

    def __post_init__(self) -> None:
        if self.budgets is None:
            msgspec.structs.force_setattr(self, "budgets", (DisruptionBudget(),))
        if self.consolidate_after is None:
            msgspec.structs.force_setattr(self, "consolidate_after", "0s")
        if self.consolidation_policy == "WhenUnderutilized":
            msgspec.structs.force_setattr(self, "consolidation_policy", "WhenEmptyOrUnderutilized")
            msgspec.structs.force_setattr(self, "consolidate_after", "0s")


class NodePoolSpec(Struct, frozen=True):
    template: NodeClaimTemplate = NodeClaimTemplate()
    disruption: PoolDisruption = PoolDisruption()
    limits: Resources | None = None
    weight: Int64 | None = None
    replicas: Int64 | None = None

    def __post_init__(self) -> None:
        expires = self.disruption.expire_after
        template = self.template
        if expires is not None and template.spec.expire_after is None:
            spec = msgspec.structs.replace(template.spec, expire_after=expires)
            msgspec.structs.force_setattr(self, "template", msgspec.structs.replace(template, spec=spec))


class NodePoolStatus(Struct, frozen=True):
    resources: Resources = {}
    conditions: tuple[Condition, ...] = ()


class NodePool(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodePoolSpec = NodePoolSpec()
    status: NodePoolStatus = NodePoolStatus()


class NodeOverlaySpec(Struct, frozen=True):
    requirements: tuple[RequirementWithMinValues, ...] = ()
    price_adjustment: str | None = None
    price: str | None = None
    capacity: Resources = {}
    weight: Int64 | None = None


class NodeOverlay(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeOverlaySpec = NodeOverlaySpec()


class NodeClassKubelet(Struct, frozen=True):
    max_pods: Int64 | None = None


class BlockDevice(Struct, frozen=True):
    volume_size: str | None = None


class BlockDeviceMapping(Struct, frozen=True):
    ebs: BlockDevice = BlockDevice()
    root_volume: bool = False


class EphemeralStorage(Struct, frozen=True):
    size: str | None = None


class NodeClassSpec(Struct, frozen=True):
    """The fields of all providers together."""

    kubelet: NodeClassKubelet = NodeClassKubelet()
    block_device_mappings: tuple[BlockDeviceMapping, ...] = ()
    instance_store_policy: str | None = None
    ephemeral_storage: EphemeralStorage = EphemeralStorage()
    """EKS Auto Mode only."""
    max_pods: Int64 | None = None
    """AKS only."""
    os_disk_size_gb: Int64 | None = msgspec.field(default=None, name="osDiskSizeGB")
    """AKS only."""


class NodeClassSubnet(Struct, frozen=True):
    zone: str = ""


class NodeClassStatus(Struct, frozen=True):
    subnets: tuple[NodeClassSubnet, ...] = ()
    conditions: tuple[Condition, ...] = ()


class NodeClass(Struct, frozen=True):
    """A NodeClass of any provider."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClassSpec = NodeClassSpec()
    status: NodeClassStatus = NodeClassStatus()

    @property
    def zones(self) -> frozenset[str]:
        """The zones of the subnets, which are empty if the status lists none."""
        return frozenset(subnet.zone for subnet in self.status.subnets if subnet.zone)

    @property
    def max_pods(self) -> int | None:
        """The maximum number of pods per node, or None if the machine type decides."""
        return self.spec.max_pods if self.spec.max_pods is not None else self.spec.kubelet.max_pods

    @property
    def root_disk_size(self) -> str | None:
        """The size of the root volume, or None if the image or the machine type decides."""
        spec = self.spec
        if spec.instance_store_policy == RAID0:
            return None
        if spec.os_disk_size_gb is not None:
            return f"{spec.os_disk_size_gb}G"
        for mapping in spec.block_device_mappings:
            if mapping.root_volume or len(spec.block_device_mappings) == 1:
                return mapping.ebs.volume_size
        return spec.ephemeral_storage.size

    @property
    def not_ready_reason(self) -> str:
        """The reason why the NodeClass is not ready: the messages of its failed conditions, joined by "; ".

        The message of the condition Ready is left out if another condition failed. The reason or the type of a
        condition stands in for an empty message. The text is "" if the NodeClass is ready, or if its readiness is
        unknown.
        """
        failed_conditions = [condition for condition in self.status.conditions if condition.status == "False"]
        if not any(condition.type == "Ready" for condition in failed_conditions):
            return ""
        causes = [condition for condition in failed_conditions if condition.type != "Ready"] or failed_conditions
        return "; ".join(condition.message or condition.reason or condition.type for condition in causes)
