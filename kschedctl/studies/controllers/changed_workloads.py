"""Manifests of workloads that the cluster has already: which pods stay, which go and which come.

Upstream: pkg/controller/{replicaset,statefulset,daemon}, pkg/controller/deployment/util (v1.36).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kschedctl.api.defaults import default_pod
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.ownership import ADDED_LABELS, REVISION, TEMPLATE_HASH, Owner, controller_of, owner_of
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
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.basics.edits import pods_where
from kschedctl.studies.controllers.rollout_limits import Change, ordinal, set_pace, slot

_ADDED_LABELS = frozenset(label for labels in ADDED_LABELS.values() for label in labels)
"""What controllers add to the labels of a template."""
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


def plan(existing: Existing, workload: Struct, name: str, made: Sequence[Pod], forced: bool) -> Change:
    """How the workload comes to have the pods that were ``made`` of its manifest.

    Pods that do not differ in what scheduling reads stay, unless a rollout is ``forced``.
    """
    old = existing.of(*identity(workload))
    change = Change(name, note=_note(workload, name, old))
    if isinstance(workload, CronJob) or (isinstance(workload, Job) and not old):
        change.new = list(made)
    elif isinstance(workload, Job):
        change.kept = old
    elif isinstance(workload, Deployment) and workload.spec.paused and not old:
        pass
    else:
        going = _outdated(workload, made, old, forced)
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


def _outdated(workload: Struct, made: Sequence[Pod], old: Sequence[Pod], forced: bool) -> list[Pod]:
    """The pods that the controller replaces by such of the new template."""
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


def alike(new: Pod, old: Pod) -> bool:
    """Whether the scheduler sees no difference between a pod of a new template and one of the old."""
    own_hash = old.metadata.labels.get(TEMPLATE_HASH, "")
    mine, theirs = _seen(new), _seen(old)
    return mine == (theirs.replace(f'"{own_hash}"', '"new"') if own_hash else theirs)


def _seen(pod: Pod) -> str:
    pod = default_pod(pod)
    spec, info = pod.spec, PodInfo(pod, Options())
    affinity = replace(spec.affinity, node_affinity=None) if spec.affinity else None
    pinned = owner_of(pod).kind == "DaemonSet"
    parts = (
        {key: value for key, value in pod.metadata.labels.items() if key not in _ADDED_LABELS},
        info.incoming_requests,
        sorted(info.host_ports),
        spec.node_selector,
        affinity if pinned else spec.affinity,
        sorted((t.key, t.operator, t.value, t.effect) for t in spec.tolerations if t.key not in NOT_READY),
        spec.topology_spread_constraints,
        (spec.priority or 0, spec.preemption_policy or "PreemptLowerPriority", spec.scheduler_name),
        sorted(container.image for container in (*spec.init_containers, *spec.containers)),
        sorted(v.name for v in spec.volumes if v.persistent_volume_claim or v.ephemeral),
        sorted(claim.name for claim in spec.resource_claims),
    )
    return _encode(parts).decode()


def belongs(pod: Pod, kind: str, namespace: str, name: str) -> bool:
    """Whether a workload controls the pod, itself or through the ReplicaSet of a Deployment."""
    owner = controller_of(pod.metadata)
    if owner is None or pod.metadata.namespace != namespace:
        return False
    return (owner.kind, owner.name) == (kind, name) or owner_of(pod) == Owner(kind, namespace, name)


def _like(old: Pod, new: Pod) -> Pod:
    again = made_again(old)
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
