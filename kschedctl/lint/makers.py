"""What makes the objects of a cluster: there a change is made that its controller does not undo."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from kschedctl.api.objects import ObjectMeta
from kschedctl.api.ownership import Owner, controller_of, owner_of
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.lint.subject import Subject

OWNED = ("ReplicaSet", "StatefulSet", "ReplicationController", "PodDisruptionBudget")
"""The kinds, besides pods, that are read and that other controllers make."""
HIGHEST = 5
"""So many controllers stand over each other at most."""


class Makers:
    """By the references to controllers that the objects of a cluster have."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def maker(self, subject: Subject) -> str:
        """``Prometheus monitoring/k8s``, the topmost that is known; empty for what nobody made, and for manifests."""
        found, last = Owner(subject.kind, subject.namespace, subject.name), None
        for _ in range(HIGHEST if not subject.document else 0):
            above = self._workloads_of_pods.get(found) if found.kind == "Pod" else self._controllers.get(found)
            if above is None or above == found:
                break
            found = last = above
        return str(last) if last else ""

    @cached_property
    def _controllers(self) -> dict[Owner, Owner]:
        """Object -> its controller, in the same namespace."""
        return {
            Owner(kind, meta.namespace, meta.name): Owner(controller.kind, meta.namespace, controller.name)
            for kind, meta in self._metadata()
            if (controller := controller_of(meta)) is not None
        }

    def _metadata(self) -> Iterator[tuple[str, ObjectMeta]]:
        for kind in OWNED:
            for each in getattr(self._cluster, FIELDS[kind]):
                yield kind, each.metadata

    @cached_property
    def _workloads_of_pods(self) -> dict[Owner, Owner]:
        pods = self._cluster.pods
        return {Owner("Pod", pod.metadata.namespace, pod.metadata.name): owner_of(pod) for pod in pods}
