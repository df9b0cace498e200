"""Workload manifests, their pod templates, and the pods that their controllers would create.

Upstream: pkg/controller/{replicaset,statefulset,job,daemon,replication} and apps/v1, batch/v1 (v1.36). Names that
controllers choose at random get a number instead, so that an answer can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

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
    StoredWorkload,
    Struct,
    Toleration,
    Volume,
    WorkloadSpec,
)
from kschedctl.api.ownership import TEMPLATE_HASH, Owner
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated


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


class Replicated(Struct, frozen=True):
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
    "ReplicaSet": Replicated,
    "ReplicationController": ReplicationControllerManifest,
    "StatefulSet": StatefulSet,
    "DaemonSet": DaemonSet,
    "Job": Job,
    "CronJob": CronJob,
}
"""The kinds that make pods."""
_GROUPS = ("", "apps", "batch", "extensions")
HOOK = "helm.sh/hook"
_INSTALLED = frozenset({"pre-install", "post-install", "pre-upgrade", "post-upgrade"})

NEW = "new"
"""Stands for the hash of a Deployment's new template."""


def makes_pods(document: JsonObject) -> bool:
    """Whether it is of KINDS, and not what another vendor names so."""
    group = str(document.get("apiVersion") or "").rpartition("/")[0]
    return str(document.get("kind")) in KINDS and group in _GROUPS


def is_not_installed(document: JsonObject) -> bool:
    """Whether it is a hook of Helm that neither installing nor upgrading creates, as tests are."""
    metadata = document.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    hooks = annotations.get(HOOK) if isinstance(annotations, Mapping) else None
    return isinstance(hooks, str) and not _INSTALLED & {hook.strip() for hook in hooks.split(",")}


def decode(document: Mapping[str, object]) -> Struct:
    """One workload document, typed. Raises msgspec.ValidationError."""
    manifest: Struct = convert_builtins(document, KINDS[str(document["kind"])])
    return manifest


class Made(Struct, frozen=True):
    """What a controller makes of one workload: pods, in the order of their creation, and claims for volumes.

    ``owner`` is the kind and the object that the pods name as their controller, where scheduling reads that kind.
    """

    workload: str
    pods: tuple[Pod, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    owner: tuple[str, StoredWorkload | ReplicationController] | None = None


def identity(workload: Struct) -> Owner:
    """Kind, namespace and name; a name that would be generated ends in 0."""
    meta: ObjectMeta | PodMeta = workload.metadata  # type: ignore[attr-defined]
    kind = next(kind for kind, struct in KINDS.items() if isinstance(workload, struct))
    return Owner(kind, meta.namespace or DEFAULT_NAMESPACE, meta.name or f"{meta.generate_name}0")


def title(workload: Struct) -> str:
    """``Deployment shop/web``."""
    return str(identity(workload))


def number_of_pods(workload: Struct, nodes: int) -> int:
    """How many pods ``make`` makes at the most, in a cluster of so many nodes."""
    match workload:
        case DaemonSet():
            return nodes
        case Job():
            return _side_by_side(workload.spec)
        case CronJob():
            return _side_by_side(workload.spec.job_template.spec)
    return _count(getattr(workload.spec, "replicas", 1))  # type: ignore[attr-defined]


def make(workload: Struct, nodes: Sequence[Node]) -> Made:
    """The pods of a workload: replicas, or for a DaemonSet one for each node that it would run on."""
    kind, namespace, name = identity(workload)
    meta = workload.metadata  # type: ignore[attr-defined]
    workload = replace(workload, metadata=replace(meta, name=name, namespace=namespace))
    owner: tuple[str, StoredWorkload | ReplicationController] | None = None
    pods: tuple[Pod, ...] = ()
    claims: tuple[PersistentVolumeClaim, ...] = ()
    match workload:
        case Pod():
            pods = (workload,)
        case Deployment() | Replicated():
            made = _replica_set(workload) if isinstance(workload, Deployment) else workload
            pods = _replicas(made.spec.template, made.spec.replicas, made.metadata.name, namespace)
            owner = "ReplicaSet", StoredWorkload(made.metadata, made.spec)
        case ReplicationControllerManifest():
            pods = _replicas(workload.spec.template or PodTemplateSpec(), workload.spec.replicas, name, namespace, kind)
            owner = kind, ReplicationController(workload.metadata, workload.spec)
        case StatefulSet():
            pods, claims = _stateful(workload, namespace)
            spec = WorkloadSpec(workload.spec.replicas, workload.spec.selector, workload.spec.template)
            owner = kind, StoredWorkload(workload.metadata, spec)
        case DaemonSet():
            pods = tuple(_daemons(workload, namespace, nodes))
        case Job():
            pods = _job(workload.spec, name, namespace)
        case CronJob() if not workload.spec.suspend:
            pods = _job(workload.spec.job_template.spec, f"{name}-0", namespace)
    return Made(title(workload), pods, claims, owner)


def _replica_set(deployment: Deployment) -> Replicated:
    """What the controller makes of a Deployment: its pods and its selector get one label more."""
    spec, name, own = deployment.spec, deployment.metadata.name, {TEMPLATE_HASH: NEW}
    meta = replace(spec.template.metadata, labels={**spec.template.metadata.labels, **own})
    selector = spec.selector or LabelSelector()
    selector = replace(selector, match_labels={**selector.match_labels, **own})
    template = replace(spec.template, metadata=meta)
    owner = OwnerReference("Deployment", name, "apps/v1", controller=True)
    metadata = replace(deployment.metadata, name=f"{name}-{NEW}", owner_references=(owner,))
    return Replicated(metadata, WorkloadSpec(spec.replicas, selector, template))


def _count(replicas: int | None) -> int:
    return 1 if replicas is None else replicas


def _replicas(
    template: PodTemplateSpec, replicas: int | None, name: str, namespace: str, kind: str = "ReplicaSet"
) -> tuple[Pod, ...]:
    return tuple(_build_pod(template, f"{name}-{i}", namespace, kind, name) for i in range(_count(replicas)))


def _build_pod(template: PodTemplateSpec, name: str, namespace: str, kind: str, owner: str) -> Pod:
    """Build a pending pod from a template, owned by a workload."""
    version = {"Job": "batch/v1", "ReplicationController": "v1"}.get(kind, "apps/v1")
    owners = (OwnerReference(kind, owner, version, controller=True),)
    written = template.metadata
    meta = PodMeta(name, namespace, labels=written.labels, owner_references=owners, annotations=written.annotations)
    return Pod(meta, template.spec, PodStatus("Pending"))


def _stateful(workload: StatefulSet, namespace: str) -> tuple[tuple[Pod, ...], tuple[PersistentVolumeClaim, ...]]:
    """Ordinal names, the ordinal's labels, and a claim for each volume claim template."""
    spec, name = workload.spec, workload.metadata.name
    pods: list[Pod] = []
    claims: list[PersistentVolumeClaim] = []
    for ordinal in range(spec.ordinals.start, spec.ordinals.start + _count(spec.replicas)):
        own = f"{name}-{ordinal}"
        pod = _build_pod(spec.template, own, namespace, "StatefulSet", name)
        labels = {
            **pod.metadata.labels,
            "statefulset.kubernetes.io/pod-name": own,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        volumes = list(pod.spec.volumes)
        for template in spec.volume_claim_templates:
            claim = f"{template.metadata.name}-{own}"
            source = PersistentVolumeClaimVolumeSource(claim)
            volumes = [v for v in volumes if v.name != template.metadata.name]
            volumes.append(Volume(template.metadata.name, persistent_volume_claim=source))
            claims.append(replace(template, metadata=replace(template.metadata, name=claim, namespace=namespace)))
        pods.append(
            replace(pod, metadata=replace(pod.metadata, labels=labels), spec=replace(pod.spec, volumes=tuple(volumes)))
        )
    return tuple(pods), tuple(claims)


def _side_by_side(spec: JobSpec) -> int:
    parallelism = _count(spec.parallelism)
    return parallelism if spec.completions is None else min(parallelism, spec.completions)


def _job(spec: JobSpec, name: str, namespace: str) -> tuple[Pod, ...]:
    """As many pods as run side by side; a suspended job has none."""
    if spec.suspend:
        return ()
    pods = _replicas(spec.template, _side_by_side(spec), name, namespace, "Job")
    labelled = []
    for index, pod in enumerate(pods):
        labels = {**pod.metadata.labels, "job-name": name, "batch.kubernetes.io/job-name": name}
        if spec.completion_mode == "Indexed":
            labels["batch.kubernetes.io/job-completion-index"] = str(index)
        labelled.append(replace(pod, metadata=replace(pod.metadata, labels=labels)))
    return tuple(labelled)


def made_again(pod: Pod) -> Pod:
    """The pod that a controller makes in place of one that is gone: the same but for its node and its state.

    It keeps its name and UID, and with them the claims that were made for it.
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
"""What the DaemonSet controller adds to its pods; with host networking also network-unavailable."""


def _daemons(workload: DaemonSet, namespace: str, nodes: Sequence[Node]) -> Iterator[Pod]:
    """One pod for each node that matches its node selection and whose hard taints it tolerates, pinned by name."""
    spec = add_daemon_tolerations(workload.spec.template.spec)
    template = replace(workload.spec.template, spec=spec)
    required = compile_required_node_affinity(spec)
    for node in nodes:
        name = node.metadata.name
        wanted = spec.node_name in ("", name) and required.allows(node.metadata.labels, name)
        if wanted and find_untolerated(node.spec.taints, spec.tolerations, HARD_EFFECTS) is None:
            owner = workload.metadata.name
            pod = _build_pod(template, f"{owner}-{name}", namespace, "DaemonSet", owner)
            yield replace(pod, spec=replace(spec, affinity=pin_to_node(spec.affinity, name)))


def add_daemon_tolerations(spec: PodSpec) -> PodSpec:
    """Add the tolerations that the DaemonSet controller gives its pods."""
    added = _DAEMON_TOLERATIONS
    if spec.host_network:
        network = Toleration(key="node.kubernetes.io/network-unavailable", operator="Exists", effect="NoSchedule")
        added = (*added, network)
    return replace(spec, tolerations=(*spec.tolerations, *added))


def pin_to_node(affinity: Affinity | None, node: str) -> Affinity:
    """Return the affinity with its required node terms replaced by the node's name, as the DaemonSet controller
    does.
    """
    term = NodeSelectorTerm(match_fields=(SelectorRequirement("metadata.name", "In", (node,)),))
    pod_affinity = affinity or Affinity()
    node_affinity = pod_affinity.node_affinity or NodeAffinity()
    required = NodeSelector((term,))
    return replace(
        pod_affinity, node_affinity=replace(node_affinity, required_during_scheduling_ignored_during_execution=required)
    )


USUAL_TEMPLATE_PATH: tuple[str, ...] = ("spec", "template")
POD_TEMPLATE_PATHS: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    **dict.fromkeys(
        ("ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job"), USUAL_TEMPLATE_PATH
    ),
    "CronJob": ("spec", "jobTemplate", *USUAL_TEMPLATE_PATH),
}
"""Kind -> path of its pod template. A pod counts as its own template."""


def get_pod_template(workload: JsonObject) -> JsonObject:
    """Return the pod template of a document, the document itself if it is a pod, or {} if it has no template.

    >>> get_pod_template({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}})
    {'spec': {}}
    """
    return object_at(workload, *POD_TEMPLATE_PATHS.get(str(workload.get("kind")), USUAL_TEMPLATE_PATH))
