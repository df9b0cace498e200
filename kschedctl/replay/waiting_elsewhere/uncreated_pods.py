"""PodGroups and custom resources that wait for pods that do not exist yet.

PodGroups whose pods exist are not reported here, as their pods are pending.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from kschedctl.api.gangs import find_coscheduling_gang
from kschedctl.api.kinds import KINDS, ReadFor
from kschedctl.api.operator_resources import CustomResource, OperatorResource
from kschedctl.api.pod_table import PodTable
from kschedctl.cluster import Cluster
from kschedctl.replay.waiting_elsewhere.entries import build_waiting_entry, is_condition_true, iter_pod_templates
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, WaitingState
from kschedctl.text.counts import agreeing, counted

_OPERATED = tuple(
    kind for kind in KINDS.values() if kind.read_for is ReadFor.ELSEWHERE and issubclass(kind.struct, OperatorResource)
)


def iter_resources_missing_pods(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield a report for each resource that wants more pods than exist.

    The resources are those whose pods an operator or a controller creates, including custom resources. ``now`` is the
    current time (RFC 3339), from which ages are computed. If it is empty, the reports have no ages.
    """
    pod_index = _PodIndex(cluster)
    for kind in _OPERATED:
        for resource in getattr(cluster, kind.field):
            name = resource.resource_kind if isinstance(resource, CustomResource) else kind.kind
            report = _build_resource_report(name, resource, pod_index, now)
            if report is not None:
                yield report


def _build_resource_report(
    kind: str, resource: OperatorResource, pod_index: _PodIndex, now: str
) -> WaitingElsewhere | None:
    """Build the report on one resource, or return None if it wants no more pods.

    A resource whose wanted number of pods is unknown is not reported if it has pods. ``now`` is the RFC 3339 time for
    its age, or empty.
    """
    if resource.has_ended or resource.expected_pods == 0:
        return None
    meta = resource.metadata
    existing = pod_index.count_pods(kind, resource)
    # A resource with an unknown number of pods waits only if it has none
    if resource.expected_pods is None:
        missing = None
        wants_more = not existing
    else:
        missing = resource.expected_pods - existing
        wants_more = missing > 0
    if not wants_more:
        return None

    title = f"{kind}/{meta.name}"
    if resource.suspended:
        state = WaitingState.SUSPENDED
        headline = f"{title} is suspended: {_render_pod_count(missing)} once it is resumed"
    else:
        state = WaitingState.NOT_CHECKED
        existing_clause = f" ({existing:,} {agreeing(existing, 'exists', 'exist')})" if existing else ""
        headline = (
            f"{_render_pod_count(missing)} expected by {title}{existing_clause}; "
            "kschedctl does not know what they request"
        )
    return build_waiting_entry(
        kind,
        meta,
        state,
        headline,
        now=now,
        pods=missing,
        decides=f"the operator of {kind}",
        details=_describe_status(resource),
        conditions=[condition for condition in resource.conditions if condition.message or condition.status != "True"],
    )


def _describe_status(resource: OperatorResource) -> tuple[str, ...]:
    """Return a line with the phase and the message in the resource's status, or () if it has neither."""
    texts = [text for text in (resource.phase, resource.message) if text]
    return (f"its status says {': '.join(texts)}",) if texts else ()


def _render_pod_count(number: int | None) -> str:
    """Format a number of pods, which may be unknown."""
    return "pods" if number is None else counted(number, "pod")


class _PodIndex:
    """Finds the pods of custom resources by label values and owners."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods = cluster.pods
        self._namespaces: dict[str, list[tuple[frozenset[str], int]]] | None = None

    def count_pods(self, kind: str, resource: OperatorResource) -> int:
        """Return how many pods belong to the resource, judged by owners and label values that are its name or UID."""
        if self._namespaces is None:
            self._namespaces = _list_pod_identifiers_by_namespace(self._pods)
        meta = resource.metadata
        identifiers = set(filter(None, (meta.name, meta.uid)))
        in_namespace: Sequence[tuple[frozenset[str], int]] = self._namespaces.get(meta.namespace, ())
        return sum(count for names, count in in_namespace if identifiers & names)


def _list_pod_identifiers_by_namespace(pods: PodTable) -> dict[str, list[tuple[frozenset[str], int]]]:
    """Return, by namespace, the identifiers and the size of each group of identical pods.

    The identifiers are the label values, and the names and UIDs of the owners.
    """
    namespaces: dict[str, list[tuple[frozenset[str], int]]] = {}
    for pod, count in iter_pod_templates(pods):
        meta = pod.metadata
        identifiers = set(meta.labels.values())
        for owner in meta.owner_references:
            identifiers.update(filter(None, (owner.name, owner.uid)))
        namespaces.setdefault(meta.namespace, []).append((frozenset(identifiers), count))
    return namespaces


SCHEDULER_PLUGINS = "Coscheduling of scheduler-plugins"
KUBE_SCHEDULER = "kube-scheduler"
_NOT_STARTED = frozenset({"", "Pending", "PreScheduling", "Scheduling"})
_SCHEDULED = ("PodGroupScheduled", "PodGroupInitiallyScheduled")


def iter_waiting_coscheduling_groups(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the PodGroups of Coscheduling that have not started and have fewer pods than minMember.

    ``now`` is the RFC 3339 time for their ages, or empty.
    """
    if not cluster.coscheduling_pod_groups:
        return
    members: Counter[tuple[str, str]] = Counter()
    for pod, number in iter_pod_templates(cluster.pods):
        if key := find_coscheduling_gang(pod):
            members[key.namespace, key.name] += number
    for group in cluster.coscheduling_pod_groups:
        meta, wanted, phase = group.metadata, group.spec.min_member, group.status.phase
        existing = members[meta.namespace, meta.name]
        if phase not in _NOT_STARTED or existing >= wanted:
            continue
        yield build_waiting_entry(
            "PodGroup",
            meta,
            WaitingState.NOT_ADMITTED,
            f"waits for its pods: {existing:,} of minMember {wanted:,} {'exists' if existing == 1 else 'exist'}",
            now=now,
            pods=wanted,
            decides=SCHEDULER_PLUGINS,
            details=(f"the PodGroup's phase is {phase or 'not set yet'}",),
        )


def iter_waiting_native_groups(cluster: Cluster, now: str) -> Iterator[WaitingElsewhere]:
    """Yield reports on the PodGroups of Kubernetes that are not scheduled and have fewer pods than minCount.

    PodGroups that are not gangs are left out. ``now`` is the RFC 3339 time for their ages, or empty.
    """
    if not cluster.pod_groups:
        return
    members: Counter[tuple[str, str | None]] = Counter()
    for pod, number in iter_pod_templates(cluster.pods):
        if pod.spec.scheduling_group is not None:
            members[pod.metadata.namespace, pod.spec.scheduling_group.pod_group_name] += number
    for group in cluster.pod_groups:
        meta, gang = group.metadata, group.spec.scheduling_policy.gang
        existing = members[meta.namespace, meta.name]
        is_scheduled = any(is_condition_true(group.status.conditions, type_) for type_ in _SCHEDULED)
        if is_scheduled or gang is None or existing >= gang.min_count:
            continue
        yield build_waiting_entry(
            "PodGroup",
            meta,
            WaitingState.NOT_ADMITTED,
            f"waits for its pods: {counted(existing, 'pod')} of minCount {gang.min_count:,} "
            f"{'exists' if existing == 1 else 'exist'}",
            now=now,
            pods=gang.min_count,
            decides=KUBE_SCHEDULER,
            conditions=group.status.conditions,
        )
