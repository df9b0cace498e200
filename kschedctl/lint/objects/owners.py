"""Whose the objects of a cluster are: the workloads that its pods belong to, and what makes an object."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kschedctl.api import objects as api
from kschedctl.api.objects import ObjectMeta
from kschedctl.api.ownership import ADDED_LABELS, Owner, find_controller, find_owner
from kschedctl.api.pod_templates import POD_TEMPLATE_PATHS
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.lint.objects.stored_pods import as_written, without_node_pin, without_own_claims
from kschedctl.lint.objects.subject import Subject
from kschedctl.lint.objects.workload import Workload


def cluster_workloads(cluster: Cluster) -> Iterator[Workload]:
    """One workload for each controller of pods, and for each pod without one; static pods are nobody's choice."""
    for (kind, namespace, name), pods in pods_by_owner(cluster).items():
        kept = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        if kind == "Node" or not kept:
            continue
        one = max(kept, key=lambda pod: pod.metadata.creation_timestamp or "")
        labels = {k: v for k, v in one.metadata.labels.items() if k not in ADDED_LABELS.get(kind, ())}
        spec = as_written(one)
        if kind == "DaemonSet":
            spec = without_node_pin(spec)
        elif kind == "StatefulSet":
            spec = without_own_claims(spec, one.metadata.name)
        count = None if kind == "DaemonSet" else len(kept)
        yield Workload(Subject(kind, name, namespace), labels, spec, count, at=POD_TEMPLATE_PATHS.get(kind, ()))


def pods_by_owner(cluster: Cluster) -> dict[Owner, list[api.Pod]]:
    """The pods that have not ended, by their controller; those of a ReplicaSet by the Deployment behind it."""
    by_owner: dict[Owner, list[api.Pod]] = {}
    for pod in cluster.pods:
        if not pod.terminated:
            by_owner.setdefault(find_owner(pod), []).append(pod)
    return by_owner


OWNED = ("ReplicaSet", "StatefulSet", "ReplicationController", "PodDisruptionBudget")
"""The kinds, besides pods, that are read and that other controllers make."""
HIGHEST = 5
"""So many controllers stand over each other at most."""


class Makers:
    """What makes the objects of a cluster, by the references to controllers that they have."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def maker(self, subject: Subject) -> str:
        """``Prometheus monitoring/k8s``, the topmost that is known; empty for what nobody made, and for manifests."""
        owner, topmost = Owner(subject.kind, subject.namespace, subject.name), None
        for _ in range(HIGHEST if not subject.document else 0):
            above = self._workloads_of_pods.get(owner) if owner.kind == "Pod" else self._controllers.get(owner)
            if above is None or above == owner:
                break
            owner = topmost = above
        return str(topmost) if topmost else ""

    @cached_property
    def _controllers(self) -> dict[Owner, Owner]:
        """Object -> its controller, in the same namespace."""
        return {
            Owner(kind, meta.namespace, meta.name): Owner(controller.kind, meta.namespace, controller.name)
            for kind, meta in self._metadata()
            if (controller := find_controller(meta)) is not None
        }

    def _metadata(self) -> Iterator[tuple[str, ObjectMeta]]:
        for kind in OWNED:
            for owned in getattr(self._cluster, FIELDS[kind]):
                yield kind, owned.metadata

    @cached_property
    def _workloads_of_pods(self) -> dict[Owner, Owner]:
        pods = self._cluster.pods
        return {Owner("Pod", pod.metadata.namespace, pod.metadata.name): find_owner(pod) for pod in pods}
