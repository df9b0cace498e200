"""The pods that wait for a node, chosen by namespace and labels."""

from __future__ import annotations

from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.workload_pods import is_waiting


def waiting(cluster: Cluster, namespace: str | None, selector: str | None = None) -> list[Pod]:
    """The pods that wait for a node; not those that are being deleted. ``namespace``: None for all."""
    chosen = parse_selector(selector) if selector else None
    return [
        pod
        for pod in cluster.unbound_pods()
        if is_waiting(pod)
        and namespace in (None, pod.metadata.namespace)
        and (chosen is None or chosen.matches(pod.metadata.labels))
    ]


def described(namespace: str | None, selector: str | None = None) -> str:
    """``in namespace shop with labels app=web``."""
    where = "in all namespaces" if namespace is None else f"in namespace {namespace}"
    return f"{where} with labels {selector}" if selector else where
