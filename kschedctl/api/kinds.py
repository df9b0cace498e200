"""The kinds of objects that are read, a line each: struct, versions of the API, scope, what they are read for.

What else depends on the kind follows from that: the fields of a Cluster, lists of a live server, files, snapshots.
Upstream: the versions that kube-scheduler's informers list (v1.36), with those of v1.37.0-beta.0;
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
from kschedctl.api.api_versions import OF_SCHEDULER_CONFIGURATION, ApiVersion, group_of, is_custom_api
from kschedctl.api.json_values import JsonObject
from kschedctl.api.node_classes import NodeClass
from kschedctl.api.pod_table import NO_PODS, PodTable


class ReadFor(Enum):
    """``CREATION``: which pods are wanted. ``ELSEWHERE``: what holds pods back before kube-scheduler sees them.
    ``LIMITS``: what the API server allows of these. ``HISTORY``: how scheduling went: no verdict leans on it, and it
    changes all the time."""

    SCHEDULING = "scheduling"
    CREATION = "creation"
    ELSEWHERE = "elsewhere"
    LIMITS = "limits"
    HISTORY = "history"


class ApiKind(NamedTuple):
    """``name``: what it is called here, where ``kind`` in the API may be that of another group.

    ``field``: of a Cluster. ``lifecycle``: the versions that come and go, oldest first. ``versions``: those that are
    read, the first the one to ask for. ``home``: the namespace where to look for those of the scheduler, where not all
    may be listed. ``heard``: whether the scheduler hears of their changes. ``only``: the names of those that are read,
    where others of the kind may hold anything.
    """

    name: str
    kind: str
    field: str
    struct: type[api.Struct]
    lifecycle: tuple[ApiVersion, ...]
    versions: tuple[str, ...]
    namespaced: bool
    read_for: ReadFor
    home: str
    heard: bool
    only: frozenset[str] = frozenset()

    @property
    def plural(self) -> str:
        """The resource: its name in paths and RBAC rules."""
        return plural(self.kind).lower()

    @property
    def event_resource(self) -> str:
        """The name under which plugins of the scheduler ask for its events."""
        group, _, version = self.versions[0].rpartition("/")
        if is_custom_api(self.versions[0]):
            return f"{self.plural}.{version}.{group}"
        return f"{group}/{self.kind}" if group else self.kind


def plural(kind: str) -> str:
    """The objects of a kind: StorageClasses, PodDisruptionBudgets.

    >>> plural("StorageClass"), plural("CSIStorageCapacity"), plural("Elasticsearch"), plural("Node")
    ('StorageClasses', 'CSIStorageCapacities', 'Elasticsearches', 'Nodes')
    """
    if kind.endswith("y") and kind[-2] not in "aeiou":
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith(("s", "ch")) else f"{kind}s"


_KIND = "kind"


def _read(
    struct: type[api.Struct],
    *versions: str | ApiVersion,
    name: str = "",
    kind: str = "",
    namespaced: bool = True,
    read_for: ReadFor = ReadFor.SCHEDULING,
    home: str = "",
    heard: bool = False,
    only: tuple[str, ...] = (),
) -> Any:
    """A field of Objects. ``versions``: oldest first; one that all releases serve, and go on serving, is its name."""
    name = name or struct.__name__
    lifecycle = tuple(version for version in versions if isinstance(version, ApiVersion))
    names = [v if isinstance(v, str) else v.name for v in reversed(versions) if isinstance(v, str) or v.is_read]
    of_all = (name, kind or name, "", struct, lifecycle, tuple(names), namespaced, read_for, home, heard)
    made = ApiKind(*of_all, frozenset(only))
    return field(default=NO_PODS if struct is api.Pod else (), metadata={_KIND: made})


def _node_class(name: str, *versions: str, kind: str = "") -> Any:
    return _read(NodeClass, *versions, name=name, kind=kind, namespaced=False, read_for=ReadFor.CREATION)


def _queueing(struct: type[api.Struct], *versions: str, name: str = "", kind: str = "", namespaced: bool = True) -> Any:
    return _read(struct, *versions, name=name, kind=kind, namespaced=namespaced, read_for=ReadFor.ELSEWHERE)


def _operated(name: str, *versions: str, kind: str = "") -> Any:
    """Declare a kind of custom resources whose operator creates pods."""
    return _read(operator_resources.OperatorResource, *versions, name=name, kind=kind, read_for=ReadFor.ELSEWHERE)


def _hook(kind: str) -> Any:
    struct, versions = hooks.KINDS[kind]
    return _read(struct, *versions, name=kind, namespaced=False, read_for=ReadFor.LIMITS)


STATUS_MAP, PRIORITY_MAP = "cluster-autoscaler-status", "cluster-autoscaler-priority-expander"
AUTOSCALER_MAPS = (STATUS_MAP, PRIORITY_MAP)
"""The names of the only ConfigMaps that are looked at: others may hold anything."""
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
    ApiVersion("resource.k8s.io/v1alpha3", 31, None, 34, _DEVICES, _DRA, same_fields=False),
    ApiVersion("resource.k8s.io/v1beta1", 32, 35, 38, _DEVICES, _DRA, same_fields=False),
    ApiVersion("resource.k8s.io/v1beta2", 33, 36, 39, _DEVICES, _DRA),
    ApiVersion(_DEVICES, 34, gate=_DRA),
)
_TAINT_RULES = (
    ApiVersion("resource.k8s.io/v1alpha3", 33, 36, 39, "resource.k8s.io/v1beta2", "DRADeviceTaints"),
    ApiVersion("resource.k8s.io/v1beta2", 36, 39, 42, _DEVICES, "DRADeviceTaintRules"),
    ApiVersion(_DEVICES, 37, gate="DRADeviceTaintRules"),
)
_GROUPS_ALPHA, _GROUPS_BETA = "scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"
_POD_GROUPS = (
    ApiVersion("scheduling.k8s.io/v1alpha2", 36, None, 37, _GROUPS_BETA, _GROUPS),
    ApiVersion(_GROUPS_ALPHA, 37, gate=_GROUPS),
    ApiVersion(_GROUPS_BETA, 37, 40, 43, gate=_GROUPS),
)


OTHER_CUSTOM_RESOURCE = "OtherCustomResource"
"""The name for custom resources of all kinds that have no line below; only files hold such."""
OF_FILES = "files.kschedctl.dev/v1"
"""The apiVersion that stands for theirs, which no API server serves."""


@dataclass(frozen=True, repr=False)
class Objects:
    """What is read of a cluster, by kind; a kind more is a line more."""

    pods: PodTable = _read(api.Pod, _CORE, heard=True)
    nodes: tuple[api.Node, ...] = _read(api.Node, _CORE, namespaced=False, heard=True)
    namespaces: tuple[api.Namespace, ...] = _read(api.Namespace, _CORE, namespaced=False)
    services: tuple[api.Service, ...] = _read(api.Service, _CORE)
    replication_controllers: tuple[api.ReplicationController, ...] = _read(api.ReplicationController, _CORE)
    replica_sets: tuple[api.StoredWorkload, ...] = _read(
        api.StoredWorkload, _IN_EXTENSIONS, _IN_BETA2, _APPS, name="ReplicaSet"
    )
    stateful_sets: tuple[api.StoredWorkload, ...] = _read(
        api.StoredWorkload, _IN_BETA1, _IN_BETA2, _APPS, name="StatefulSet"
    )
    pod_disruption_budgets: tuple[api.PodDisruptionBudget, ...] = _read(
        api.PodDisruptionBudget, ApiVersion("policy/v1beta1", 5, 21, 25, "policy/v1"), "policy/v1"
    )
    priority_classes: tuple[api.PriorityClass, ...] = _read(
        api.PriorityClass,
        ApiVersion("scheduling.k8s.io/v1beta1", 11, 14, 22, _PRIORITIES),
        _PRIORITIES,
        namespaced=False,
    )
    runtime_classes: tuple[api.RuntimeClass, ...] = _read(
        api.RuntimeClass,
        ApiVersion("node.k8s.io/v1beta1", 13, 22, 25, "node.k8s.io/v1"),
        "node.k8s.io/v1",
        namespaced=False,
    )
    persistent_volume_claims: tuple[api.PersistentVolumeClaim, ...] = _read(
        api.PersistentVolumeClaim, _CORE, heard=True
    )
    persistent_volumes: tuple[api.PersistentVolume, ...] = _read(
        api.PersistentVolume, _CORE, namespaced=False, heard=True
    )
    storage_classes: tuple[api.StorageClass, ...] = _read(
        api.StorageClass, _STORAGE_BETA, _STORAGE, namespaced=False, heard=True
    )
    csi_nodes: tuple[api.CSINode, ...] = _read(
        api.CSINode, _STORAGE_BETA._replace(deprecated=17), _STORAGE, namespaced=False, heard=True
    )
    csi_drivers: tuple[api.CSIDriver, ...] = _read(api.CSIDriver, _STORAGE_BETA, _STORAGE, namespaced=False, heard=True)
    csi_storage_capacities: tuple[api.CSIStorageCapacity, ...] = _read(
        api.CSIStorageCapacity,
        _ATTACHMENT_ALPHA._replace(since=19),
        ApiVersion("storage.k8s.io/v1beta1", 21, 24, 27, _STORAGE),
        _STORAGE,
        heard=True,
    )
    volume_attachments: tuple[api.VolumeAttachment, ...] = _read(
        api.VolumeAttachment, _ATTACHMENT_ALPHA, _STORAGE_BETA, _STORAGE, namespaced=False, heard=True
    )
    resource_claims: tuple[api.ResourceClaim, ...] = _read(api.ResourceClaim, _CLASSIC, *_DRA_VERSIONS, heard=True)
    resource_claim_templates: tuple[api.ResourceClaimTemplate, ...] = _read(
        api.ResourceClaimTemplate, _CLASSIC, *_DRA_VERSIONS
    )
    device_classes: tuple[api.DeviceClass, ...] = _read(api.DeviceClass, *_DRA_VERSIONS, namespaced=False, heard=True)
    resource_slices: tuple[api.ResourceSlice, ...] = _read(
        api.ResourceSlice, *_DRA_VERSIONS, namespaced=False, heard=True
    )
    device_taint_rules: tuple[api.DeviceTaintRule, ...] = _read(api.DeviceTaintRule, *_TAINT_RULES, namespaced=False)
    pod_groups: tuple[api.PodGroup, ...] = _read(api.PodGroup, *_POD_GROUPS, heard=True)
    composite_pod_groups: tuple[api.CompositePodGroup, ...] = _read(
        api.CompositePodGroup, ApiVersion(_GROUPS_ALPHA, 37, gate="CompositePodGroup"), heard=True
    )
    coscheduling_pod_groups: tuple[api.CoschedulingPodGroup, ...] = _read(
        api.CoschedulingPodGroup, _COSCHEDULING, kind="PodGroup", heard=True
    )
    volcano_pod_groups: tuple[api.VolcanoPodGroup, ...] = _read(api.VolcanoPodGroup, _VOLCANO, kind="PodGroup")
    elastic_quotas: tuple[api.ElasticQuota, ...] = _read(api.ElasticQuota, _COSCHEDULING, heard=True)
    node_resource_topologies: tuple[api.NodeResourceTopology, ...] = _read(
        api.NodeResourceTopology, "topology.node.k8s.io/v1alpha2", namespaced=False, heard=True
    )
    deployments: tuple[api.StoredWorkload, ...] = _read(
        api.StoredWorkload, *_OLD_WORKLOADS, _APPS, name="Deployment", read_for=ReadFor.CREATION
    )
    daemon_sets: tuple[api.StoredWorkload, ...] = _read(
        api.StoredWorkload, _IN_EXTENSIONS, _IN_BETA2, _APPS, name="DaemonSet", read_for=ReadFor.CREATION
    )
    jobs: tuple[api.StoredJob, ...] = _read(api.StoredJob, "batch/v1", name="Job", read_for=ReadFor.CREATION)
    horizontal_pod_autoscalers: tuple[api.StoredAutoscaler, ...] = _read(
        api.StoredAutoscaler,
        "autoscaling/v1",
        ApiVersion("autoscaling/v2beta1", 8, 22, 25, "autoscaling/v2"),
        ApiVersion("autoscaling/v2beta2", 12, 23, 26, "autoscaling/v2"),
        "autoscaling/v2",
        name="HorizontalPodAutoscaler",
        read_for=ReadFor.CREATION,
    )
    karpenter_node_pools: tuple[karpenter.NodePool, ...] = _read(
        karpenter.NodePool, *_KARPENTER, namespaced=False, read_for=ReadFor.CREATION
    )
    node_claims: tuple[karpenter.NodeClaim, ...] = _read(
        karpenter.NodeClaim, *_KARPENTER, namespaced=False, read_for=ReadFor.CREATION
    )
    node_overlays: tuple[karpenter.NodeOverlay, ...] = _read(
        karpenter.NodeOverlay, "karpenter.sh/v1alpha1", namespaced=False, read_for=ReadFor.CREATION
    )
    ec2_node_classes: tuple[NodeClass, ...] = _node_class(
        "EC2NodeClass", "karpenter.k8s.aws/v1beta1", "karpenter.k8s.aws/v1"
    )
    aks_node_classes: tuple[NodeClass, ...] = _node_class(
        "AKSNodeClass", "karpenter.azure.com/v1alpha2", "karpenter.azure.com/v1beta1"
    )
    gce_node_classes: tuple[NodeClass, ...] = _node_class("GCENodeClass", "karpenter.k8s.gcp/v1alpha1")
    eks_node_classes: tuple[NodeClass, ...] = _node_class("EKSNodeClass", "eks.amazonaws.com/v1", kind="NodeClass")
    machine_deployments: tuple[machine_api.MachineTemplateOwner, ...] = _read(
        machine_api.MachineTemplateOwner, *_MACHINES, name="MachineDeployment", read_for=ReadFor.CREATION
    )
    machine_sets: tuple[machine_api.MachineTemplateOwner, ...] = _read(
        machine_api.MachineTemplateOwner, *_MACHINES, name="MachineSet", read_for=ReadFor.CREATION
    )
    machine_pools: tuple[machine_api.MachinePool, ...] = _read(
        machine_api.MachinePool, *_MACHINES, read_for=ReadFor.CREATION
    )
    machines: tuple[machine_api.Machine, ...] = _read(machine_api.Machine, *_MACHINES, read_for=ReadFor.CREATION)
    openshift_machine_sets: tuple[machine_api.MachineTemplateOwner, ...] = _read(
        machine_api.MachineTemplateOwner,
        _OPENSHIFT,
        name="OpenShiftMachineSet",
        kind="MachineSet",
        read_for=ReadFor.CREATION,
    )
    openshift_machines: tuple[machine_api.Machine, ...] = _read(
        machine_api.Machine, _OPENSHIFT, name="OpenShiftMachine", kind="Machine", read_for=ReadFor.CREATION
    )
    kueue_workloads: tuple[queueing.KueueWorkload, ...] = _queueing(queueing.KueueWorkload, *_KUEUE, kind="Workload")
    cluster_queues: tuple[queueing.ClusterQueue, ...] = _queueing(queueing.ClusterQueue, *_KUEUE, namespaced=False)
    local_queues: tuple[queueing.LocalQueue, ...] = _queueing(queueing.LocalQueue, *_KUEUE)
    volcano_queues: tuple[queueing.VolcanoQueue, ...] = _queueing(
        queueing.VolcanoQueue, _VOLCANO, kind="Queue", namespaced=False
    )
    volcano_jobs: tuple[queueing.VolcanoJob, ...] = _queueing(
        queueing.VolcanoJob, "batch.volcano.sh/v1alpha1", kind="Job"
    )
    kafkas: tuple[operator_resources.OperatorResource, ...] = _operated("Kafka", *_STRIMZI)
    kafka_node_pools: tuple[operator_resources.OperatorResource, ...] = _operated("KafkaNodePool", *_STRIMZI)
    kafka_connects: tuple[operator_resources.OperatorResource, ...] = _operated("KafkaConnect", *_STRIMZI)
    kafka_mirror_makers: tuple[operator_resources.OperatorResource, ...] = _operated("KafkaMirrorMaker2", *_STRIMZI)
    kafka_bridges: tuple[operator_resources.OperatorResource, ...] = _operated("KafkaBridge", *_STRIMZI)
    spark_applications: tuple[operator_resources.OperatorResource, ...] = _operated(
        "SparkApplication", "sparkoperator.k8s.io/v1beta2"
    )
    ray_clusters: tuple[operator_resources.OperatorResource, ...] = _operated("RayCluster", *_RAY)
    ray_jobs: tuple[operator_resources.OperatorResource, ...] = _operated("RayJob", *_RAY)
    ray_services: tuple[operator_resources.OperatorResource, ...] = _operated("RayService", *_RAY)
    cloud_native_pg_clusters: tuple[operator_resources.OperatorResource, ...] = _operated(
        "CloudNativePGCluster", "postgresql.cnpg.io/v1", kind="Cluster"
    )
    zalando_postgresqls: tuple[operator_resources.OperatorResource, ...] = _operated("postgresql", "acid.zalan.do/v1")
    crunchy_postgres_clusters: tuple[operator_resources.OperatorResource, ...] = _operated(
        "PostgresCluster", "postgres-operator.crunchydata.com/v1beta1", "postgres-operator.crunchydata.com/v1"
    )
    elasticsearches: tuple[operator_resources.OperatorResource, ...] = _operated(
        "Elasticsearch", "elasticsearch.k8s.elastic.co/v1"
    )
    kibanas: tuple[operator_resources.OperatorResource, ...] = _operated("Kibana", "kibana.k8s.elastic.co/v1")
    rabbitmq_clusters: tuple[operator_resources.OperatorResource, ...] = _operated(
        "RabbitmqCluster", "rabbitmq.com/v1beta1"
    )
    cassandra_datacenters: tuple[operator_resources.OperatorResource, ...] = _operated(
        "CassandraDatacenter", "cassandra.datastax.com/v1beta1"
    )
    flink_deployments: tuple[operator_resources.OperatorResource, ...] = _operated(
        "FlinkDeployment", "flink.apache.org/v1beta1"
    )
    pytorch_jobs: tuple[operator_resources.OperatorResource, ...] = _operated("PyTorchJob", _KUBEFLOW)
    tensorflow_jobs: tuple[operator_resources.OperatorResource, ...] = _operated("TFJob", _KUBEFLOW)
    mpi_jobs: tuple[operator_resources.OperatorResource, ...] = _operated("MPIJob", _KUBEFLOW, "kubeflow.org/v2beta1")
    train_jobs: tuple[operator_resources.OperatorResource, ...] = _operated("TrainJob", "trainer.kubeflow.org/v1alpha1")
    job_sets: tuple[operator_resources.OperatorResource, ...] = _operated("JobSet", "jobset.x-k8s.io/v1alpha2")
    leader_worker_sets: tuple[operator_resources.OperatorResource, ...] = _operated(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1"
    )
    argo_rollouts: tuple[operator_resources.OperatorResource, ...] = _operated("Rollout", "argoproj.io/v1alpha1")
    prometheuses: tuple[operator_resources.OperatorResource, ...] = _operated("Prometheus", "monitoring.coreos.com/v1")
    custom_resources: tuple[operator_resources.CustomResource, ...] = _read(
        operator_resources.CustomResource,
        OF_FILES,
        name=OTHER_CUSTOM_RESOURCE,
        kind="CustomResource",
        read_for=ReadFor.ELSEWHERE,
    )
    config_maps: tuple[api.ConfigMap, ...] = _read(
        api.ConfigMap, _CORE, read_for=ReadFor.CREATION, home="kube-system", only=AUTOSCALER_MAPS
    )
    resource_quotas: tuple[api.ResourceQuota, ...] = _read(api.ResourceQuota, _CORE, read_for=ReadFor.LIMITS)
    limit_ranges: tuple[api.LimitRange, ...] = _read(api.LimitRange, _CORE, read_for=ReadFor.LIMITS)
    service_accounts: tuple[api.ServiceAccount, ...] = _read(api.ServiceAccount, _CORE, read_for=ReadFor.LIMITS)
    mutating_webhooks: tuple[hooks.WebhookConfiguration, ...] = _hook("MutatingWebhookConfiguration")
    validating_webhooks: tuple[hooks.WebhookConfiguration, ...] = _hook("ValidatingWebhookConfiguration")
    mutating_policies: tuple[hooks.AdmissionPolicy, ...] = _hook("MutatingAdmissionPolicy")
    mutating_policy_bindings: tuple[hooks.PolicyBinding, ...] = _hook("MutatingAdmissionPolicyBinding")
    validating_policies: tuple[hooks.AdmissionPolicy, ...] = _hook("ValidatingAdmissionPolicy")
    validating_policy_bindings: tuple[hooks.PolicyBinding, ...] = _hook("ValidatingAdmissionPolicyBinding")
    events: tuple[api.Event, ...] = _read(api.Event, "events.k8s.io/v1", _CORE, read_for=ReadFor.HISTORY)
    leases: tuple[api.Lease, ...] = _read(
        api.Lease, "coordination.k8s.io/v1", read_for=ReadFor.HISTORY, home="kube-system"
    )


KINDS: Mapping[str, ApiKind] = {
    made.name: made for made in (each.metadata[_KIND]._replace(field=each.name) for each in fields(Objects))
}
"""All that are read, by what they are called here."""

LEASE = "Lease"
"""Read for who leads among schedulers."""

OTHERS: Mapping[str, tuple[ApiVersion, ...]] = {
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
        ApiVersion("scheduling.k8s.io/v1alpha1", 35, None, 36, "scheduling.k8s.io/v1alpha2", _GROUPS),
        *_POD_GROUPS,
    ),
    "KubeSchedulerConfiguration": OF_SCHEDULER_CONFIGURATION,
}
"""The versions that come and go of kinds that are not read, oldest first."""

BY_KIND: Mapping[tuple[str, str], ApiVersion] = {
    (version.name, kind): version
    for kind, versions in {**{kind.name: kind.lifecycle for kind in KINDS.values()}, **OTHERS}.items()
    for version in versions
}
"""(apiVersion, kind) -> what is known of it."""


def versions_of(kind: str) -> list[ApiVersion]:
    """The API versions of a kind that come and go, oldest first."""
    return list(KINDS[kind].lifecycle if kind in KINDS else OTHERS.get(kind, ()))


def first_minor(kind: str) -> int:
    """The first minor version that has a kind at all, of those whose every version comes and goes."""
    return min(version.since for version in versions_of(kind))


def fate(api_version: str, kind: str) -> str:
    """``was removed in 1.25``, or since when it is deprecated, in the newest version; "" where neither is so.

    >>> fate("policy/v1beta1", "PodDisruptionBudget"), fate("policy/v1", "PodDisruptionBudget")
    ('was removed in 1.25', '')
    """
    known = BY_KIND.get((api_version, kind))
    return known.describe_lifecycle() if known else ""


_RENAMED = {(group_of(kind.versions[0]), kind.kind): kind.name for kind in KINDS.values() if kind.kind != kind.name}


def known_as(kind: str, api_version: str) -> str:
    """What a kind is called here, in whichever version of its group.

    >>> known_as("PodGroup", "scheduling.volcano.sh/v1beta1"), known_as("PodGroup", "scheduling.k8s.io/v1alpha2")
    ('VolcanoPodGroup', 'PodGroup')
    """
    return _RENAMED.get((group_of(api_version), kind), kind)


def kind_of(document: JsonObject) -> str:
    """The kind of a document, as it is called here; empty for one that names none."""
    return known_as(str(document.get("kind", "")), str(document.get("apiVersion", "")))


def kind_in_api(known: str) -> str:
    """What a kind is called in the API."""
    return KINDS[known].kind if known in KINDS else known


def is_named(kind: str, name: object) -> bool:
    """Whether an object of this name is among those of its kind that are read."""
    only = KINDS[kind].only if kind in KINDS else frozenset()
    return not only or name in only


def is_operated(kind: str) -> bool:
    """Return whether the kind is one of custom resources whose operators create pods."""
    return kind in KINDS and issubclass(KINDS[kind].struct, operator_resources.OperatorResource)
