"""The pods that wait for a scheduler, and the terminating pods that should be gone."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.labels import parse_selector
from kschedctl.api.node_health import NodeHealth, get_node_health
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.api.times import format_age, parse_microseconds
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.replay.edits import select_pods
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import spell_age


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


def are_other_replicas_available(view: Fork, pod: Pod) -> bool:
    """Return whether all other pods of the pod's workload are ready, on nodes that are ready in the view.

    Pods that are being deleted do not count. The result is cached for each workload.
    """
    owner = find_owner(pod)

    def is_available(replica: Pod) -> bool:
        """Return whether the pod is ready on a ready node."""
        position = view.pods.find_position(replica.key)
        if position is None or not view.has_node(position):
            return False
        is_ready = all(
            condition.status == "True" for condition in replica.status.conditions if condition.type == "Ready"
        )
        return is_ready and get_node_health(view.nodes.objects[view.node[position]]) is NodeHealth.READY

    def find_unavailable_replicas() -> frozenset[str]:
        """Return the keys of the workload's pods that are not available."""
        replicas = select_pods(view.cluster, lambda other: find_owner(other) == owner)
        return frozenset(
            replica.key
            for replica in replicas
            if not (replica.terminated or replica.metadata.deletion_timestamp or is_available(replica))
        )

    unavailable: frozenset[str] = view.memo((are_other_replicas_available, owner), find_unavailable_replicas)
    return unavailable <= {pod.key}


def build_queue_entry_key(pod: Pod) -> tuple[bool, bool, str]:
    """Return a key that sorts pending pods of equal priority by the time at which they probably entered the queue.

    A pod enters the queue when it is created, and keeps its place while the scheduler rejects it again and again. First
    come the pods that the scheduler has rejected before, then those that it has not tried, such as replacements of
    evicted pods. Pods without a creation time do not exist yet and come last. Upstream: PrioritySort compares the times
    at which pods entered the queue.
    """
    was_tried = any(condition.type == "PodScheduled" for condition in pod.status.conditions)
    created = pod.metadata.creation_timestamp or ""
    return not was_tried, not created, created


def describe_scope(namespace: str | None, selector: str | None = None) -> str:
    """Describe the namespace and labels that select pods, such as ``in namespace shop with labels app=web``."""
    where = "across all namespaces" if namespace is None else f"in namespace {namespace}"
    return f"{where} with labels {selector}" if selector else where


OVERDUE_SECONDS = 60
"""The time that a pod may outlive its grace period."""


def describe_overdue_time(cluster: Cluster, pods: Iterable[Pod]) -> str:
    """Describe how long the most overdue of the terminating pods should have been gone, such as ``9 days``.

    Return "" if no pod is overdue, or if it is not known when the cluster was read. The grace period of a pod ends at
    its metadata.deletionTimestamp.
    """
    read_at = cluster.provenance.read_at if cluster.provenance else ""
    deadlines = [pod.metadata.deletion_timestamp for pod in pods if pod.metadata.deletion_timestamp]
    if not read_at or not deadlines:
        return ""
    earliest = min(deadlines)
    try:
        late_microseconds = parse_microseconds(read_at) - parse_microseconds(earliest)
    except InputError:
        return ""
    return spell_age(format_age(earliest, read_at)) if late_microseconds > OVERDUE_SECONDS * 10**6 else ""
