"""What providers of Karpenter say of the machines behind NodePools, as far as it decides what pods fit.

Upstream: EC2NodeClass of karpenter-provider-aws (pkg/apis/v1), AKSNodeClass of Azure/karpenter-provider-azure
(pkg/apis/v1beta1), GCENodeClass of cloudpilot-ai/karpenter-provider-gcp, NodeClass of EKS Auto Mode.
"""

from __future__ import annotations

import msgspec

from kschedctl.api.objects import Condition, Int64, ObjectMeta, Struct

RAID0 = "RAID0"
"""The instanceStorePolicy by which disks of the machine itself are its ephemeral storage."""


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
    """``max_pods`` and ``os_disk_size_gb`` of AKS, ``ephemeral_storage`` of EKS Auto Mode, the others of EC2."""

    kubelet: NodeClassKubelet = NodeClassKubelet()
    block_device_mappings: tuple[BlockDeviceMapping, ...] = ()
    instance_store_policy: str | None = None
    ephemeral_storage: EphemeralStorage = EphemeralStorage()
    max_pods: Int64 | None = None
    os_disk_size_gb: Int64 | None = msgspec.field(default=None, name="osDiskSizeGB")


class NodeClassSubnet(Struct, frozen=True):
    zone: str = ""


class NodeClassStatus(Struct, frozen=True):
    subnets: tuple[NodeClassSubnet, ...] = ()
    conditions: tuple[Condition, ...] = ()


class NodeClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeClassSpec = NodeClassSpec()
    status: NodeClassStatus = NodeClassStatus()

    @property
    def zones(self) -> frozenset[str]:
        """Zones of its subnets; empty where it tells none."""
        return frozenset(subnet.zone for subnet in self.status.subnets if subnet.zone)

    @property
    def most_pods(self) -> int | None:
        """Most pods of a node; None where the machine decides."""
        return self.spec.kubelet.max_pods if self.spec.max_pods is None else self.spec.max_pods

    @property
    def disk(self) -> str | None:
        """The size of the root volume; None where the image, or the machine, decides."""
        spec = self.spec
        if spec.instance_store_policy == RAID0:
            return None
        if spec.os_disk_size_gb is not None:
            return f"{spec.os_disk_size_gb}G"
        mappings = spec.block_device_mappings
        roots = [each for each in mappings if each.root_volume] or (mappings if len(mappings) == 1 else ())
        return next((each.ebs.volume_size for each in roots), spec.ephemeral_storage.size)

    @property
    def fault(self) -> str:
        """What makes it not ready, in its provider's words; empty where it is, or nobody has looked at it yet."""
        failed = [each for each in self.status.conditions if each.status == "False"]
        if not any(each.type == "Ready" for each in failed):
            return ""
        causes = [each for each in failed if each.type != "Ready"] or failed
        return "; ".join(each.message or each.reason or each.type for each in causes)
