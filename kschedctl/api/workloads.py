"""Workload manifests, their pod templates, and the pods that their controllers would create.

Upstream: pkg/controller/{replicaset,statefulset,job,daemon,replication} and apps/v1, batch/v1 (v1.36). Names that
controllers choose at random get a number instead, so that an answer can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import (
    Affinity,
    LabelSelector,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    ReplicationController,
    ReplicationControllerSpec,
    SelectorRequirement,
    StatefulSetOrdinals,
    StoredAutoscaler,
    StoredWorkload,
    Struct,
    Toleration,
    Volume,
    WorkloadSpec,
)
from kschedctl.api.ownership import TEMPLATE_HASH, Owner
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint


class RollingUpdate(Struct, frozen=True):
    max_surge: int | str | None = None
    max_unavailable: int | str | None = None
    partition: int = 0


class UpdateStrategy(Struct, frozen=True):
    type: str = ""
    rolling_update: RollingUpdate = RollingUpdate()


class StatefulSetSpec(Struct, frozen=True):
    replicas: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()
    selector: LabelSelector | None = None
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()


class StatefulSet(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()


class DeploymentSpec(Struct, frozen=True):
    replicas: int | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: UpdateStrategy = UpdateStrategy()
    selector: LabelSelector | None = None
    paused: bool = False


class Deployment(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()


class ReplicaSetManifest(Struct, frozen=True):
    """A ReplicaSet."""

    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class DaemonSetSpec(Struct, frozen=True):
    template: PodTemplateSpec = PodTemplateSpec()
    update_strategy: UpdateStrategy = UpdateStrategy()


class DaemonSet(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()


class ReplicationControllerManifest(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class JobSpec(Struct, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class Job(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class JobTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class CronJobSpec(Struct, frozen=True):
    suspend: bool | None = None
    job_template: JobTemplateSpec = JobTemplateSpec()


class CronJob(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()


KINDS: dict[str, type[Struct]] = {
    "Pod": Pod,
    "Deployment": Deployment,
    "ReplicaSet": ReplicaSetManifest,
    "ReplicationController": ReplicationControllerManifest,
    "StatefulSet": StatefulSet,
    "DaemonSet": DaemonSet,
    "Job": Job,
    "CronJob": CronJob,
}
"""The structs of the kinds whose objects are pods or create pods."""
_GROUPS = ("", "apps", "batch", "extensions")
HOOK = "helm.sh/hook"
_INSTALLED = frozenset({"pre-install", "post-install", "pre-upgrade", "post-upgrade"})

NEW_TEMPLATE_HASH = "new"
"""A placeholder for the hash of a Deployment's new template."""


def is_workload_manifest(document: JsonObject) -> bool:
    """Return whether the document is of one of KINDS, in an API group of Kubernetes."""
    group = str(document.get("apiVersion") or "").rpartition("/")[0]
    return str(document.get("kind")) in KINDS and group in _GROUPS


def is_non_install_hook(document: JsonObject) -> bool:
    """Return whether the document is a Helm hook that runs on neither install nor upgrade, such as a test."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    hooks = annotations.get(HOOK) if isinstance(annotations, Mapping) else None
    return isinstance(hooks, str) and not _INSTALLED & {hook.strip() for hook in hooks.split(",")}


def decode_workload(document: Mapping[str, object]) -> Struct:
    """Decode a workload document into the struct of its kind. Raises msgspec.ValidationError."""
    manifest: Struct = convert_builtins(document, KINDS[str(document["kind"])])
    return manifest


class CreatedPods(Struct, frozen=True):
    """The pods and claims that a controller creates for one workload."""

    workload: str
    """The kind, namespace and name of the workload."""
    pods: tuple[Pod, ...] = ()
    """The pods in the order of their creation."""
    claims: tuple[PersistentVolumeClaim, ...] = ()
    """The claims for the pods' volumes."""
    owner: tuple[str, StoredWorkload | ReplicationController] | None = None
    """The kind of the pods' controller and the controller itself, if scheduling reads objects of that kind."""


def get_identity(workload: Struct) -> Owner:
    """Return kind, namespace and name of a workload. A generated name ends in 0."""
    meta: ObjectMeta | PodMeta = workload.metadata  # type: ignore[attr-defined]
    kind = next(kind for kind, struct in KINDS.items() if isinstance(workload, struct))
    return Owner(kind, meta.namespace or DEFAULT_NAMESPACE, meta.name or f"{meta.generate_name}0")


def format_title(workload: Struct) -> str:
    """Return the workload as ``Deployment shop/web``."""
    return str(get_identity(workload))


def count_pods(workload: Struct, nodes: int) -> int:
    """Return the maximum number of pods that ``create_pods`` creates in a cluster with this number of nodes."""
    match workload:
        case DaemonSet():
            return nodes
        case Job():
            return _count_parallel_pods(workload.spec)
        case CronJob():
            return _count_parallel_pods(workload.spec.job_template.spec)
    replicas = getattr(workload.spec, "replicas", 1)  # type: ignore[attr-defined]  # a Pod has no replicas
    return _default_replicas(replicas)


def create_pods(workload: Struct, nodes: Sequence[Node]) -> CreatedPods:
    """Create the pods of a workload: its replicas, or one pod on each eligible node for a DaemonSet.

    A suspended Job or CronJob has no pods. A Pod is returned as the only pod. A StatefulSet also gets its claims.
    """
    kind, namespace, name = get_identity(workload)
    meta = workload.metadata  # type: ignore[attr-defined]
    workload = replace(workload, metadata=replace(meta, name=name, namespace=namespace))
    owner: tuple[str, StoredWorkload | ReplicationController] | None = None
    pods: tuple[Pod, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    match workload:
        case Pod():
            pods = (workload,)
        case Deployment() | ReplicaSetManifest():
            replica_set = _build_replica_set(workload) if isinstance(workload, Deployment) else workload
            spec = replica_set.spec
            pods = _build_replica_pods(spec.template, spec.replicas, replica_set.metadata.name, namespace)
            owner = "ReplicaSet", StoredWorkload(replica_set.metadata, spec)
        case ReplicationControllerManifest():
            template = workload.spec.template or PodTemplateSpec()
            pods = _build_replica_pods(template, workload.spec.replicas, name, namespace, kind=kind)
            owner = kind, ReplicationController(workload.metadata, workload.spec)
        case StatefulSet():
            pods, claims = _build_stateful_pods(workload, namespace)
            spec = WorkloadSpec(workload.spec.replicas, workload.spec.selector, workload.spec.template)
            owner = kind, StoredWorkload(workload.metadata, spec)
        case DaemonSet():
            pods = tuple(_iter_daemon_pods(workload, namespace, nodes))
        case Job():
            pods = _build_job_pods(workload.spec, name, namespace)
        case CronJob() if not workload.spec.suspend:
            pods = _build_job_pods(workload.spec.job_template.spec, f"{name}-0", namespace)
        case _:
            pass  # a suspended CronJob has no pods
    return CreatedPods(format_title(workload), pods, claims, owner)


def _build_replica_set(deployment: Deployment) -> ReplicaSetManifest:
    """Build the ReplicaSet that the Deployment controller creates.

    The hash of the pod template is added to its name, its selector and the labels of its pods.
    """
    spec = deployment.spec
    name = deployment.metadata.name
    hash_label = {TEMPLATE_HASH: NEW_TEMPLATE_HASH}
    meta = replace(spec.template.metadata, labels={**spec.template.metadata.labels, **hash_label})
    selector = spec.selector or LabelSelector()
    selector = replace(selector, match_labels={**selector.match_labels, **hash_label})
    template = replace(spec.template, metadata=meta)
    owner = OwnerReference("Deployment", name, "apps/v1", controller=True)
    metadata = replace(deployment.metadata, name=f"{name}-{NEW_TEMPLATE_HASH}", owner_references=(owner,))
    return ReplicaSetManifest(metadata, WorkloadSpec(spec.replicas, selector, template))


def with_replicas(workload: Struct, replicas: int) -> Struct:
    """Return the workload with this number of replicas, or the workload itself if its kind has none.

    For a Job, the number is its parallelism, and its completions are unset. A Job or CronJob is no longer suspended.
    """
    spec = workload.spec  # type: ignore[attr-defined]
    fields = {"replicas": replicas, "parallelism": replicas, "completions": None, "suspend": False}
    # Each kind has only some of these fields, and DaemonSets and pods have none
    existing_fields = {name: value for name, value in fields.items() if name in spec.__struct_fields__}
    return replace(workload, spec=replace(spec, **existing_fields)) if existing_fields else workload


def _default_replicas(replicas: int | None) -> int:
    """Return the number of replicas, by default 1."""
    return 1 if replicas is None else replicas


def _build_replica_pods(
    template: PodTemplateSpec, replicas: int | None, name: str, namespace: str, kind: str = "ReplicaSet"
) -> tuple[Pod, ...]:
    """Build one pod per replica from a template, owned by the workload with this name and kind.

    The pods are named after the workload and numbered.
    """
    return tuple(
        _build_owned_pod(template, f"{name}-{index}", namespace, kind=kind, owner=name)
        for index in range(_default_replicas(replicas))
    )


def _build_owned_pod(template: PodTemplateSpec, name: str, namespace: str, *, kind: str, owner: str) -> Pod:
    """Build a pending pod from a template, owned by the workload of this kind and name."""
    version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    owners = (OwnerReference(kind, owner, version, controller=True),)
    template_meta = template.metadata
    meta = PodMeta(
        name, namespace, labels=template_meta.labels, owner_references=owners, annotations=template_meta.annotations
    )
    return Pod(meta, template.spec, PodStatus("Pending"))


def _build_stateful_pods(
    workload: StatefulSet, namespace: str
) -> tuple[tuple[Pod, ...], tuple[PersistentVolumeClaim, ...]]:
    """Build the pods of a StatefulSet, and for each pod a claim per volume claim template.

    The pods get labels with their name and index. The volume of a claim replaces the pod's volume of the same name.
    """
    spec = workload.spec
    name = workload.metadata.name
    ordinals = range(spec.ordinals.start, spec.ordinals.start + _default_replicas(spec.replicas))
    pods = tuple(_build_stateful_pod(spec, name, ordinal, namespace) for ordinal in ordinals)
    claims = tuple(_build_stateful_claim(template, pod) for pod in pods for template in spec.volume_claim_templates)
    return pods, claims


def _build_stateful_claim(template: PersistentVolumeClaim, pod: Pod) -> PersistentVolumeClaim:
    """Build the claim that a StatefulSet's pod gets from the claim template."""
    meta = template.metadata
    claim_name = f"{meta.name}-{pod.metadata.name}"
    return replace(template, metadata=replace(meta, name=claim_name, namespace=pod.metadata.namespace))


def _build_stateful_pod(spec: StatefulSetSpec, owner: str, ordinal: int, namespace: str) -> Pod:
    """Build the pod with this ordinal of the StatefulSet with the name `owner`."""
    name = f"{owner}-{ordinal}"
    pod = _build_owned_pod(spec.template, name, namespace, kind="StatefulSet", owner=owner)
    labels = {
        **pod.metadata.labels,
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
    }
    volumes = list(pod.spec.volumes)
    for template in spec.volume_claim_templates:
        volume_name = template.metadata.name
        source = PersistentVolumeClaimVolumeSource(f"{volume_name}-{name}")
        volumes = [volume for volume in volumes if volume.name != volume_name]
        volumes.append(Volume(volume_name, persistent_volume_claim=source))
    return replace(pod, metadata=replace(pod.metadata, labels=labels), spec=replace(pod.spec, volumes=tuple(volumes)))


def _count_parallel_pods(spec: JobSpec) -> int:
    """Return how many pods of a Job run at the same time."""
    parallelism = _default_replicas(spec.parallelism)
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def _build_job_pods(spec: JobSpec, name: str, namespace: str) -> tuple[Pod, ...]:
    """Build the pods of a Job that run at the same time. A suspended Job has no pods.

    The pods get the labels with the Job's name and, if the Job is indexed, with their index.
    """
    if spec.suspend:
        return ()
    pods = _build_replica_pods(spec.template, _count_parallel_pods(spec), name, namespace, kind="Job")
    labelled_pods = []
    for index, pod in enumerate(pods):
        labels = {**pod.metadata.labels, "job-name": name, "batch.kubernetes.io/job-name": name}
        if spec.completion_mode == "Indexed":
            labels["batch.kubernetes.io/job-completion-index"] = str(index)
        labelled_pods.append(replace(pod, metadata=replace(pod.metadata, labels=labels)))
    return tuple(labelled_pods)


def build_pending_pod(pod: Pod) -> Pod:
    """Return the pod as it would be before it got a node, without the status of its containers.

    The new pod keeps the name and UID of the pod, and thereby its claims.
    """
    status = PodStatus("Pending", resource_claim_statuses=pod.status.resource_claim_statuses)
    meta = replace(pod.metadata, deletion_timestamp=None)
    return replace(pod, metadata=meta, spec=replace(pod.spec, node_name=""), status=status)


# -- DaemonSets ---------------------------------------------------------------------------------------------------

_DAEMON_TOLERATIONS = tuple(
    Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=effect)
    for name, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""The tolerations that the DaemonSet controller adds to its pods, except the one for host networking."""


def _iter_daemon_pods(workload: DaemonSet, namespace: str, nodes: Sequence[Node]) -> Iterator[Pod]:
    """Yield a DaemonSet's pod for each eligible node, with a node affinity to this node.

    A node is eligible if the DaemonSet selects it and tolerates its hard taints.
    """
    spec = add_daemon_tolerations(workload.spec.template.spec)
    template = replace(workload.spec.template, spec=spec)
    required = compile_required_node_affinity(spec)
    for node in nodes:
        name = node.metadata.name
        is_selected = spec.node_name in ("", name) and required.allows(node.metadata.labels, name)
        if is_selected and find_untolerated_taint(node.spec.taints, spec.tolerations, HARD_EFFECTS) is None:
            owner = workload.metadata.name
            pod = _build_owned_pod(template, f"{owner}-{name}", namespace, kind="DaemonSet", owner=owner)
            yield replace(pod, spec=replace(spec, affinity=pin_to_node(spec.affinity, name)))


def add_daemon_tolerations(spec: PodSpec) -> PodSpec:
    """Return the spec with the tolerations that the DaemonSet controller gives its pods."""
    added_tolerations = _DAEMON_TOLERATIONS
    if spec.host_network:
        network = Toleration(key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule")
        added_tolerations = (*added_tolerations, network)
    return replace(spec, tolerations=(*spec.tolerations, *added_tolerations))


def pin_to_node(affinity: Affinity | None, node: str) -> Affinity:
    """Return the affinity with the node's name as its only required node affinity term.

    The DaemonSet controller pins its pods in this way.
    """
    affinity = affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    term = NodeSelectorTerm(match_fields=(SelectorRequirement("metadata.name", "In", (node,)),))
    node_affinity = replace(node_affinity, required_during_scheduling_ignored_during_execution=NodeSelector((term,)))
    return replace(affinity, node_affinity=node_affinity)


SCALED_KINDS = frozenset({"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"})
"""Kinds of workloads that have a number of replicas, which HorizontalPodAutoscalers may change."""


def scales_workload(autoscaler: StoredAutoscaler, owner: Owner) -> bool:
    """Return whether the HorizontalPodAutoscaler sets the replicas of the workload, which is in its namespace."""
    target = autoscaler.spec.scale_target_ref
    return (target.kind, target.name) == (owner.kind, owner.name)


USUAL_TEMPLATE_PATH: tuple[str, ...] = ("spec", "template")
"""The path of the pod template in most kinds of workloads."""
JOB_TEMPLATE_PATH: tuple[str, ...] = ("spec", "jobTemplate")
"""The path of a CronJob's Job template."""
POD_TEMPLATE_PATHS: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    **dict.fromkeys(
        ("ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job"), USUAL_TEMPLATE_PATH
    ),
    "CronJob": (*JOB_TEMPLATE_PATH, *USUAL_TEMPLATE_PATH),
}
"""Kind -> path of its pod template. A pod counts as its own template."""


def get_pod_template(workload: JsonObject) -> JsonObject:
    """Return the pod template of a document, or {} if it has none. The template of a pod is the pod itself.

    >>> get_pod_template({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}})
    {'spec': {}}
    """
    return object_at(workload, *POD_TEMPLATE_PATHS.get(str(workload.get("kind")), USUAL_TEMPLATE_PATH))


def find_template(workload: Any) -> PodTemplateSpec | None:
    """Return the pod template of a workload struct, or None if it has none. A CronJob's is in its Job template."""
    spec = workload.spec.job_template.spec if isinstance(workload, CronJob) else workload.spec
    return getattr(spec, "template", None)


def get_template_spec(workload: Any) -> PodSpec:
    """Return the pod spec in the template of a workload struct, or an empty one if the workload has no template."""
    return (find_template(workload) or PodTemplateSpec()).spec


def replace_template_spec(workload: Any, pod_spec: PodSpec) -> Struct:
    """Return the workload struct with `pod_spec` in its pod template."""
    template = replace(find_template(workload) or PodTemplateSpec(), spec=pod_spec)
    if isinstance(workload, CronJob):
        job = workload.spec.job_template
        job_template = replace(job, spec=replace(job.spec, template=template))
        return replace(workload, spec=replace(workload.spec, job_template=job_template))
    changed: Struct = replace(workload, spec=replace(workload.spec, template=template))
    return changed
