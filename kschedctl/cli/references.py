"""References to objects on a command line, as kubectl writes them: `web`, `pod/web`, `shop/web`, `deploy/web`."""

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
"""Kind that can be asked about -> kubectl's short name. `deployments.apps` is understood as well."""
_KINDS = {
    name: kind
    for kind, short in SHORT_NAMES.items()
    for name in (kind.lower(), pluralize_kind(kind).lower(), short)
    if name
}
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
    """Return the kind for one of kubectl's names of it, or "" if the word is no such name.

    >>> parse_kind("sts"), parse_kind("deployments.apps"), parse_kind("web")
    ('StatefulSet', 'Deployment', '')
    """
    name = word.lower().partition(".")[0]
    return _KINDS.get(name) or _ELSEWHERE.get(name, "")


def parse_references(words: Sequence[str]) -> Iterator[Reference]:
    """Parse the words; the first may be the kind of all others. Raises UsageError."""
    kind = parse_kind(words[0]) if len(words) > 1 else ""
    for word in words[1:] if kind else words:
        yield Reference(kind, "", word) if kind and "/" not in word else _parse_reference(word)


def name_only_pods(words: Sequence[str]) -> bool:
    """Return whether all words name pods. Raises UsageError."""
    return all(reference.kind == "Pod" for reference in parse_references(words))


def _parse_reference(word: str) -> Reference:
    """Parse one word. Raises UsageError."""
    first, slash, name = word.partition("/")
    if not word.strip("/") or "/" in name or (slash and not (first and name)):
        raise UsageError(f'"{word}" is no pod', hint="name, pod/name, deploy/name or namespace/name")
    if not slash:
        return Reference("Pod", "", word)
    kind = parse_kind(first)
    return Reference(kind, "", name) if kind else Reference("Pod", first, name)
