"""Manifests of workloads that the cluster has already: which pods stay, which go and which come.

Upstream: pkg/controller/replicaset, pkg/controller/deployment/util (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
from msgspec.structs import replace

from kschedctl.api.defaults import default_pod
from kschedctl.api.objects import Pod, Struct
from kschedctl.api.pod_requests import Options
from kschedctl.api.pod_table import PodTable
from kschedctl.api.workloads import (
    TEMPLATE_HASH,
    DaemonSet,
    Deployment,
    DeploymentRollingUpdate,
    StatefulSet,
    made_again,
)
from kschedctl.cluster import Cluster
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.edits import owner_of, pods_where

ADDED_LABELS = frozenset(
    {
        TEMPLATE_HASH,
        "controller-revision-hash",
        "pod-template-generation",
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
    }
)
"""What controllers add to the labels of a template."""
NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""Taints that every pod is made to tolerate for a while."""
DEFAULT_SHARE = "25%"
_encode = msgspec.json.Encoder(order="sorted").encode


@dataclass
class Change:
    """What becomes of a workload: ``kept`` and ``removed`` are pods that it has, ``new`` come.

    In a rollout there are at most ``surge`` pods more than desired and at most ``unavailable`` fewer that run;
    ``ordered``: each new pod comes after its predecessor went, one after the other. ``rolling``: it is one.
    """

    workload: str
    kept: list[Pod] = field(default_factory=list)
    removed: list[Pod] = field(default_factory=list)
    new: list[Pod] = field(default_factory=list)
    surge: int = 0
    unavailable: int = 0
    ordered: bool = False
    rolling: bool = False

    @property
    def desired(self) -> int:
        return len(self.kept) + len(self.new)


class Existing:
    """The pods of a cluster by the workload that they belong to, those aside that are leaving."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    @cached_property
    def _bare(self) -> dict[tuple[str, str], Pod]:
        found = pods_where(self.cluster, lambda pod: not pod.metadata.owner_references)
        return {(pod.metadata.namespace, pod.metadata.name): pod for pod in found}

    @cached_property
    def _owned(self) -> list[Pod]:
        """One pod for each owner that there is."""
        found: dict[object, Pod] = {}
        pods = self.cluster.pods
        for pod in pods.templates if isinstance(pods, PodTable) else pods:
            if pod.metadata.owner_references:
                found.setdefault((pod.metadata.namespace, pod.metadata.owner_references), pod)
        return list(found.values())

    def of(self, kind: str, namespace: str, name: str) -> list[Pod]:
        """The pods of a workload."""
        if kind == "Pod":
            found = [self._bare[namespace, name]] if (namespace, name) in self._bare else []
        elif any(_belongs(pod, kind, namespace, name) for pod in self._owned):
            found = pods_where(self.cluster, lambda pod: _belongs(pod, kind, namespace, name))
        else:
            found = []
        return [pod for pod in found if pod.metadata.deletion_timestamp is None]


def plan(existing: Existing, workload: Struct, name: str, made: Sequence[Pod], forced: bool) -> Change:
    """How the workload comes to have the pods that were ``made`` of its manifest.

    Pods that do not differ in what scheduling reads stay, unless a rollout is ``forced``.
    """
    kind, rest = name.split(" ", 1)
    old = existing.of(kind, *rest.split("/", 1))
    if kind in ("Job", "CronJob"):
        return Change(name, kept=old if kind == "Job" else [], new=[] if old and kind == "Job" else list(made))
    changed = forced or not old or not made or not alike(made[0], old[0])
    if kind in ("ReplicaSet", "ReplicationController") or not changed:
        return _scaled(name, old, made, changed, by_slot=kind in ("StatefulSet", "DaemonSet", "Pod"))
    found = Change(name, removed=old, new=list(made), unavailable=max(len(old), len(made)), rolling=forced)
    if forced and isinstance(workload, Deployment):
        found.surge, found.unavailable = _limits(workload, len(made))
    if forced and isinstance(workload, StatefulSet | DaemonSet):
        found.ordered = True
        found.new.sort(key=_ordinal, reverse=True)
    return found


def alike(new: Pod, old: Pod) -> bool:
    """Whether the scheduler sees no difference between a pod of a new template and one of the old."""
    own_hash = old.metadata.labels.get(TEMPLATE_HASH, "")
    mine, theirs = _seen(new), _seen(old)
    return mine == (theirs.replace(f'"{own_hash}"', '"new"') if own_hash else theirs)


def _seen(pod: Pod) -> str:
    pod = default_pod(pod)
    spec, info = pod.spec, PodInfo(pod, Options())
    affinity = replace(spec.affinity, node_affinity=None) if spec.affinity else None
    pinned = owner_of(pod)[0] == "DaemonSet"
    parts = (
        {key: value for key, value in pod.metadata.labels.items() if key not in ADDED_LABELS},
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


def _belongs(pod: Pod, kind: str, namespace: str, name: str) -> bool:
    owner = next((o for o in pod.metadata.owner_references if o.controller), None)
    if owner is None or pod.metadata.namespace != namespace:
        return False
    return (owner.kind, owner.name) == (kind, name) or owner_of(pod) == (kind, namespace, name)


def _scaled(name: str, old: list[Pod], made: Sequence[Pod], changed: bool, by_slot: bool) -> Change:
    """The pods that there are stay as far as they are wanted; more of them come, or the surplus goes."""
    if by_slot:
        wanted, there = set(map(slot, made)), set(map(slot, old))
        return Change(
            name,
            kept=[pod for pod in old if slot(pod) in wanted],
            removed=[pod for pod in old if slot(pod) not in wanted],
            new=[pod for pod in made if slot(pod) not in there],
            unavailable=len(old),
        )
    surplus = len(old) - len(made)
    going = sorted(old, key=leaves_first)[: max(surplus, 0)]
    kept = [pod for pod in old if pod not in going]
    new = list(made[len(kept) :])
    if kept and not changed:
        new = [_like(kept[0], pod) for pod in new]
    return Change(name, kept, going, new, unavailable=len(old))


def slot(pod: Pod) -> str:
    """What at most one pod of a workload can have: a DaemonSet's pod its node, a StatefulSet's its name."""
    if owner_of(pod)[0] != "DaemonSet":
        return pod.metadata.name
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = required.node_selector_terms if required else ()
    names = [name for term in terms for field in term.match_fields for name in field.values or ()]
    return pod.spec.node_name or next(iter(names), "")


def _like(old: Pod, new: Pod) -> Pod:
    again = made_again(old)
    meta = replace(again.metadata, name=new.metadata.name, uid=new.metadata.uid)
    return replace(again, metadata=meta)


def leaves_first(pod: Pod) -> tuple[bool, bool, tuple[int, ...]]:
    """Upstream's ranking of the pods of a ReplicaSet, as far as it can be seen: no node, not ready, the youngest."""
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    created = pod.metadata.creation_timestamp or ""
    return bool(pod.spec.node_name), ready, tuple(-ord(character) for character in created)


def _limits(workload: Deployment, desired: int) -> tuple[int, int]:
    """How many pods more than desired, and how many fewer, a rollout may have."""
    if workload.spec.strategy.type == "Recreate":
        return 0, desired
    update = workload.spec.strategy.rolling_update or DeploymentRollingUpdate()
    surge = share(DEFAULT_SHARE if update.max_surge is None else update.max_surge, desired, up=True)
    unavailable = share(DEFAULT_SHARE if update.max_unavailable is None else update.max_unavailable, desired, up=False)
    return surge, unavailable if surge or unavailable else 1


def share(amount: int | str, of: int, up: bool) -> int:
    """A number, or a percentage of one, rounded up or down.

    >>> share("25%", 10, up=True), share("25%", 10, up=False), share(3, 10, up=True)
    (3, 2, 3)
    """
    if isinstance(amount, int):
        return amount
    percent = int(amount.removesuffix("%"))
    return -(-percent * of // 100) if up else percent * of // 100


def _ordinal(pod: Pod) -> int:
    found = re.search(r"\d+$", pod.metadata.name)
    return int(found[0]) if found else 0
