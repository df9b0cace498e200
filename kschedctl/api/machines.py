"""Machines of Cluster API and of OpenShift, and what owns them, as far as they tell of node groups.

Upstream: api/core/v1beta2 (sigs.k8s.io/cluster-api), machine/v1beta1 (github.com/openshift/api).
"""

from __future__ import annotations

import msgspec

from kschedctl.api.objects import Int64, ObjectMeta, Struct, Taint


class NodeReference(Struct, frozen=True):
    name: str = ""


class MachineStatus(Struct, frozen=True):
    node_ref: NodeReference | None = None


class Machine(Struct, frozen=True):
    """The owner is its MachineSet; ``status.node_ref``: the node that it has become."""

    metadata: ObjectMeta = ObjectMeta()
    status: MachineStatus = MachineStatus()


class NodeLabels(Struct, frozen=True):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class MachineTemplateSpec(Struct, frozen=True):
    """``metadata``: OpenShift's labels of new nodes."""

    metadata: NodeLabels = NodeLabels()
    taints: tuple[Taint, ...] = ()


class MachineTemplate(Struct, frozen=True):
    spec: MachineTemplateSpec = MachineTemplateSpec()


class MachineTemplateOwnerSpec(Struct, frozen=True):
    replicas: Int64 | None = None
    template: MachineTemplate = MachineTemplate()
    provider_id_list: tuple[str, ...] = msgspec.field(default=(), name="providerIDList")


class MachineTemplateOwner(Struct, frozen=True):
    """A MachineDeployment or a MachineSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MachineTemplateOwnerSpec = MachineTemplateOwnerSpec()


class MachinePoolStatus(Struct, frozen=True):
    node_refs: tuple[NodeReference, ...] = ()


class MachinePool(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: MachineTemplateOwnerSpec = MachineTemplateOwnerSpec()
    status: MachinePoolStatus = MachinePoolStatus()
