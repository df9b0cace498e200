"""Owners of a cluster's objects: the workloads of its pods, and the controllers that created other objects."""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import cached_property

from kschedctl.api.objects import ObjectMeta
from kschedctl.api.ownership import ADDED_LABELS, Owner, find_controller, find_owner
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.lint.objects.stored_pods import remove_node_pin, remove_template_claims, to_written_spec
from kschedctl.lint.objects.subject import Subject
from kschedctl.lint.objects.workload import Workload


def iter_cluster_workloads(cluster: Cluster, owners: Container[Owner] | None = None) -> Iterator[Workload]:
    """Yield a workload for each controller of running or pending pods and for each pod without a controller.

    If ``owners`` is given, only their workloads are yielded. The template of a workload is its newest pod, without the
    fields that the API server and the controller added. Static pods and pods that are being deleted are left out.
    """
    for (kind, namespace, name), pods in cluster.pods.pods_by_owner.items():
        staying_pods = pods.select(lambda template: template.metadata.deletion_timestamp is None)
        if kind == "Node" or not staying_pods:  # a Node owns its static pods
            continue
        if owners is not None and Owner(kind, namespace, name) not in owners:
            continue
        newest = staying_pods.find_newest()
        labels = {k: v for k, v in newest.metadata.labels.items() if k not in ADDED_LABELS.get(kind, ())}
        spec = to_written_spec(newest)
        replicas: int | None = len(staying_pods)
        if kind == "DaemonSet":
            spec = remove_node_pin(spec)
            replicas = None
        elif kind == "StatefulSet":
            spec = remove_template_claims(spec, newest.metadata.name)
        yield Workload(
            Subject(kind, name, namespace), labels, spec, replicas, template_path=POD_TEMPLATE_PATHS.get(kind, ())
        )


OWNABLE_KINDS = ("ReplicaSet", "StatefulSet", "ReplicationController", "PodDisruptionBudget")
"""Kinds besides pods that lint reads and that other controllers create."""
MAX_OWNER_DEPTH = 5
"""The maximum number of controllers that are followed upwards from an object."""


class TopmostOwners:
    """The topmost controllers of a cluster's objects, found by owner references."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def describe_topmost_owner(self, subject: Subject) -> str:
        """Name the topmost known controller of an object, such as `Prometheus monitoring/k8s`.

        At most `MAX_OWNER_DEPTH` controllers are followed. Returns "" for an object without a controller and for an
        object from a manifest.
        """
        if subject.document:
            return ""
        current = Owner(subject.kind, subject.namespace, subject.name)
        topmost = ""
        for _ in range(MAX_OWNER_DEPTH):
            owner = self._find_direct_owner(current)
            if owner is None or owner == current:
                break
            current = owner
            topmost = str(owner)
        return topmost

    def _find_direct_owner(self, owned: Owner) -> Owner | None:
        """Return the workload that owns a pod or the controller of another object, or None if it is unknown."""
        if owned.kind != "Pod":
            return self._controller_by_object.get(owned)
        pod = self._cluster.pods.find(owned.namespace, owned.name)
        return None if pod is None else find_owner(pod)

    @cached_property
    def _controller_by_object(self) -> dict[Owner, Owner]:
        """The controllers of the objects that have one. Both are in the same namespace."""
        controllers = {}
        for kind, meta in self._iter_object_metadata():
            controller = find_controller(meta)
            if controller is not None:
                owned = Owner(kind, meta.namespace, meta.name)
                controllers[owned] = Owner(controller.kind, meta.namespace, controller.name)
        return controllers

    def _iter_object_metadata(self) -> Iterator[tuple[str, ObjectMeta]]:
        """Yield the kind and metadata of each object that another controller may own."""
        for kind in OWNABLE_KINDS:
            for owned in getattr(self._cluster, FIELDS[kind]):
                yield kind, owned.metadata
