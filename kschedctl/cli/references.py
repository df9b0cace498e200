"""What a command line names: ``web``, ``pod/web``, ``pod web``, ``shop/web``, ``deploy/web``, as kubectl has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kschedctl.api.kinds import KINDS, pluralize_kind
from kschedctl.api.operator_resources import OperatorResource
from kschedctl.errors import UsageError

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
"""The kinds that may be asked about -> kubectl's short name; ``deployments.apps`` is a name, too."""
_KINDS = {
    name: kind
    for kind, short in SHORT_NAMES.items()
    for name in (kind.lower(), pluralize_kind(kind).lower(), short)
    if name
}
ELSEWHERE_KINDS: Mapping[str, tuple[str, ...]] = {
    "Workload": ("kueue_workloads",),
    "PodGroup": ("pod_groups", "coscheduling_pod_groups", "volcano_pod_groups"),
    **{
        kind.kind: (kind.field,)
        for kind in KINDS.values()
        if kind.struct is OperatorResource and kind.kind not in SHORT_NAMES
    },
}
"""The kinds of what waits before kube-scheduler sees a pod of it -> the fields of a Cluster that hold their objects."""
_ELSEWHERE = {name: kind for kind in ELSEWHERE_KINDS for name in (kind.lower(), pluralize_kind(kind).lower())}


class Reference(NamedTuple):
    """``namespace`` is empty where the word names none."""

    kind: str
    namespace: str
    name: str


def kind_of(word: str) -> str:
    """The kind that kubectl's name of it means, empty when it is none.

    >>> kind_of("sts"), kind_of("deployments.apps"), kind_of("web")
    ('StatefulSet', 'Deployment', '')
    """
    name = word.lower().partition(".")[0]
    return _KINDS.get(name) or _ELSEWHERE.get(name, "")


def references(words: Sequence[str]) -> Iterator[Reference]:
    """What the words name; the first may be the kind of all others. Raises UsageError for a word that names nothing."""
    kind = kind_of(words[0]) if len(words) > 1 else ""
    for word in words[1:] if kind else words:
        yield Reference(kind, "", word) if kind and "/" not in word else _reference(word)


def are_pods(words: Sequence[str]) -> bool:
    """Whether no word names anything but a pod. Raises UsageError for one that names nothing."""
    return all(reference.kind == "Pod" for reference in references(words))


def _reference(word: str) -> Reference:
    first, slash, name = word.partition("/")
    if not word.strip("/") or "/" in name or (slash and not (first and name)):
        raise UsageError(f'"{word}" is no pod', hint="name, pod/name, deploy/name or namespace/name")
    if not slash:
        return Reference("Pod", "", word)
    kind = kind_of(first)
    return Reference(kind, "", name) if kind else Reference("Pod", first, name)
