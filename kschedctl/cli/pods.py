"""Which pods a command line means: ``POD``, ``-n``, ``-A`` and ``-l``, with kubectl's habits."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from kschedctl.api.labels import parse_selector
from kschedctl.api.objects import Pod
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError

RESOURCE = ("pod", "pods", "po")


def find(cluster: Cluster, reference: str, scope: Scope) -> Pod:
    """The pod that ``name``, ``pod/name`` or ``namespace/name`` means. Raises UsageError when it is not just one."""
    namespace, name = split(reference, scope)
    if namespace is None:
        found = [pod for pod in cluster.pods if pod.metadata.name == name]
    else:
        found = [pod] if (pod := cluster.pod(namespace, name)) else []
    if len(found) == 1:
        return found[0]
    if found:
        which = ", ".join(pod.key for pod in found)
        raise UsageError(f'"{name}" names {len(found)} pods: {which}', hint="say which with namespace/name")
    near = near_names(cluster.pods, namespace, name)
    hint = f"did you mean {' or '.join(near)}?" if near else ""
    raise UsageError(f'pod "{name if namespace is None else f"{namespace}/{name}"}" not found', hint=hint)


def split(reference: str, scope: Scope) -> tuple[str | None, str]:
    """Namespace (None: any) and name. Raises UsageError."""
    first, slash, rest = reference.partition("/")
    if not reference.strip("/") or "/" in rest or (slash and not (first and rest)):
        raise UsageError(f'"{reference}" is no pod', hint="name, pod/name or namespace/name")
    if slash and first not in RESOURCE:
        if scope.namespace not in (None, first):
            raise UsageError(f'"{reference}" is not in namespace "{scope.namespace}"', hint="leave -n out")
        return first, rest
    return None if scope.all_namespaces else scope.namespace or DEFAULT_NAMESPACE, rest or reference


def names_namespace(reference: str) -> bool:
    """Whether it is ``namespace/name``."""
    first, slash, _ = reference.partition("/")
    return bool(slash) and first not in RESOURCE


def near_names(pods: Iterable[Pod], namespace: str | None, name: str) -> list[str]:
    """Up to three pods that may have been meant: of that name elsewhere, else of a name like it or starting so."""
    by_name: dict[str, list[Pod]] = {}
    for pod in pods:
        by_name.setdefault(pod.metadata.name, []).append(pod)
    names = [name] if name in by_name else get_close_matches(name, by_name)
    names += [other for other in by_name if other.startswith(f"{name}-")][:3]
    found = [pod for other in dict.fromkeys(names) for pod in by_name[other]]
    found.sort(key=lambda pod: pod.metadata.namespace != namespace)
    return [pod.key for pod in found[:3]]


def pending(cluster: Cluster, scope: Scope) -> list[Pod]:
    """The pods that wait for a node, of the scope; not those that are being deleted."""
    selector = parse_selector(scope.selector) if scope.selector else None
    namespace = None if scope.all_namespaces else scope.namespace or DEFAULT_NAMESPACE
    return [
        pod
        for pod in cluster.unbound_pods()
        if not (pod.terminated or pod.metadata.deletion_timestamp)
        and namespace in (None, pod.metadata.namespace)
        and (selector is None or selector.matches(pod.metadata.labels))
    ]


def describe(scope: Scope) -> str:
    """``in namespace shop with labels app=web``."""
    where = "in all namespaces" if scope.all_namespaces else f"in namespace {scope.namespace or DEFAULT_NAMESPACE}"
    return f"{where} with labels {scope.selector}" if scope.selector else where
