"""NodeClasses of Karpenter's providers, limited to the fields that decide which pods fit on their nodes.

Upstream: EC2NodeClass of karpenter-provider-aws (pkg/apis/v1), AKSNodeClass of Azure/karpenter-provider-azure
(pkg/apis/v1beta1), GCENodeClass of cloudpilot-ai/karpenter-provider-gcp, NodeClass of EKS Auto Mode.
"""

from __future__ import annotations

import msgspec

from kschedctl.api.objects import Condition, Int64, ObjectMeta, Struct

RAID0 = "RAID0"
"""The instanceStorePolicy that makes the machine's own disks its ephemeral storage."""


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
        """Return the zones of the subnets; empty if the status lists none."""
        return frozenset(subnet.zone for subnet in self.status.subnets if subnet.zone)

    @property
    def max_pods(self) -> int | None:
        """Return the maximum number of pods per node, or None if the machine type decides."""
        return self.spec.kubelet.max_pods if self.spec.max_pods is None else self.spec.max_pods

    @property
    def root_disk_size(self) -> str | None:
        """Return the size of the root volume, or None if the image or the machine type decides."""
        spec = self.spec
        if spec.instance_store_policy == RAID0:
            return None
        if spec.os_disk_size_gb is not None:
            return f"{spec.os_disk_size_gb}G"
        mappings = spec.block_device_mappings
        roots = [each for each in mappings if each.root_volume] or (mappings if len(mappings) == 1 else ())
        return next((each.ebs.volume_size for each in roots), spec.ephemeral_storage.size)

    @property
    def not_ready_reason(self) -> str:
        """Return why the NodeClass is not ready, in its provider's words.

        Return "" if it is ready or has no conditions yet.
        """
        failed = [each for each in self.status.conditions if each.status == "False"]
        if not any(each.type == "Ready" for each in failed):
            return ""
        causes = [each for each in failed if each.type != "Ready"] or failed
        return "; ".join(each.message or each.reason or each.type for each in causes)
