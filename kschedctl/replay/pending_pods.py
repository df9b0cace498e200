"""The pending pods of a cluster, which wait for a scheduler."""

from __future__ import annotations

from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster


def is_pending(pod: Pod) -> bool:
    """Return whether the pod waits for the scheduler."""
    return not (pod.spec.node_name or pod.terminated or pod.metadata.deletion_timestamp)


def find_pending_pods(cluster: Cluster, namespace: str | None, selector: str | None = None) -> list[Pod]:
    """Return the pending pods in a namespace that match the label selector.

    None stands for all namespaces or all pods. Raises SelectorError if the selector is invalid.
    """
    pods = [pod for pod in cluster.unbound_pods() if is_pending(pod)]
    if namespace is not None:
        pods = [pod for pod in pods if pod.metadata.namespace == namespace]
    if selector:
        parsed_selector = parse_selector(selector)
        pods = [pod for pod in pods if parsed_selector.matches(pod.metadata.labels)]
    return pods


def describe_scope(namespace: str | None, selector: str | None = None) -> str:
    """Describe the namespace and labels that select pods, such as ``in namespace shop with labels app=web``."""
    where = "in all namespaces" if namespace is None else f"in namespace {namespace}"
    return f"{where} with labels {selector}" if selector else where
