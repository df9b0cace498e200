"""Machines of Cluster API and OpenShift and their owners, limited to the fields that describe node groups.

Upstream: api/core/v1beta2 (sigs.k8s.io/cluster-api), machine/v1beta1 (github.com/openshift/api).
"""

from __future__ import annotations

import msgspec

from kschedctl.api.objects import Int64, ObjectMeta, Struct, Taint


class NodeReference(Struct, frozen=True):
    name: str = ""


class MachineStatus(Struct, frozen=True):
    node_ref: NodeReference | None = None
    """The node that the machine became."""


class Machine(Struct, frozen=True):
    """A Machine, which is owned by its MachineSet."""

    metadata: ObjectMeta = ObjectMeta()
    status: MachineStatus = MachineStatus()


class NodeLabels(Struct, frozen=True):
    labels: dict[str, str] = msgspec.field(default_factory=dict)


class MachineTemplateSpec(Struct, frozen=True):
    """The part of a machine template that describes the new node."""

    metadata: NodeLabels = NodeLabels()
    """The labels of new nodes, which only OpenShift has here."""
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
