"""The workloads of a cluster, by the pods that it has: whose they are, how many, and what one of them is like."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api import objects as api
from kschedctl.api.ownership import ADDED_LABELS, Owner, owner_of
from kschedctl.cluster import Cluster
from kschedctl.lint.stored_pods import as_written, without_node_pin, without_own_claims
from kschedctl.lint.subject import Subject
from kschedctl.lint.workload import TEMPLATES, Workload


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
        yield Workload(Subject(kind, name, namespace), labels, spec, count, at=TEMPLATES.get(kind, ()))


def pods_by_owner(cluster: Cluster) -> dict[Owner, list[api.Pod]]:
    """The pods that have not ended, by their controller; those of a ReplicaSet by the Deployment behind it."""
    found: dict[Owner, list[api.Pod]] = {}
    for pod in cluster.pods:
        if not pod.terminated:
            found.setdefault(owner_of(pod), []).append(pod)
    return found
