"""The plan for the pods of an applied workload: which pods stay, which are removed, and which are created.

Upstream: pkg/controller/{replicaset,statefulset,daemon}, pkg/controller/deployment/util (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kschedctl.api.defaults import apply_pod_defaults
from kschedctl.api.objects import Pod, PodMeta, PodTemplateSpec, StoredWorkload, Struct
from kschedctl.api.ownership import (
    ADDED_LABELS,
    COPIED_FROM_NODES,
    REVISION,
    TEMPLATE_HASH,
    Owner,
    find_controller,
    find_owner,
)
from kschedctl.api.pod_requests import Options
from kschedctl.api.workloads import (
    NEW_TEMPLATE_HASH,
    SCALED_KINDS,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSetManifest,
    ReplicationControllerManifest,
    StatefulSet,
    build_pending_pod,
    get_identity,
)
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.workload_change import WorkloadChange, get_ordinal, get_slot, set_rollout_limits
from kschedctl.replay.edits import select_pods
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import agreeing, counted

_ADDED_LABELS = frozenset(label for labels in ADDED_LABELS.values() for label in labels)
"""Labels that controllers add to those of the template."""
NOT_READY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that every pod is made to tolerate for some time."""
_PHASE_RANKS = {"Unknown": 1, "Running": 2}
"""Phase -> rank for removal; 0 for other phases, which are removed first."""
_encode = msgspec.json.Encoder(order="sorted").encode


class ExistingPods:
    """The pods of a cluster by workload, except for pods that are being deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @cached_property
    def _bare(self) -> dict[tuple[str, str], Pod]:
        """The pods without owners by namespace and name."""
        pods = select_pods(self.cluster, lambda pod: not pod.metadata.owner_references)
        return {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}

    @cached_property
    def _one_pod_per_owner(self) -> list[Pod]:
        """One pod of each owner. This is enough to tell which workloads have pods."""
        pods: dict[object, Pod] = {}
        for pod in self.cluster.pods.templates:
            if pod.metadata.owner_references:
                pods.setdefault((pod.metadata.namespace, pod.metadata.owner_references), pod)
        return list(pods.values())

    def find_workload_pods(self, kind: str, namespace: str, name: str) -> list[Pod]:
        """Return the pods of the workload with this kind, namespace and name.

        Pods that are being deleted are left out.
        """
        if kind == "Pod":
            pods = [self._bare[namespace, name]] if (namespace, name) in self._bare else []
        elif any(is_pod_of_workload(pod, kind, namespace, name) for pod in self._one_pod_per_owner):
            # The search through all pods takes long, so it is made only if one pod per owner shows that there are some
            pods = select_pods(self.cluster, lambda pod: is_pod_of_workload(pod, kind, namespace, name))
        else:
            pods = []
        return [pod for pod in pods if pod.metadata.deletion_timestamp is None]

    def with_current_replicas(self, workload: Struct) -> Struct:
        """Return the workload with its current number of pods as replicas, if its manifest does not set replicas.

        The workload is returned unchanged if its kind has no replicas, or if it has no pods.
        """
        spec = workload.spec  # type: ignore[attr-defined]
        if getattr(spec, "replicas", 0) is not None:  # the default 0 stands for kinds without replicas
            return workload
        count = len(self.find_workload_pods(*get_identity(workload)))
        return replace(workload, spec=replace(spec, replicas=count)) if count else workload

    def find_current_revisions(self, workload: Struct) -> frozenset[object] | None:
        """Return the pod revisions that have the manifest's template, or None if they are unknown.

        Only Deployments, StatefulSets and DaemonSets have known revisions.
        """
        template = getattr(workload.spec, "template", None)  # type: ignore[attr-defined]
        owner = get_identity(workload)
        if template is None:
            return None
        match workload:
            case Deployment():
                return self._find_revisions_of_replica_sets(owner, template)
            case StatefulSet():
                return self._find_newest_revision("stateful_sets", owner, template)
            case DaemonSet():
                return self._find_newest_revision("daemon_sets", owner, template)
        return None

    def _find_revisions_of_replica_sets(self, owner: Owner, template: PodTemplateSpec) -> frozenset[object] | None:
        """Return the revisions of a Deployment's ReplicaSets with this template, or None if no ReplicaSet was read.

        Each ReplicaSet stores the template of its revision.
        """
        sets = [stored for stored in self.cluster.replica_sets if is_controlled_by(owner, stored)]
        if not sets:
            return None
        matching_sets = [stored for stored in sets if are_templates_equivalent(template, stored.spec.template)]
        return frozenset(stored.metadata.labels.get(TEMPLATE_HASH, "") for stored in matching_sets)

    def _find_newest_revision(self, field: str, owner: Owner, template: PodTemplateSpec) -> frozenset[object] | None:
        """Return the only revision of a workload's pods if the stored workload has this template.

        ``field`` is the cluster's field with such workloads. A workload stores only the template of its newest
        revision. Therefore the result is None if the templates differ, or if the pods have several revisions or none.
        The result is also None if the workload was not read.
        """
        candidates = self.cluster.list_in_namespace(field, owner.namespace)
        stored_workload = next((stored for stored in candidates if stored.metadata.name == owner.name), None)
        if stored_workload is None or not are_templates_equivalent(template, stored_workload.spec.template):
            return None
        revisions = frozenset(_get_revision(pod) for pod in self.find_workload_pods(*owner))
        return revisions if len(revisions) == 1 else None


def is_controlled_by(owner: Owner, stored: StoredWorkload) -> bool:
    """Return whether the owner controls the stored workload."""
    reference = find_controller(stored.metadata)
    return reference is not None and Owner(reference.kind, stored.metadata.namespace, reference.name) == owner


def plan_change(
    existing: ExistingPods, workload: Struct, name: str, created: Sequence[Pod], *, forced: bool
) -> WorkloadChange:
    """Plan which pods of the workload stay, are removed, or are created from its manifest.

    `name` is the workload's title, and `created` has the pods that the manifest creates. For a CronJob, all created
    pods are new. Existing pods stay if they differ in nothing that scheduling reads, unless a rollout is ``forced`` and
    the number of replicas stays the same. A paused Deployment without pods stays without pods. Raises InputError if a
    limit of the rollout is malformed.
    """
    current = existing.find_workload_pods(*get_identity(workload))
    change = WorkloadChange(name, note=_describe_pause_or_strategy(workload, name, current))
    if isinstance(workload, Job):
        _plan_job_pods(change, workload, created, current)
        return change
    if isinstance(workload, Deployment | ReplicaSetManifest | ReplicationControllerManifest):
        current = [pod for pod in current if not pod.terminated]

    # Choose the pods that stay, are removed or are created
    is_paused_without_pods = isinstance(workload, Deployment) and workload.spec.paused and not current
    if isinstance(workload, CronJob):
        change.new = list(created)
    elif not is_paused_without_pods:
        outdated = _choose_pods_to_replace(change, existing, workload, created, current, forced=forced)
        outdated_keys = {pod.key for pod in outdated}
        staying = [pod for pod in current if pod.key not in outdated_keys]
        if isinstance(workload, StatefulSet | DaemonSet | Pod):
            _plan_pods_by_slot(change, created, outdated, staying)
        else:
            _plan_replicas(change, created, outdated, staying)

    # Set how a rollout replaces them
    if isinstance(workload, StatefulSet):
        change.ordered = workload.spec.pod_management_policy != "Parallel"
    if forced and change.new:
        try:
            set_rollout_limits(change, workload)
        except InputError as error:
            raise InputError(error.what, where=name) from None
    return change


def _choose_pods_to_replace(
    change: WorkloadChange,
    existing: ExistingPods,
    workload: Struct,
    created: Sequence[Pod],
    current: Sequence[Pod],
    *,
    forced: bool,
) -> list[Pod]:
    """Return the current pods that the change replaces with pods of the new template.

    A forced rollout of a template that looks unchanged replaces no pod if the manifest changes the number of replicas.
    Otherwise, it replaces all pods, and the change says that the template may be unchanged. In both cases, the change
    gets a note unless it has one.
    """
    outdated = _find_outdated_pods(existing, workload, created, current, forced=forced)
    if not (forced and created and outdated):
        return outdated
    outdated_without_force = _find_outdated_pods(existing, workload, created, current, forced=False)
    if outdated_without_force:
        return outdated
    if _changes_replicas(existing, workload, len(created), len(current)):
        change.note = change.note or _describe_pure_scaling(change.workload, len(outdated))
        return []
    change.may_be_unchanged = True
    change.note = change.note or _describe_needless_rollout(change.workload, len(outdated))
    return outdated


def _describe_pause_or_strategy(workload: Struct, name: str, current: Sequence[Pod]) -> str:
    """Return a note if the workload's controller creates or replaces no pods now, or an empty string.

    That is the case if the workload is suspended or paused, or if its update strategy is OnDelete. A StatefulSet whose
    maxUnavailable has no effect gets a note as well. ``current`` are the workload's existing pods, without which update
    strategies do not matter. ``name`` is the workload's title.
    """
    match workload:
        case CronJob() | Job() if workload.spec.suspend:
            return f"{name} is suspended: it creates no pods"
        case Deployment() if workload.spec.paused and current:
            return f"{name} is paused: its pods keep their template"
        case Deployment() if workload.spec.paused:
            return f"{name} is paused: it creates no pods"
        case StatefulSet() | DaemonSet() if current and workload.spec.update_strategy.type == "OnDelete":
            return f"{name} has the update strategy OnDelete: its pods keep their template until they are deleted"
        case StatefulSet() if current and workload.spec.update_strategy.rolling_update.max_unavailable:
            return f"{name}: maxUnavailable needs the feature gate MaxUnavailableStatefulSet, which is off by default"
    return ""


def _changes_replicas(existing: ExistingPods, workload: Struct, wanted: int, pods: int) -> bool:
    """Return whether the manifest changes the number of replicas to ``wanted``.

    The present number of replicas is that of a Deployment's ReplicaSets or, for other kinds or if these were not read,
    the number of existing pods. Return False for kinds without replicas.
    """
    owner = get_identity(workload)
    if owner.kind not in SCALED_KINDS:
        return False
    replica_sets = [stored for stored in existing.cluster.replica_sets if is_controlled_by(owner, stored)]
    known_numbers = [stored.spec.replicas for stored in replica_sets if stored.spec.replicas is not None]
    present = sum(known_numbers) if known_numbers else pods
    return wanted != present


def _describe_pure_scaling(name: str, pods: int) -> str:
    """Return a note that the manifest changes only the number of pods, so that no existing pod is replaced.

    The note adds that a template with other changes would replace all existing pods. ``name`` is the workload's title,
    and ``pods`` is the number of its existing pods.
    """
    pods_are = agreeing(pods, "its pod is", f"its {pods:,} pods are")
    return (
        f"{name}: only the number of its pods changes, as far as it matters for scheduling, so no pod is replaced; "
        f"if its template changes in other fields, {pods_are} replaced as well"
    )


def _describe_needless_rollout(name: str, pods: int) -> str:
    """Return a note that a forced rollout of ``pods`` pods changes nothing that matters for scheduling.

    ``name`` is the workload's title.
    """
    have = agreeing(pods, "has", "have")
    return (
        f"{name}: its {counted(pods, 'pod')} {have} this template already, as far as it matters for scheduling; if "
        "nothing else in it changes, applying it replaces no pod (leave out --rollout)"
    )


def _plan_job_pods(change: WorkloadChange, job: Job, created: Sequence[Pod], current: Sequence[Pod]) -> None:
    """Plan the pods of a Job in ``change``. Only the number of pods can change, not their template.

    Upstream: manageJob in pkg/controller/job/job_controller.go (v1.36).
    """
    # How many pods may be active
    active = [pod for pod in current if not pod.terminated]
    succeeded = sum(pod.status.phase == "Succeeded" for pod in current)
    wanted = len(created)
    if job.spec.completions is not None:
        wanted = min(wanted, max(job.spec.completions - succeeded, 0))

    # Remove surplus pods
    if wanted < len(active):
        change.removed = rank_for_removal(active)[: len(active) - wanted]
    removed_keys = {pod.key for pod in change.removed}
    change.kept = [pod for pod in active if pod.key not in removed_keys]

    # Create missing pods whose name and completion index are free
    current_keys = {pod.key for pod in current}
    active_indexes = {_get_completion_index(pod) for pod in active} - {""}
    free = [pod for pod in created if pod.key not in current_keys and _get_completion_index(pod) not in active_indexes]
    missing_count = max(wanted - len(change.kept), 0)
    change.new = free[:missing_count]


def _get_completion_index(pod: Pod) -> str:
    """Return the completion index of an indexed Job's pod, or an empty string."""
    return pod.metadata.labels.get("batch.kubernetes.io/job-completion-index", "")


def _find_outdated_pods(
    existing: ExistingPods, workload: Struct, created: Sequence[Pod], candidates: Sequence[Pod], *, forced: bool
) -> list[Pod]:
    """Return the candidates that the controller replaces with pods of the new template.

    ReplicaSets, ReplicationControllers, paused Deployments and workloads with the strategy OnDelete replace no pods.
    StatefulSets replace none below their partition. All other candidates are replaced if a rollout is ``forced`` or if
    no pod is created. Otherwise, a pod stays if its revision has the manifest's template. A pod also stays if the
    scheduler sees no difference between a created pod and the first pod of its revision.
    """
    match workload:
        case ReplicaSetManifest() | ReplicationControllerManifest():
            return []
        case Deployment() if workload.spec.paused:
            return []
        case StatefulSet() | DaemonSet() if workload.spec.update_strategy.type == "OnDelete":
            return []
        case StatefulSet():
            first = workload.spec.ordinals.start + workload.spec.update_strategy.rolling_update.partition
            candidates = [pod for pod in candidates if get_ordinal(pod) >= first]
    if forced or not created:
        return list(candidates)

    # Pods of a revision with the manifest's template stay
    current_revisions = existing.find_current_revisions(workload)
    if current_revisions is not None:
        candidates = [pod for pod in candidates if _get_revision(pod) not in current_revisions]

    # So do pods that look like the new ones to the scheduler. The first pod decides for its whole revision.
    stays_by_revision: dict[object, bool] = {}
    outdated = []
    for pod in candidates:
        revision = _get_revision(pod)
        if revision not in stays_by_revision:
            stays_by_revision[revision] = looks_same_to_scheduler(created[0], pod)
        if not stays_by_revision[revision]:
            outdated.append(pod)
    return outdated


def _get_revision(pod: Pod) -> object:
    """Return a key of the pod's revision. Pods of one revision have the same template."""
    labels = pod.metadata.labels
    return labels.get(TEMPLATE_HASH) or labels.get(REVISION) or pod.metadata.name


def _plan_pods_by_slot(
    change: WorkloadChange, created: Sequence[Pod], outdated: Sequence[Pod], staying: Sequence[Pod]
) -> None:
    """Plan one pod for each slot of the ``created`` pods, and record the plan in ``change``.

    Staying pods with such a slot are kept, and pods are created for the remaining slots. All other pods are removed. A
    DaemonSet's slot is a node, and any other slot is a pod name.
    """
    slots = {get_slot(pod) for pod in created}
    change.kept = [pod for pod in staying if get_slot(pod) in slots]
    change.removed = [*outdated, *(pod for pod in staying if get_slot(pod) not in slots)]
    kept_slots = {get_slot(pod) for pod in change.kept}
    change.new = [pod for pod in created if get_slot(pod) not in kept_slots]


def _plan_replicas(
    change: WorkloadChange, created: Sequence[Pod], outdated: Sequence[Pod], staying: Sequence[Pod]
) -> None:
    """Plan the wanted number of pods in ``change``: remove outdated and surplus pods, and create missing ones.

    If the kept pods look like the new ones to the scheduler, new pods are copies of a kept pod, including the fields
    that admission added.
    """
    ranked = rank_for_removal(staying)
    surplus = max(len(staying) - len(created), 0)
    change.kept = ranked[surplus:]
    change.removed = [*rank_for_removal(outdated), *ranked[:surplus]]
    kept_keys = {pod.key for pod in change.kept}
    missing_count = len(created) - len(change.kept)
    change.new = [pod for pod in created if pod.key not in kept_keys][:missing_count]
    if change.kept and looks_same_to_scheduler(created[0], change.kept[0]):
        change.new = [_copy_admitted_pod(change.kept[0], pod) for pod in change.new]


def are_templates_equivalent(first: PodTemplateSpec, second: PodTemplateSpec) -> bool:
    """Return whether the scheduler sees no difference between pods of the two templates.

    Defaults are filled in first, and labels that controllers add, such as template hashes, are ignored. A template
    without containers was not read, so the result is False.
    """
    if not (first.spec.containers and second.spec.containers):
        return False
    first_pod = Pod(PodMeta(labels=first.metadata.labels), first.spec)
    second_pod = Pod(PodMeta(labels=second.metadata.labels), second.spec)
    return _encode_scheduled_fields(first_pod) == _encode_scheduled_fields(second_pod)


def looks_same_to_scheduler(new: Pod, old: Pod) -> bool:
    """Return whether the scheduler sees no difference between a new pod and an existing one.

    The existing pod's template hash is ignored, also in selectors. Labels that were copied from its node are ignored
    unless the new pod has them.
    """
    old_only_labels = old.metadata.labels.keys() - new.metadata.labels.keys()
    copied = COPIED_FROM_NODES & old_only_labels
    if copied and old.spec.node_name:
        old = _remove_labels(old, copied)
    old_fields = _encode_scheduled_fields(old)
    template_hash = old.metadata.labels.get(TEMPLATE_HASH, "")
    if template_hash:
        old_fields = old_fields.replace(f'"{template_hash}"', f'"{NEW_TEMPLATE_HASH}"')
    return _encode_scheduled_fields(new) == old_fields


def _encode_scheduled_fields(pod: Pod) -> str:
    """Encode the fields of a pod that scheduling reads as text. Pods are compared by this text.

    Default values are filled in first. Labels and tolerations that controllers add are left out, and so is the node
    affinity of a DaemonSet's pod.
    """
    pod = apply_pod_defaults(pod)
    spec = pod.spec
    info = PodInfo(pod, Options())
    affinity = spec.affinity
    if affinity and find_owner(pod).kind == "DaemonSet":  # its node affinity names the node of each pod
        affinity = replace(affinity, node_affinity=None)
    parts = (
        {key: value for key, value in pod.metadata.labels.items() if key not in _ADDED_LABELS},
        info.incoming_requests,
        sorted(info.host_ports),
        spec.node_selector,
        affinity,
        sorted(
            (toleration.key, toleration.operator, toleration.value, toleration.effect)
            for toleration in spec.tolerations
            if toleration.key not in NOT_READY_TAINTS
        ),
        spec.topology_spread_constraints,
        (spec.priority or 0, spec.preemption_policy or "PreemptLowerPriority", spec.scheduler_name),
        spec.priority_class_name if spec.priority is None else "",
        spec.runtime_class_name or "",
        sorted(container.image for container in (*spec.init_containers, *spec.containers)),
        sorted(volume.name for volume in spec.volumes if volume.persistent_volume_claim or volume.ephemeral),
        sorted(claim.name for claim in spec.resource_claims),
    )
    return _encode(parts).decode()


def _remove_labels(pod: Pod, names: Container[str]) -> Pod:
    """Return the pod without these labels."""
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in names}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def is_pod_of_workload(pod: Pod, kind: str, namespace: str, name: str) -> bool:
    """Return whether the workload controls the pod, by itself or through a Deployment's ReplicaSet."""
    owner = find_controller(pod.metadata)
    if owner is None or pod.metadata.namespace != namespace:
        return False
    # find_owner returns the Deployment above a ReplicaSet.
    return (owner.kind, owner.name) == (kind, name) or find_owner(pod) == Owner(kind, namespace, name)


def _copy_admitted_pod(existing: Pod, new: Pod) -> Pod:
    """Return the new pod with the changes that admission made to an existing pod.

    Labels that were copied from the existing pod's node are left out.
    """
    copy = build_pending_pod(_remove_labels(existing, COPIED_FROM_NODES - new.metadata.labels.keys()))
    meta = replace(copy.metadata, name=new.metadata.name, uid=new.metadata.uid)
    return replace(copy, metadata=meta)


def rank_for_removal(pods: Iterable[Pod]) -> list[Pod]:
    """Sort pods into the order in which a ReplicaSet removes them.

    Pods without a node come first, then pods that do not run, and then pods that are not ready. Of equal pods, those
    that share their node with the most others come first, and then the youngest. Deletion cost, restarts and the time
    of readiness are not read.
    """
    pod_list = list(pods)
    pods_per_node = Counter(pod.spec.node_name for pod in pod_list)
    return sorted(pod_list, key=lambda pod: _build_removal_key(pod, pods_per_node[pod.spec.node_name]))


def _build_removal_key(pod: Pod, pods_on_node: int) -> tuple[bool, int, bool, int, tuple[int, ...]]:
    """Return the sort key that orders pods for removal. The pod with the lowest key is removed first.

    Pods without a node go first, followed by pods that do not run or are not ready. Among equal pods, those that share
    their node with more pods go first, and then the younger ones.
    """
    # False sorts before True, and lower numbers before higher ones
    has_node = bool(pod.spec.node_name)
    phase_rank = _PHASE_RANKS.get(pod.status.phase, 0)
    is_ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions)
    # RFC 3339 times sort by their characters; negative codes put the youngest first
    youngest_first = tuple(-ord(character) for character in pod.metadata.creation_timestamp or "")
    return has_node, phase_rank, is_ready, -pods_on_node, youngest_first
