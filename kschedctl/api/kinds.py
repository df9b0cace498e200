"""All kinds of API objects that kschedctl reads, one entry each: struct, API versions, scope, and purpose.

The fields of a Cluster, the lists of a live server, files and snapshots all follow from these entries.

Upstream: the versions that kube-scheduler's informers list (v1.36), with those of v1.37.0-beta.0.
resource.k8s.io/v1beta2 has the fields of v1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, NamedTuple

from kschedctl.api import admission_hooks as hooks
from kschedctl.api import karpenter, operator_resources, queueing
from kschedctl.api import machines as machine_api
from kschedctl.api import objects as api
from kschedctl.api.api_versions import SCHEDULER_CONFIGURATION_VERSIONS, ApiVersion, get_group, is_custom_api
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodeClass
from kschedctl.api.pod_table import NO_PODS, PodTable


class ReadFor(Enum):
    """The purpose for which a kind is read."""

    SCHEDULING = "scheduling"
    CREATION = "creation"
    """To know which pods are wanted."""
    ELSEWHERE = "elsewhere"
    """To know what holds pods back before kube-scheduler sees them."""
    LIMITS = "limits"
    """To know what the API server allows to be created."""
    HISTORY = "history"
    """To know how scheduling went. These objects change all the time, and no verdict depends on them."""


class ApiKind(NamedTuple):
    """A kind of API objects and how it is read."""

    name: str
    """The name used in kschedctl, unique across API groups."""
    kind: str
    """The name in the API."""
    field: str
    """The field of a Cluster that holds the objects."""
    struct: type[api.Struct]
    lifecycle: tuple[ApiVersion, ...]
    """The API versions with a limited lifetime, oldest first."""
    versions: tuple[str, ...]
    """The API versions that are read, preferred one first."""
    namespaced: bool
    read_for: ReadFor
    home: str
    """The namespace to read if listing all namespaces is forbidden."""
    watched_by_scheduler: bool
    """True if the scheduler is notified of changes."""
    names: frozenset[str] = frozenset()
    """The only object names that are read; empty means all."""

    @property
    def plural(self) -> str:
        """Return the resource name used in paths and RBAC rules."""
        return pluralize_kind(self.kind).lower()

    @property
    def event_resource(self) -> str:
        """The name under which scheduler plugins register for events of the kind.

        A kind of the core group is named by itself, a kind of another group of Kubernetes by ``group/kind``, and a
        custom resource by ``plural.version.group``.
        """
        group, _, version = self.versions[0].rpartition("/")
        if is_custom_api(self.versions[0]):
            return f"{self.plural}.{version}.{group}"
        return f"{group}/{self.kind}" if group else self.kind


def pluralize_kind(kind: str) -> str:
    """Return the plural of a kind, such as StorageClasses.

    >>> tuple(map(pluralize_kind, ("StorageClass", "CSIStorageCapacity", "Elasticsearch", "Node")))
    ('StorageClasses', 'CSIStorageCapacities', 'Elasticsearches', 'Nodes')
    """
    if kind.endswith("y") and kind[-2] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith(("s", "ch")) else f"{kind}s"


_KIND = "kind"


def _declare_kind(
    struct: type[api.Struct],
    *versions: str | ApiVersion,
    name: str = "",
    kind: str = "",
    namespaced: bool = True,
    read_for: ReadFor = ReadFor.SCHEDULING,
    home: str = "",
    watched_by_scheduler: bool = False,
    names: tuple[str, ...] = (),
) -> Any:
    """Declare a field of Objects for a kind, with the ApiKind in its metadata.

    ``versions`` are oldest first, and a version that is a plain string never expires. ``name`` defaults to the name of
    the struct, and ``kind`` defaults to ``name``. The other arguments are the fields of ApiKind.
    """
    name = name or struct.__name__
    lifecycle = tuple(version for version in versions if isinstance(version, ApiVersion))
    readable_versions = []
    for version in reversed(versions):
        if isinstance(version, str):
            readable_versions.append(version)
        elif version.is_read:
            readable_versions.append(version.name)
    api_kind = ApiKind(
        name=name,
        kind=kind or name,
        field="",  # filled in from the class that has the field
        struct=struct,
        lifecycle=lifecycle,
        versions=tuple(readable_versions),
        namespaced=namespaced,
        read_for=read_for,
        home=home,
        watched_by_scheduler=watched_by_scheduler,
        names=frozenset(names),
    )
    return field(default=NO_PODS if struct is api.Pod else (), metadata={_KIND: api_kind})


def _declare_node_class(name: str, *versions: str, kind: str = "") -> Any:
    """Declare a kind of NodeClasses of Karpenter."""
    return _declare_kind(NodeClass, *versions, name=name, kind=kind, namespaced=False, read_for=ReadFor.CREATION)


def _declare_queueing_kind(
    struct: type[api.Struct], *versions: str, name: str = "", kind: str = "", namespaced: bool = True
) -> Any:
    """Declare a kind by which Kueue or Volcano holds pods back."""
    return _declare_kind(struct, *versions, name=name, kind=kind, namespaced=namespaced, read_for=ReadFor.ELSEWHERE)


def _declare_operated_kind(name: str, *versions: str, kind: str = "") -> Any:
    """Declare a kind of custom resources whose operator creates pods."""
    return _declare_kind(
        operator_resources.OperatorResource, *versions, name=name, kind=kind, read_for=ReadFor.ELSEWHERE
    )


def _declare_admission_hook(kind: str) -> Any:
    """Declare a kind of admission webhooks or policies."""
    struct, versions = hooks.KINDS[kind]
    return _declare_kind(struct, *versions, name=kind, namespaced=False, read_for=ReadFor.LIMITS)


STATUS_MAP, PRIORITY_MAP = "cluster-autoscaler-status", "cluster-autoscaler-priority-expander"
AUTOSCALER_MAPS = (STATUS_MAP, PRIORITY_MAP)
KUEUE_MAP = "kueue-manager-config"
_CONFIG_MAP_HOMES = {**dict.fromkeys(AUTOSCALER_MAPS, "kube-system"), KUEUE_MAP: "kueue-system"}
"""The only ConfigMaps that are read, and their namespaces. Others may contain anything."""
_CORE, _APPS, _STORAGE, _DEVICES = "v1", "apps/v1", "storage.k8s.io/v1", "resource.k8s.io/v1"
_PRIORITIES, _COSCHEDULING = "scheduling.k8s.io/v1", "scheduling.x-k8s.io/v1alpha1"
_KARPENTER = ("karpenter.sh/v1beta1", "karpenter.sh/v1")
_MACHINES = ("cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2")
_OPENSHIFT = "machine.openshift.io/v1beta1"
_KUEUE = ("kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2")
_VOLCANO = "scheduling.volcano.sh/v1beta1"
_STRIMZI = ("kafka.strimzi.io/v1beta2", "kafka.strimzi.io/v1")
_RAY = ("ray.io/v1alpha1", "ray.io/v1")
_KUBEFLOW = "kubeflow.org/v1"
_DRA, _GROUPS = "DynamicResourceAllocation", "GenericWorkload"
_STORAGE_BETA = ApiVersion("storage.k8s.io/v1beta1", 14, 19, 22, _STORAGE)
_ATTACHMENT_ALPHA = ApiVersion("storage.k8s.io/v1alpha1", 9, 21, 24, _STORAGE)
_OLD_WORKLOADS = (
    ApiVersion("extensions/v1beta1", 1, 8, 16, _APPS),
    ApiVersion("apps/v1beta1", 6, 8, 16, _APPS),
    ApiVersion("apps/v1beta2", 8, 9, 16, _APPS),
)
_IN_EXTENSIONS, _IN_BETA1, _IN_BETA2 = _OLD_WORKLOADS
_CLASSIC = ApiVersion("resource.k8s.io/v1alpha2", 27, None, 31, _DEVICES, same_fields=False)
_DRA_VERSIONS = (
    ApiVersion(
        "resource.k8s.io/v1alpha3", 31, deprecated=None, removed=34, replacement=_DEVICES, gate=_DRA, same_fields=False
    ),
    ApiVersion(
        "resource.k8s.io/v1beta1", 32, deprecated=35, removed=38, replacement=_DEVICES, gate=_DRA, same_fields=False
    ),
    ApiVersion("resource.k8s.io/v1beta2", 33, deprecated=36, removed=39, replacement=_DEVICES, gate=_DRA),
    ApiVersion(_DEVICES, 34, gate=_DRA),
)
_TAINT_RULES = (
    ApiVersion(
        "resource.k8s.io/v1alpha3",
        33,
        deprecated=36,
        removed=39,
        replacement="resource.k8s.io/v1beta2",
        gate="DRADeviceTaints",
    ),
    ApiVersion(
        "resource.k8s.io/v1beta2", 36, deprecated=39, removed=42, replacement=_DEVICES, gate="DRADeviceTaintRules"
    ),
    ApiVersion(_DEVICES, 37, gate="DRADeviceTaintRules"),
)
_GROUPS_ALPHA, _GROUPS_BETA = "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"
_POD_GROUPS = (
    ApiVersion("scheduling.k8s.io/v1alpha2", 36, deprecated=None, removed=37, replacement=_GROUPS_BETA, gate=_GROUPS),
    ApiVersion(_GROUPS_ALPHA, 37, gate=_GROUPS),
    ApiVersion(_GROUPS_BETA, 37, 40, 43, gate=_GROUPS),
)


OTHER_CUSTOM_RESOURCE = "OtherCustomResource"
"""The name for custom resources of all kinds without an entry below, which only files can contain."""
FILES_API_VERSION = "files.kschedctl.dev/v1"
"""The stand-in for the apiVersion of such resources, which no API server serves."""


@dataclass(frozen=True, repr=False)
class Objects:
    """All objects that are read from a cluster, by kind."""

    pods: PodTable = _declare_kind(api.Pod, _CORE, watched_by_scheduler=True)
    nodes: tuple[api.Node, ...] = _declare_kind(api.Node, _CORE, namespaced=False, watched_by_scheduler=True)
    namespaces: tuple[api.Namespace, ...] = _declare_kind(api.Namespace, _CORE, namespaced=False)
    services: tuple[api.Service, ...] = _declare_kind(api.Service, _CORE)
    replication_controllers: tuple[api.ReplicationController, ...] = _declare_kind(api.ReplicationController, _CORE)
    replica_sets: tuple[api.StoredWorkload, ...] = _declare_kind(
        api.StoredWorkload, _IN_EXTENSIONS, _IN_BETA2, _APPS, name="ReplicaSet"
    )
    stateful_sets: tuple[api.StoredWorkload, ...] = _declare_kind(
        api.StoredWorkload, _IN_BETA1, _IN_BETA2, _APPS, name="StatefulSet"
    )
    pod_disruption_budgets: tuple[api.PodDisruptionBudget, ...] = _declare_kind(
        api.PodDisruptionBudget, ApiVersion("policy/v1beta1", 5, 21, 25, "policy/v1"), "policy/v1"
    )
    priority_classes: tuple[api.PriorityClass, ...] = _declare_kind(
        api.PriorityClass,
        ApiVersion("scheduling.k8s.io/v1beta1", 11, 14, 22, _PRIORITIES),
        _PRIORITIES,
        namespaced=False,
    )
    runtime_classes: tuple[api.RuntimeClass, ...] = _declare_kind(
        api.RuntimeClass,
        ApiVersion("node.k8s.io/v1beta1", 13, 22, 25, "node.k8s.io/v1"),
        "node.k8s.io/v1",
        namespaced=False,
    )
    persistent_volume_claims: tuple[api.PersistentVolumeClaim, ...] = _declare_kind(
        api.PersistentVolumeClaim, _CORE, watched_by_scheduler=True
    )
    persistent_volumes: tuple[api.PersistentVolume, ...] = _declare_kind(
        api.PersistentVolume, _CORE, namespaced=False, watched_by_scheduler=True
    )
    storage_classes: tuple[api.StorageClass, ...] = _declare_kind(
        api.StorageClass, _STORAGE_BETA, _STORAGE, namespaced=False, watched_by_scheduler=True
    )
    csi_nodes: tuple[api.CSINode, ...] = _declare_kind(
        api.CSINode, _STORAGE_BETA._replace(deprecated=17), _STORAGE, namespaced=False, watched_by_scheduler=True
    )
    csi_drivers: tuple[api.CSIDriver, ...] = _declare_kind(
        api.CSIDriver, _STORAGE_BETA, _STORAGE, namespaced=False, watched_by_scheduler=True
    )
    csi_storage_capacities: tuple[api.CSIStorageCapacity, ...] = _declare_kind(
        api.CSIStorageCapacity,
        _ATTACHMENT_ALPHA._replace(since=19),
        ApiVersion("storage.k8s.io/v1beta1", 21, 24, 27, _STORAGE),
        _STORAGE,
        watched_by_scheduler=True,
    )
    volume_attachments: tuple[api.VolumeAttachment, ...] = _declare_kind(
        api.VolumeAttachment, _ATTACHMENT_ALPHA, _STORAGE_BETA, _STORAGE, namespaced=False, watched_by_scheduler=True
    )
    resource_claims: tuple[api.ResourceClaim, ...] = _declare_kind(
        api.ResourceClaim, _CLASSIC, *_DRA_VERSIONS, watched_by_scheduler=True
    )
    resource_claim_templates: tuple[api.ResourceClaimTemplate, ...] = _declare_kind(
        api.ResourceClaimTemplate, _CLASSIC, *_DRA_VERSIONS
    )
    device_classes: tuple[api.DeviceClass, ...] = _declare_kind(
        api.DeviceClass, *_DRA_VERSIONS, namespaced=False, watched_by_scheduler=True
    )
    resource_slices: tuple[api.ResourceSlice, ...] = _declare_kind(
        api.ResourceSlice, *_DRA_VERSIONS, namespaced=False, watched_by_scheduler=True
    )
    device_taint_rules: tuple[api.DeviceTaintRule, ...] = _declare_kind(
        api.DeviceTaintRule, *_TAINT_RULES, namespaced=False
    )
    pod_groups: tuple[api.PodGroup, ...] = _declare_kind(api.PodGroup, *_POD_GROUPS, watched_by_scheduler=True)
    composite_pod_groups: tuple[api.CompositePodGroup, ...] = _declare_kind(
        api.CompositePodGroup, ApiVersion(_GROUPS_ALPHA, 37, gate="CompositePodGroup"), watched_by_scheduler=True
    )
    coscheduling_pod_groups: tuple[api.CoschedulingPodGroup, ...] = _declare_kind(
        api.CoschedulingPodGroup, _COSCHEDULING, kind="PodGroup", watched_by_scheduler=True
    )
    volcano_pod_groups: tuple[api.VolcanoPodGroup, ...] = _declare_kind(api.VolcanoPodGroup, _VOLCANO, kind="PodGroup")
    elastic_quotas: tuple[api.ElasticQuota, ...] = _declare_kind(
        api.ElasticQuota, _COSCHEDULING, watched_by_scheduler=True
    )
    node_resource_topologies: tuple[api.NodeResourceTopology, ...] = _declare_kind(
        api.NodeResourceTopology, "topology.node.k8s.io/v1alpha2", namespaced=False, watched_by_scheduler=True
    )
    deployments: tuple[api.StoredWorkload, ...] = _declare_kind(
        api.StoredWorkload, *_OLD_WORKLOADS, _APPS, name="Deployment", read_for=ReadFor.CREATION
    )
    daemon_sets: tuple[api.StoredWorkload, ...] = _declare_kind(
        api.StoredWorkload, _IN_EXTENSIONS, _IN_BETA2, _APPS, name="DaemonSet", read_for=ReadFor.CREATION
    )
    jobs: tuple[api.StoredJob, ...] = _declare_kind(api.StoredJob, "batch/v1", name="Job", read_for=ReadFor.CREATION)
    horizontal_pod_autoscalers: tuple[api.StoredAutoscaler, ...] = _declare_kind(
        api.StoredAutoscaler,
        "autoscaling/v1",
        ApiVersion("autoscaling/v2beta1", 8, 22, 25, "autoscaling/v2"),
        ApiVersion("autoscaling/v2beta2", 12, 23, 26, "autoscaling/v2"),
        "autoscaling/v2",
        name="HorizontalPodAutoscaler",
        read_for=ReadFor.CREATION,
    )
    karpenter_node_pools: tuple[karpenter.NodePool, ...] = _declare_kind(
        karpenter.NodePool, *_KARPENTER, namespaced=False, read_for=ReadFor.CREATION
    )
    node_claims: tuple[karpenter.NodeClaim, ...] = _declare_kind(
        karpenter.NodeClaim, *_KARPENTER, namespaced=False, read_for=ReadFor.CREATION
    )
    node_overlays: tuple[karpenter.NodeOverlay, ...] = _declare_kind(
        karpenter.NodeOverlay, "karpenter.sh/v1alpha1", namespaced=False, read_for=ReadFor.CREATION
    )
    ec2_node_classes: tuple[NodeClass, ...] = _declare_node_class(
        "EC2NodeClass", "karpenter.k8s.aws/v1beta1", "karpenter.k8s.aws/v1"
    )
    aks_node_classes: tuple[NodeClass, ...] = _declare_node_class(
        "AKSNodeClass", "karpenter.azure.com/v1alpha2", "karpenter.azure.com/v1beta1"
    )
    gce_node_classes: tuple[NodeClass, ...] = _declare_node_class("GCENodeClass", "karpenter.k8s.gcp/v1alpha1")
    eks_node_classes: tuple[NodeClass, ...] = _declare_node_class(
        "EKSNodeClass", "eks.amazonaws.com/v1", kind="NodeClass"
    )
    machine_deployments: tuple[machine_api.MachineTemplateOwner, ...] = _declare_kind(
        machine_api.MachineTemplateOwner, *_MACHINES, name="MachineDeployment", read_for=ReadFor.CREATION
    )
    machine_sets: tuple[machine_api.MachineTemplateOwner, ...] = _declare_kind(
        machine_api.MachineTemplateOwner, *_MACHINES, name="MachineSet", read_for=ReadFor.CREATION
    )
    machine_pools: tuple[machine_api.MachinePool, ...] = _declare_kind(
        machine_api.MachinePool, *_MACHINES, read_for=ReadFor.CREATION
    )
    machines: tuple[machine_api.Machine, ...] = _declare_kind(
        machine_api.Machine, *_MACHINES, read_for=ReadFor.CREATION
    )
    openshift_machine_sets: tuple[machine_api.MachineTemplateOwner, ...] = _declare_kind(
        machine_api.MachineTemplateOwner,
        _OPENSHIFT,
        name="OpenShiftMachineSet",
        kind="MachineSet",
        read_for=ReadFor.CREATION,
    )
    openshift_machines: tuple[machine_api.Machine, ...] = _declare_kind(
        machine_api.Machine, _OPENSHIFT, name="OpenShiftMachine", kind="Machine", read_for=ReadFor.CREATION
    )
    kueue_workloads: tuple[queueing.KueueWorkload, ...] = _declare_queueing_kind(
        queueing.KueueWorkload, *_KUEUE, kind="Workload"
    )
    cluster_queues: tuple[queueing.ClusterQueue, ...] = _declare_queueing_kind(
        queueing.ClusterQueue, *_KUEUE, namespaced=False
    )
    local_queues: tuple[queueing.LocalQueue, ...] = _declare_queueing_kind(queueing.LocalQueue, *_KUEUE)
    cohorts: tuple[queueing.Cohort, ...] = _declare_queueing_kind(queueing.Cohort, *_KUEUE, namespaced=False)
    resource_flavors: tuple[queueing.ResourceFlavor, ...] = _declare_queueing_kind(
        queueing.ResourceFlavor, *_KUEUE, namespaced=False
    )
    workload_priority_classes: tuple[queueing.WorkloadPriorityClass, ...] = _declare_queueing_kind(
        queueing.WorkloadPriorityClass, *_KUEUE, namespaced=False
    )
    admission_checks: tuple[queueing.AdmissionCheck, ...] = _declare_queueing_kind(
        queueing.AdmissionCheck, *_KUEUE, namespaced=False
    )
    topologies: tuple[queueing.Topology, ...] = _declare_queueing_kind(queueing.Topology, *_KUEUE, namespaced=False)
    volcano_queues: tuple[queueing.VolcanoQueue, ...] = _declare_queueing_kind(
        queueing.VolcanoQueue, _VOLCANO, kind="Queue", namespaced=False
    )
    volcano_jobs: tuple[queueing.VolcanoJob, ...] = _declare_queueing_kind(
        queueing.VolcanoJob, "batch.volcano.sh/v1alpha1", kind="Job"
    )
    kafkas: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("Kafka", *_STRIMZI)
    kafka_node_pools: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "KafkaNodePool", *_STRIMZI
    )
    kafka_connects: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("KafkaConnect", *_STRIMZI)
    kafka_mirror_makers: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "KafkaMirrorMaker2", *_STRIMZI
    )
    kafka_bridges: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("KafkaBridge", *_STRIMZI)
    spark_applications: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "SparkApplication", "sparkoperator.k8s.io/v1beta2"
    )
    ray_clusters: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("RayCluster", *_RAY)
    ray_jobs: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("RayJob", *_RAY)
    ray_services: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("RayService", *_RAY)
    cloud_native_pg_clusters: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "CloudNativePGCluster", "postgresql.cnpg.io/v1", kind="Cluster"
    )
    zalando_postgresqls: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "postgresql", "acid.zalan.do/v1"
    )
    crunchy_postgres_clusters: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "PostgresCluster", "postgres-operator.crunchydata.com/v1beta1", "postgres-operator.crunchydata.com/v1"
    )
    elasticsearches: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "Elasticsearch", "elasticsearch.k8s.elastic.co/v1"
    )
    kibanas: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "Kibana", "kibana.k8s.elastic.co/v1"
    )
    rabbitmq_clusters: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "RabbitmqCluster", "rabbitmq.com/v1beta1"
    )
    cassandra_datacenters: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "CassandraDatacenter", "cassandra.datastax.com/v1beta1"
    )
    flink_deployments: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "FlinkDeployment", "flink.apache.org/v1beta1"
    )
    pytorch_jobs: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("PyTorchJob", _KUBEFLOW)
    tensorflow_jobs: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind("TFJob", _KUBEFLOW)
    mpi_jobs: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "MPIJob", _KUBEFLOW, "kubeflow.org/v2beta1"
    )
    train_jobs: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "TrainJob", "trainer.kubeflow.org/v1alpha1"
    )
    job_sets: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "JobSet", "jobset.x-k8s.io/v1alpha2"
    )
    leader_worker_sets: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"
    )
    argo_rollouts: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "Rollout", "argoproj.io/v1alpha1"
    )
    prometheuses: tuple[operator_resources.OperatorResource, ...] = _declare_operated_kind(
        "Prometheus", "monitoring.coreos.com/v1"
    )
    custom_resources: tuple[operator_resources.CustomResource, ...] = _declare_kind(
        operator_resources.CustomResource,
        FILES_API_VERSION,
        name=OTHER_CUSTOM_RESOURCE,
        kind="CustomResource",
        read_for=ReadFor.ELSEWHERE,
    )
    config_maps: tuple[api.ConfigMap, ...] = _declare_kind(
        api.ConfigMap, _CORE, read_for=ReadFor.CREATION, names=tuple(_CONFIG_MAP_HOMES)
    )
    resource_quotas: tuple[api.ResourceQuota, ...] = _declare_kind(api.ResourceQuota, _CORE, read_for=ReadFor.LIMITS)
    limit_ranges: tuple[api.LimitRange, ...] = _declare_kind(api.LimitRange, _CORE, read_for=ReadFor.LIMITS)
    service_accounts: tuple[api.ServiceAccount, ...] = _declare_kind(api.ServiceAccount, _CORE, read_for=ReadFor.LIMITS)
    mutating_webhooks: tuple[hooks.WebhookConfiguration, ...] = _declare_admission_hook("MutatingWebhookConfiguration")
    validating_webhooks: tuple[hooks.WebhookConfiguration, ...] = _declare_admission_hook(
        "ValidatingWebhookConfiguration"
    )
    mutating_policies: tuple[hooks.AdmissionPolicy, ...] = _declare_admission_hook("MutatingAdmissionPolicy")
    mutating_policy_bindings: tuple[hooks.PolicyBinding, ...] = _declare_admission_hook(
        "MutatingAdmissionPolicyBinding"
    )
    validating_policies: tuple[hooks.AdmissionPolicy, ...] = _declare_admission_hook("ValidatingAdmissionPolicy")
    validating_policy_bindings: tuple[hooks.PolicyBinding, ...] = _declare_admission_hook(
        "ValidatingAdmissionPolicyBinding"
    )
    events: tuple[api.Event, ...] = _declare_kind(api.Event, "events.k8s.io/v1", _CORE, read_for=ReadFor.HISTORY)
    leases: tuple[api.Lease, ...] = _declare_kind(
        api.Lease, "coordination.k8s.io/v1", read_for=ReadFor.HISTORY, home="kube-system"
    )


KINDS: Mapping[str, ApiKind] = {
    kind.name: kind for kind in (declared.metadata[_KIND]._replace(field=declared.name) for declared in fields(Objects))
}
"""All kinds that are read, by their names in kschedctl."""

LEASE = "Lease"
"""The kind that tells which scheduler leads."""

UNREAD_KINDS: Mapping[str, tuple[ApiVersion, ...]] = {
    "CronJob": (ApiVersion("batch/v1beta1", 8, 21, 25, "batch/v1"),),
    "VolumeAttributesClass": (
        ApiVersion("storage.k8s.io/v1alpha1", 29, 32, 35, _STORAGE),
        ApiVersion("storage.k8s.io/v1beta1", 31, 34, 37, _STORAGE),
        ApiVersion(_STORAGE, 34, gate="VolumeAttributesClass"),
    ),
    "ResourceClass": (ApiVersion("resource.k8s.io/v1alpha2", 27, None, 31),),
    "PodSchedulingContext": (
        ApiVersion("resource.k8s.io/v1alpha2", 27, None, 31),
        ApiVersion("resource.k8s.io/v1alpha3", 31, None, 32),
    ),
    "Workload": (
        ApiVersion(
            "scheduling.k8s.io/v1alpha1",
            35,
            deprecated=None,
            removed=36,
            replacement="scheduling.k8s.io/v1alpha2",
            gate=_GROUPS,
        ),
        *_POD_GROUPS,
    ),
    "KubeSchedulerConfiguration": SCHEDULER_CONFIGURATION_VERSIONS,
}
"""API versions with a limited lifetime of kinds that are not read, oldest first."""

LIFECYCLES: Mapping[tuple[str, str], ApiVersion] = {
    (version.name, kind): version
    for kind, versions in {**{kind.name: kind.lifecycle for kind in KINDS.values()}, **UNREAD_KINDS}.items()
    for version in versions
}
"""The lifecycle of each (apiVersion, kind)."""


def list_expiring_versions(kind: str) -> list[ApiVersion]:
    """Return the API versions of a kind that have a limited lifetime, oldest first."""
    return list(KINDS[kind].lifecycle if kind in KINDS else UNREAD_KINDS.get(kind, ()))


def find_first_minor(kind: str) -> int:
    """Return the first minor version that has the kind. All of its versions must have a limited lifetime."""
    return min(version.since for version in list_expiring_versions(kind))


def describe_lifecycle(api_version: str, kind: str) -> str:
    """Return ``was removed in 1.25`` or since when the version is deprecated, or "".

    >>> describe_lifecycle("policy/v1beta1", "PodDisruptionBudget")
    'was removed in 1.25'
    >>> describe_lifecycle("policy/v1", "PodDisruptionBudget")
    ''
    """
    version = LIFECYCLES.get((api_version, kind))
    return version.describe_lifecycle() if version else ""


_RENAMED = {(get_group(kind.versions[0]), kind.kind): kind.name for kind in KINDS.values() if kind.kind != kind.name}


def get_unique_kind_name(kind: str, api_version: str) -> str:
    """Return the kind's unique name, which does not depend on the version of its API group.

    >>> get_unique_kind_name("PodGroup", "scheduling.volcano.sh/v1beta1")
    'VolcanoPodGroup'
    >>> get_unique_kind_name("PodGroup", "scheduling.k8s.io/v1alpha2")
    'PodGroup'
    """
    return _RENAMED.get((get_group(api_version), kind), kind)


def get_kind(document: JsonObject) -> str:
    """Return the unique name of a document's kind, or "" if the document states none."""
    return get_unique_kind_name(str(document.get("kind", "")), str(document.get("apiVersion", "")))


def get_api_kind(name: str) -> str:
    """Return the name that a kind has in the API."""
    return KINDS[name].kind if name in KINDS else name


def is_read_name(kind: str, name: object) -> bool:
    """Return whether objects of the kind are read if they have this name."""
    read_names = KINDS[kind].names if kind in KINDS else frozenset()
    return not read_names or name in read_names


def get_home(kind: str, name: str = "") -> str:
    """Return the namespace to read objects of the kind in if listing all namespaces is forbidden, or "" for any.

    ``name`` is the only name that is read, or "" for all.
    """
    return _CONFIG_MAP_HOMES.get(name, "") if name else KINDS[kind].home


def is_operated(kind: str) -> bool:
    """Return whether the kind is a custom resource whose operator creates pods."""
    return kind in KINDS and issubclass(KINDS[kind].struct, operator_resources.OperatorResource)
