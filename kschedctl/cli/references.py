"""References to objects on a command line, such as `shop/web` and `deploy/web`, and lookup of the pods they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.kinds import KINDS, pluralize_kind
from kschedctl.api.objects import Pod
from kschedctl.api.operator_resources import OperatorResource
from kschedctl.api.ownership import Owner
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.replay.edits import add_or_replace_pods
from kschedctl.replay.pending_pods import find_pending_pods, is_pending
from kschedctl.text.counts import join_words

SHORT_NAMES = {
    "Pod": "po",
    "Deployment": "deploy",
    "StatefulSet": "sts",
    "DaemonSet": "ds",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "Job": "",
    "CronJob": "cj",
    "Node": "no",
    "Service": "svc",
}
"""Kind that can be asked about -> kubectl's short name. `deployments.apps` is understood as well."""
_KINDS = {
    name: kind
    for kind, short in SHORT_NAMES.items()
    for name in (kind.lower(), pluralize_kind(kind).lower(), short)
    if name
}
"""Word of the command line -> kind."""
HELD_BACK_KINDS: Mapping[str, tuple[str, ...]] = {
    "Workload": ("kueue_workloads",),
    "PodGroup": ("pod_groups", "coscheduling_pod_groups", "volcano_pod_groups"),
    **{
        kind.kind: (kind.field,)
        for kind in KINDS.values()
        if kind.struct is OperatorResource and kind.kind not in SHORT_NAMES
    },
}
"""Kind of object that holds pods back from kube-scheduler -> its fields of Cluster."""
_ELSEWHERE = {name: kind for kind in HELD_BACK_KINDS for name in (kind.lower(), pluralize_kind(kind).lower())}


class Reference(NamedTuple):
    """An object named on the command line."""

    kind: str
    namespace: str
    """The namespace in the word, or ""."""
    name: str


def parse_kind(word: str) -> str:
    """Return the kind that a word such as `deploy` or `sts` stands for, or "" if it names no kind.

    >>> parse_kind("sts"), parse_kind("deployments.apps"), parse_kind("web")
    ('StatefulSet', 'Deployment', '')
    """
    name = word.lower().partition(".")[0]
    return _KINDS.get(name) or _ELSEWHERE.get(name, "")


def parse_references(words: Sequence[str]) -> Iterator[Reference]:
    """Parse the words into references. The first word may be the kind of all others.

    Raises UsageError if a word names no object.
    """
    kind = parse_kind(words[0]) if len(words) > 1 else ""
    for word in words[1:] if kind else words:
        yield Reference(kind, "", word) if kind and "/" not in word else _parse_reference(word)


def are_all_pods(words: Sequence[str]) -> bool:
    """Return whether all words name pods. Raises UsageError if a word names no object."""
    return all(reference.kind == "Pod" for reference in parse_references(words))


def _parse_reference(word: str) -> Reference:
    """Parse one word: `name`, `kind/name` or `namespace/name`.

    Raises UsageError if the word has another form.
    """
    first, slash, name = word.partition("/")
    is_empty = not word.strip("/")
    has_several_slashes = "/" in name
    lacks_part = bool(slash) and not (first and name)
    if is_empty or has_several_slashes or lacks_part:
        raise UsageError(f'"{word}" does not name a pod', hint="name, pod/name, deploy/name or namespace/name")
    if not slash:
        return Reference("Pod", "", word)
    kind = parse_kind(first)
    return Reference(kind, "", name) if kind else Reference("Pod", first, name)


MOST_ALIKE = 10


def find_pod(cluster: Cluster, name: str, namespace: str | None) -> Pod:
    """Find the pod with this name, in any namespace if ``namespace`` is None.

    Raises UsageError unless there is exactly one such pod.
    """
    pods = [pod for pod in cluster.pods.find_named(name) if namespace in (None, pod.metadata.namespace)]
    if len(pods) == 1:
        return pods[0]
    if pods:
        which = ", ".join(pod.key for pod in pods)
        raise UsageError(f'"{name}" names {len(pods)} pods: {which}', hint="name one as namespace/name")
    full_name = name if namespace is None else f"{namespace}/{name}"
    from kschedctl.replay.controllers.workload_pods import suggest_workloads  # noqa: PLC0415 - only for an error

    similar = (
        suggest_workloads(cluster, name, namespace=namespace)[:3]
        or find_similar_pods(cluster.pods, namespace, name)
        or suggest_workloads(cluster, name)[:3]
    )
    hint = f"did you mean {join_words(similar, 'or')}?" if similar else ""
    raise UsageError(f'pod "{full_name}" not found', hint=hint)


def find_similar_pods(pods: Iterable[Pod], namespace: str | None, name: str) -> list[str]:
    """Find up to three pods that the user may have meant.

    Candidates have the same name in another namespace, a similar name, or a name that starts similarly, like the pods
    of a workload. Pending pods come first, then pods in the namespace.
    """
    by_name: dict[str, list[Pod]] = {}
    for pod in pods:
        by_name.setdefault(pod.metadata.name, []).append(pod)
    names = [name] if name in by_name else get_close_matches(name, by_name, MOST_ALIKE)

    # The names of workloads: pods have one generated suffix, or two if a Deployment's ReplicaSet created them
    workload_names = {other.rpartition("-")[0] for other in by_name} | {other.rsplit("-", 2)[0] for other in by_name}
    workload_names.discard("")
    prefixes = tuple(f"{similar}-" for similar in (name, *get_close_matches(name, workload_names)))
    names += [other for other in by_name if other.startswith(prefixes)]

    matching = [pod for other in dict.fromkeys(names) for pod in by_name[other]]
    matching.sort(key=lambda pod: (not is_pending(pod), pod.metadata.namespace != namespace))
    return [pod.key for pod in matching[:3]]


def find_pending_in_scope(cluster: Cluster, scope: Scope) -> list[Pod]:
    """Find the pending pods of the scope. Pods that are being deleted are left out."""
    return find_pending_pods(cluster, get_scope_namespace(scope), scope.selector)


def get_scope_namespace(scope: Scope) -> str | None:
    """Return the namespace that the scope selects, or None for all."""
    return None if scope.all_namespaces else scope.namespace or DEFAULT_NAMESPACE


def require_existing_namespace(cluster: Cluster, scope: Scope) -> None:
    """Raise UsageError if the scope's namespace does not exist.

    A namespace that contains pods or workloads is assumed to exist. Nothing is checked if not all namespaces were read.
    """
    name = scope.namespace or DEFAULT_NAMESPACE
    namespaces = [namespace.metadata.name for namespace in cluster.namespaces]
    if scope.all_namespaces or name in (*namespaces, DEFAULT_NAMESPACE):
        return
    all_were_read = bool(namespaces) and "Namespace" not in cluster.gaps
    if not all_were_read:
        return
    workloads = (cluster.deployments, cluster.replica_sets, cluster.stateful_sets, cluster.daemon_sets, cluster.jobs)
    if any(obj.metadata.namespace == name for objects in (cluster.pods, *workloads) for obj in objects):
        return
    similar = get_close_matches(name, namespaces, 3)
    raise UsageError(
        f'namespace "{name}" not found', hint=f"did you mean {join_words(similar, 'or')}?" if similar else ""
    )


def assume_scheduler_name(cluster: Cluster, scheduler_name: str | None) -> Cluster:
    """Return the cluster with ``scheduler_name`` set on all unbound pods, or unchanged if it is None."""
    if scheduler_name is None:
        return cluster
    changed_pods = (
        replace(pod, spec=replace(pod.spec, scheduler_name=scheduler_name)) for pod in cluster.unbound_pods()
    )
    return add_or_replace_pods(cluster, changed_pods)


def build_workload_arguments(title: str) -> tuple[str, ...]:
    """Build the arguments that name a workload, from a title such as `Deployment shop/web`."""
    workload = Owner.parse(title)
    return (f"{workload.kind.lower()}/{workload.name}", "-n", workload.namespace)
