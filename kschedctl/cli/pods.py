"""Lookup of pods by name, and of pending pods by `-n`, `-A` and `-l`."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kschedctl.api.copying import replace
from kschedctl.api.objects import Pod
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.workload_pods import describe_scope, find_pending_pods, is_pending
from kschedctl.replay.edits import add_pods

MOST_ALIKE = 10


def find_pod(cluster: Cluster, name: str, namespace: str | None) -> Pod:
    """Return the pod with this name, in any namespace if none is named. Raises UsageError."""
    if namespace is None:
        pods = [pod for pod in cluster.pods if pod.metadata.name == name]
    else:
        pods = [pod] if (pod := cluster.pod(namespace, name)) else []
    if len(pods) == 1:
        return pods[0]
    if pods:
        which = ", ".join(pod.key for pod in pods)
        raise UsageError(f'"{name}" names {len(pods)} pods: {which}', hint="say which with namespace/name")
    near = find_similar_pods(cluster.pods, namespace, name)
    hint = f"did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(f'pod "{name if namespace is None else f"{namespace}/{name}"}" not found', hint=hint)


def find_similar_pods(pods: Iterable[Pod], namespace: str | None, name: str) -> list[str]:
    """Return up to three pods that the user may have meant.

    Candidates have the same name in another namespace, a similar name, or a name that starts with a similar name, as
    the pods of a workload have. Pending pods come first, then pods of the namespace.
    """
    by_name: dict[str, list[Pod]] = {}
    for pod in pods:
        by_name.setdefault(pod.metadata.name, []).append(pod)
    names = [name] if name in by_name else get_close_matches(name, by_name, MOST_ALIKE)
    stems = {stem for other in by_name for stem in (other.rpartition("-")[0], other.rsplit("-", 2)[0]) if stem}
    starts = tuple(f"{stem}-" for stem in (name, *get_close_matches(name, stems)))
    names += [other for other in by_name if other.startswith(starts)]
    matching = [pod for other in dict.fromkeys(names) for pod in by_name[other]]
    matching.sort(key=lambda pod: (not is_pending(pod), pod.metadata.namespace != namespace))
    return [pod.key for pod in matching[:3]]


def find_pending(cluster: Cluster, scope: Scope) -> list[Pod]:
    """Return the pending pods of the scope, without those that are being deleted."""
    return find_pending_pods(cluster, namespace_of_scope(scope), scope.selector)


def namespace_of_scope(scope: Scope) -> str | None:
    """Return the namespace to look at, or None for all."""
    return None if scope.all_namespaces else scope.namespace or DEFAULT_NAMESPACE


def check_namespace(cluster: Cluster, scope: Scope) -> None:
    """Raise UsageError if the cluster does not have the namespace and all namespaces were read."""
    name = scope.namespace or DEFAULT_NAMESPACE
    known = [namespace.metadata.name for namespace in cluster.namespaces]
    if scope.all_namespaces or not known or "Namespace" in cluster.gaps or name in (*known, DEFAULT_NAMESPACE):
        return
    workloads = (cluster.deployments, cluster.replica_sets, cluster.stateful_sets, cluster.daemon_sets, cluster.jobs)
    if any(obj.metadata.namespace == name for objects in (cluster.pods, *workloads) for obj in objects):
        return
    near = get_close_matches(name, known, 3)
    raise UsageError(f'namespace "{name}" not found', hint=f"did you mean {' or '.join(near)}?" if near else "")


def describe_pods_of_scope(scope: Scope) -> str:
    """Return a phrase such as `in namespace shop with labels app=web`."""
    return describe_scope(namespace_of_scope(scope), scope.selector)


def asking_for(cluster: Cluster, scheduler_name: str | None) -> Cluster:
    """Return the cluster as if all unbound pods used this scheduler."""
    if scheduler_name is None:
        return cluster
    asking = (replace(pod, spec=replace(pod.spec, scheduler_name=scheduler_name)) for pod in cluster.unbound_pods())
    return add_pods(cluster, asking)
