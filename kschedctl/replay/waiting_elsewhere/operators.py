"""Custom resources whose operators create pods: nobody here knows the shape of pods that do not exist yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.kinds import KINDS, ReadFor
from kschedctl.api.operator_resources import CustomResource, OperatorResource
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.entries import entry, pods_alike
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import agreeing, counted

_OPERATED = tuple(
    kind for kind in KINDS.values() if kind.read_for is ReadFor.ELSEWHERE and issubclass(kind.struct, OperatorResource)
)


def resources_without_pods(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield the custom resources that ask for more pods than exist of them."""
    labels = _OwnLabels(cluster)
    for kind in _OPERATED:
        for resource in getattr(cluster, kind.field):
            name = resource.resource_kind if isinstance(resource, CustomResource) else kind.kind
            report = _report(name, resource, labels, now)
            if report is not None:
                yield report


def _report(kind: str, resource: OperatorResource, labels: _OwnLabels, now: str) -> WaitingElsewhere | None:
    """Return what is to be told of one resource, None if all its pods exist or it wants none."""
    if resource.has_ended or resource.expected_pods == 0:
        return None
    meta = resource.metadata
    existing = labels.count_pods_of(kind, resource)
    missing = None if resource.expected_pods is None else resource.expected_pods - existing
    if (missing is None and existing) or (missing is not None and missing <= 0):
        return None
    short = f"{kind}/{meta.name}"
    if resource.suspended:
        headline, state = f"{short} is suspended: {_pods(missing)} once it is resumed", WaitingState.SUSPENDED
    else:
        more = f" ({existing:,} {agreeing(existing, 'exists', 'exist')})" if existing else ""
        headline = f"{_pods(missing)} expected by {short}{more}; kschedctl cannot know their shape"
        state = WaitingState.NOT_CHECKED
    phase = f"its status says {resource.phase}" if resource.phase else ""
    message = f"its status says {resource.message}" if resource.message and not phase else resource.message
    return entry(
        kind,
        meta,
        state,
        headline,
        now=now,
        pods=missing,
        decides=f"the operator of {kind}",
        details=filter(None, (": ".join(filter(None, (phase, message))),)),
        conditions=[c for c in resource.conditions if c.message or c.status != "True"],
    )


def _pods(number: int | None) -> str:
    return "pods" if number is None else counted(number, "pod")


class _OwnLabels:
    """Finds the pods of custom resources: by the label values and owners of pods, each of which is looked at once."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods = cluster.pods
        self._namespaces: dict[str, list[tuple[frozenset[str], int]]] | None = None

    def count_pods_of(self, kind: str, resource: OperatorResource) -> int:
        """Return how many pods have an owner or a label value that is the resource's name, or its UID."""
        if self._namespaces is None:
            self._namespaces = _names_of_pods(self._pods)
        meta = resource.metadata
        wanted = {meta.name, *((meta.uid,) if meta.uid else ())}
        in_namespace: Sequence[tuple[frozenset[str], int]] = self._namespaces.get(meta.namespace, ())
        return sum(number for names, number in in_namespace if wanted & names)


def _names_of_pods(pods: PodTable) -> dict[str, list[tuple[frozenset[str], int]]]:
    """Return, by namespace, the names of owners and in labels that pods alike bear, and how many pods these are."""
    namespaces: dict[str, list[tuple[frozenset[str], int]]] = {}
    for pod, number in pods_alike(pods):
        meta = pod.metadata
        owners = (text for owner in meta.owner_references for text in (owner.name, owner.uid) if text)
        namespaces.setdefault(meta.namespace, []).append((frozenset((*meta.labels.values(), *owners)), number))
    return namespaces
