"""TODO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kschedctl.api.defaults import default_pod
from kschedctl.api.objects import Pod, PodMeta, PodTemplateSpec, StoredWorkload, Struct
from kschedctl.api.ownership import ADDED_LABELS, REVISION, TEMPLATE_HASH, Owner, find_controller, find_owner
from kschedctl.api.pod_requests import Options
from kschedctl.api.workloads import (
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    Replicated,
    ReplicationControllerManifest,
    StatefulSet,
    identity,
    made_again,
)
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.controllers.workload_change import Change, ordinal, set_pace, slot
from kschedctl.replay.edits import pods_where
from kschedctl.snapshot.node_order import REGION, ZONE
from kschedctl.snapshot.pod_info import PodInfo

_ADDED_LABELS = frozenset(label for labels in ADDED_LABELS.values() for label in labels)
"""What controllers add to the labels of a template."""
_COPIED_FROM_NODES = frozenset({ZONE, REGION})
"""Labels that admission copies from the node when a pod is bound. Upstream: plugin/pkg/admission/podtopologylabels."""
NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that every pod is made to tolerate for a while."""
_PHASES = {"Unknown": 1, "Running": 2}
_encode = msgspec.json.Encoder(order="sorted").encode


class Existing:
    """The pods of a cluster by the workload that they belong to, those aside that are leaving."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @cached_property
    def _bare(self) -> dict[tuple[str, str], Pod]:
        pods = pods_where(self.cluster, lambda pod: not pod.metadata.owner_references)
        return {(pod.metadata.namespace, pod.metadata.name): pod for pod in pods}

    @cached_property
    def _owned(self) -> list[Pod]:
        """One pod for each owner that there is."""
        pods: dict[object, Pod] = {}
        for pod in self.cluster.pods.templates:
            if pod.metadata.owner_references:
                pods.setdefault((pod.metadata.namespace, pod.metadata.owner_references), pod)
        return list(pods.values())

    def of(self, kind: str, namespace: str, name: str) -> list[Pod]:
        """The pods of a workload."""
        if kind == "Pod":
            pods = [self._bare[namespace, name]] if (namespace, name) in self._bare else []
        elif any(belongs(pod, kind, namespace, name) for pod in self._owned):
            pods = pods_where(self.cluster, lambda pod: belongs(pod, kind, namespace, name))
        else:
            pods = []
        return [pod for pod in pods if pod.metadata.deletion_timestamp is None]

    def sized(self, workload: Struct) -> Struct:
        """A manifest that leaves the number of replicas to others leaves it as it is."""
        spec = workload.spec  # type: ignore[attr-defined]
        if getattr(spec, "replicas", 0) is not None:
            return workload
        there = len(self.of(*identity(workload)))
        return replace(workload, spec=replace(spec, replicas=there)) if there else workload

    def current_revisions(self, workload: Struct) -> frozenset[object] | None:
        """Return the revisions whose stored template is that of the manifest; None if no template was read.

        A StatefulSet or DaemonSet with one revision of pods has its stored template; of several it is unknown which.
        """
        template = getattr(workload.spec, "template", None)  # type: ignore[attr-defined]
        owner = identity(workload)
        if template is None:
            return None
        if isinstance(workload, Deployment):
            sets = [rs for rs in self.cluster.replica_sets if _is_controlled_by(owner, rs)]
            same = [rs for rs in sets if is_same_template(template, rs.spec.template)]
            return frozenset(rs.metadata.labels.get(TEMPLATE_HASH, "") for rs in same) if sets else None
        if not isinstance(workload, StatefulSet | DaemonSet):
            return None
        stored = self.cluster.stateful_sets if isinstance(workload, StatefulSet) else self.cluster.daemon_sets
        key = (owner.namespace, owner.name)
        found = next((obj for obj in stored if (obj.metadata.namespace, obj.metadata.name) == key), None)
        revisions = {_revision(pod) for pod in self.of(*owner)}
        if found is None or len(revisions) != 1 or not is_same_template(template, found.spec.template):
            return None
        return frozenset(revisions)


def _is_controlled_by(owner: Owner, stored: StoredWorkload) -> bool:
    reference = find_controller(stored.metadata)
    return reference is not None and Owner(reference.kind, stored.metadata.namespace, reference.name) == owner


def plan(existing: Existing, workload: Struct, name: str, made: Sequence[Pod], forced: bool) -> Change:
    """Plan how the workload comes to have the pods that were ``made`` of its manifest.

    Pods that do not differ in what scheduling reads stay, unless a rollout is ``forced``.
    """
    old = existing.of(*identity(workload))
    change = Change(name, note=_note(workload, name, old))
    if isinstance(workload, Job):
        _resize_job(change, workload, made, old)
        return change
    if isinstance(workload, Deployment | Replicated | ReplicationControllerManifest):
        old = [pod for pod in old if not pod.terminated]
    if isinstance(workload, CronJob):
        change.new = list(made)
    elif isinstance(workload, Deployment) and workload.spec.paused and not old:
        pass
    else:
        going = _outdated(existing, workload, made, old, forced)
        names = {pod.key for pod in going}
        staying = [pod for pod in old if pod.key not in names]
        fill = _fill_slots if isinstance(workload, StatefulSet | DaemonSet | Pod) else _fill_up
        fill(change, made, going, staying)
    if isinstance(workload, StatefulSet):
        change.ordered = workload.spec.pod_management_policy != "Parallel"
    if forced and change.new:
        try:
            set_pace(change, workload)
        except InputError as error:
            raise InputError(error.what, where=name) from None
    return change


def _note(workload: Struct, name: str, old: Sequence[Pod]) -> str:
    match workload:
        case CronJob() | Job() if workload.spec.suspend:
            return f"{name} is suspended: it makes no pods"
        case Deployment() if workload.spec.paused:
            return f"{name} is paused: " + ("its pods keep their template" if old else "it makes no pods")
        case StatefulSet() | DaemonSet() if old and workload.spec.update_strategy.type == "OnDelete":
            return f"{name} has the update strategy OnDelete: its pods keep their template until they are deleted"
        case StatefulSet() if old and workload.spec.update_strategy.rolling_update.max_unavailable:
            return f"{name}: maxUnavailable needs the feature gate MaxUnavailableStatefulSet, which is off by default"
    return ""


def _resize_job(change: Change, job: Job, made: Sequence[Pod], old: Sequence[Pod]) -> None:
    """Plan the pods of a Job, of which only the number can change.

    Upstream: manageJob in pkg/controller/job/job_controller.go (v1.36).
    """
    active = [pod for pod in old if not pod.terminated]
    succeeded = sum(pod.status.phase == "Succeeded" for pod in old)
    wanted = len(made)
    if job.spec.completions is not None:
        wanted = min(wanted, max(job.spec.completions - succeeded, 0))
    if wanted < len(active):
        change.removed = first_to_go(active)[: len(active) - wanted]
    leaving = {pod.key for pod in change.removed}
    change.kept = [pod for pod in active if pod.key not in leaving]
    taken = {pod.key for pod in old}
    indexes = {index for pod in active if (index := _completion_index(pod))}
    free = [pod for pod in made if pod.key not in taken and _completion_index(pod) not in indexes]
    change.new = free[: max(wanted - len(change.kept), 0)]


def _completion_index(pod: Pod) -> str:
    return pod.metadata.labels.get("batch.kubernetes.io/job-completion-index", "")


def _outdated(existing: Existing, workload: Struct, made: Sequence[Pod], old: Sequence[Pod], forced: bool) -> list[Pod]:
    """Return the pods that the controller replaces by pods of the new template.

    The manifest's template is compared with the stored one, as controllers do. Pods alone are compared where no
    template was read: admission may have changed them since.
    """
    match workload:
        case Replicated() | ReplicationControllerManifest():
            return []
        case Deployment() if workload.spec.paused:
            return []
        case StatefulSet() | DaemonSet() if workload.spec.update_strategy.type == "OnDelete":
            return []
        case StatefulSet():
            first = workload.spec.ordinals.start + workload.spec.update_strategy.rolling_update.partition
            old = [pod for pod in old if ordinal(pod) >= first]
    if forced or not made:
        return list(old)
    current = existing.current_revisions(workload)
    if current is not None:
        old = [pod for pod in old if _revision(pod) not in current]
    same: dict[object, bool] = {}
    return [pod for pod in old if not same.setdefault(key := _revision(pod), key in same or alike(made[0], pod))]


def _revision(pod: Pod) -> object:
    """Pods of one revision are alike."""
    labels = pod.metadata.labels
    return labels.get(TEMPLATE_HASH) or labels.get(REVISION) or pod.metadata.name


def _fill_slots(change: Change, made: Sequence[Pod], going: Sequence[Pod], staying: Sequence[Pod]) -> None:
    """One pod for each slot, an empty one first."""
    wanted = {slot(pod) for pod in made}
    change.kept = [pod for pod in staying if slot(pod) in wanted]
    change.removed = [*going, *(pod for pod in staying if slot(pod) not in wanted)]
    there = {slot(pod) for pod in change.kept}
    change.new = [pod for pod in made if slot(pod) not in there]


def _fill_up(change: Change, made: Sequence[Pod], going: Sequence[Pod], staying: Sequence[Pod]) -> None:
    """The pods that there are stay as far as they are wanted; more of them come, or the surplus goes."""
    ranked = first_to_go(staying)
    surplus = max(len(staying) - len(made), 0)
    change.kept = ranked[surplus:]
    change.removed = [*first_to_go(going), *ranked[:surplus]]
    names = {pod.key for pod in change.kept}
    change.new = [pod for pod in made if pod.key not in names][: len(made) - len(change.kept)]
    if change.kept and alike(made[0], change.kept[0]):
        change.new = [_like(change.kept[0], pod) for pod in change.new]


def is_same_template(first: PodTemplateSpec, second: PodTemplateSpec) -> bool:
    """Return whether two pod templates are the same in all that scheduling reads, defaults and hashes aside."""
    if not (first.spec.containers and second.spec.containers):
        return False
    return _seen(Pod(PodMeta(labels=first.metadata.labels), first.spec)) == _seen(
        Pod(PodMeta(labels=second.metadata.labels), second.spec)
    )


def alike(new: Pod, old: Pod) -> bool:
    """Return whether the scheduler sees no difference between a pod of a new template and one of the old."""
    own_hash = old.metadata.labels.get(TEMPLATE_HASH, "")
    copied = {key for key in _COPIED_FROM_NODES & old.metadata.labels.keys() if key not in new.metadata.labels}
    if copied and old.spec.node_name:
        old = _without_labels(old, copied)
    mine, theirs = _seen(new), _seen(old)
    return mine == (theirs.replace(f'"{own_hash}"', '"new"') if own_hash else theirs)


def _seen(pod: Pod) -> str:
    pod = default_pod(pod)
    spec, info = pod.spec, PodInfo(pod, Options())
    affinity = replace(spec.affinity, node_affinity=None) if spec.affinity else None
    pinned = find_owner(pod).kind == "DaemonSet"
    parts = (
        {key: value for key, value in pod.metadata.labels.items() if key not in _ADDED_LABELS},
        info.incoming_requests,
        sorted(info.host_ports),
        spec.node_selector,
        affinity if pinned else spec.affinity,
        sorted((t.key, t.operator, t.value, t.effect) for t in spec.tolerations if t.key not in NOT_READY),
        spec.topology_spread_constraints,
        (spec.priority or 0, spec.preemption_policy or "PreemptLowerPriority", spec.scheduler_name),
        spec.priority_class_name if spec.priority is None else "",
        spec.runtime_class_name or "",
        sorted(container.image for container in (*spec.init_containers, *spec.containers)),
        sorted(v.name for v in spec.volumes if v.persistent_volume_claim or v.ephemeral),
        sorted(claim.name for claim in spec.resource_claims),
    )
    return _encode(parts).decode()


def _without_labels(pod: Pod, names: Container[str]) -> Pod:
    labels = {key: value for key, value in pod.metadata.labels.items() if key not in names}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def belongs(pod: Pod, kind: str, namespace: str, name: str) -> bool:
    """Whether a workload controls the pod, itself or through the ReplicaSet of a Deployment."""
    owner = find_controller(pod.metadata)
    if owner is None or pod.metadata.namespace != namespace:
        return False
    return (owner.kind, owner.name) == (kind, name) or find_owner(pod) == Owner(kind, namespace, name)


def _like(old: Pod, new: Pod) -> Pod:
    """Return the new pod as admission made the old one, without what was copied from its node."""
    again = made_again(_without_labels(old, _COPIED_FROM_NODES - new.metadata.labels.keys()))
    meta = replace(again.metadata, name=new.metadata.name, uid=new.metadata.uid)
    return replace(again, metadata=meta)


def first_to_go(pods: Iterable[Pod]) -> list[Pod]:
    """Pods in the order in which a ReplicaSet gives them up, as far as it can be seen.

    Those without a node first, then those that do not run, are not ready, share their node with the most others, are
    the youngest. Of pods their deletion cost, their restarts and when they became ready is not kept.
    """
    running = list(pods)
    together = Counter(pod.spec.node_name for pod in running)
    return sorted(running, key=lambda pod: _standing(pod, together[pod.spec.node_name]))


def _standing(pod: Pod, together: int) -> tuple[bool, int, bool, int, tuple[int, ...]]:
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    created = pod.metadata.creation_timestamp or ""
    youth = tuple(-ord(character) for character in created)
    return bool(pod.spec.node_name), _PHASES.get(pod.status.phase, 0), ready, -together, youth
