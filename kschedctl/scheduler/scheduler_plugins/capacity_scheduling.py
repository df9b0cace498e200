"""CapacityScheduling: namespaces share the cluster by their ElasticQuotas, and borrow what others do not use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from kschedctl.api.objects import Pod
from kschedctl.scheduler.configuration.feature_gates import FeatureGates
from kschedctl.scheduler.declaration import DeclaredPlugin
from kschedctl.scheduler.framework import Changes, Code, PreFilterResult, Reservation, Status
from kschedctl.scheduler.leaning import Effect, Lean
from kschedctl.scheduler.queueing.events import POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, added, effective_requests
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import (
    KIND,
    Quota,
    QuotaUse,
    exceeded,
    quotas_by_namespace,
)
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import PodInfo


class CapacityScheduling(DeclaredPlugin):
    """Refuses a pod with which its namespace would use more than its quota's max, or all quotas more than their mins.

    Pods of namespaces without a quota pass. Its preemption is not replayed.

    Upstream: pkg/capacityscheduling/capacity_scheduling.go of kubernetes-sigs/scheduler-plugins.
    """

    name = "CapacityScheduling"
    points = ("postFilter",)
    kinds: ClassVar[tuple[str, ...]] = (KIND,)

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult:
        quotas = view.objects.index(KIND, quotas_by_namespace, KIND)
        quota = quotas.get(info.namespace)
        if quota is None:
            return PreFilterResult()
        use, own = QuotaUse(view, quotas), effective_requests(info.pod)
        ours, others = _nominated(info, view, use)
        used, wanted = use.of(info.namespace), added(*ours, own)
        if name := quota.over_max(used, wanted):
            why = f"ElasticQuota {quota.namespace} is more than Max"
            return self._refused(info, why, _told(name, used, wanted, f"the max of {quota.name}", quota.most or {}))
        used, wanted = use.everywhere(), added(*ours, *others, own)
        least = added(*(each.least for each in quotas.values()))
        if name := exceeded(added(used, wanted), {}, least, 0):
            why = "total ElasticQuota used is more than min"
            return self._refused(info, why, _told(name, used, wanted, "the mins of all quotas", least))
        return PreFilterResult()

    def _refused(self, info: PodInfo, why: str, fact: str) -> PreFilterResult:
        pod = f"{info.namespace}/{info.pod.metadata.name}"
        reason = f"Pod {pod} is rejected in PreFilter because {why}"
        return PreFilterResult(Status(Code.UNSCHEDULABLE, (reason,)), fact=fact)

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: Any) -> Changes:
        """What is used follows from where the pods are."""
        return {}

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        return {}

    def reservation(self, info: PodInfo, view: Fork, row: int, state: Any) -> Reservation:
        return Reservation()

    def leans(self, info: PodInfo, view: Fork) -> Iterator[Lean]:
        yield Lean(KIND, Effect.EITHER)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint(KIND, ActionType.ALL)


def _nominated(info: PodInfo, view: Fork, use: QuotaUse) -> tuple[list[Requests], list[Requests]]:
    """What pods with a nominated node count with: those of the namespace before which the pod must wait, and those of
    other quotas that use no more than they are guaranteed."""
    ours: list[Requests] = []
    others: list[Requests] = []
    within: dict[str, bool] = {}
    for position in view.nominations[1].tolist():
        pod: Pod = view.pods.objects[position]
        quota: Quota | None = use.quotas.get(pod.metadata.namespace)
        if quota is None or view.node[position] >= 0 or same_pod(pod, info.pod):
            continue
        if quota.namespace == info.namespace:
            if (pod.spec.priority or 0) >= info.priority:
                ours.append(effective_requests(pod))
        elif within.setdefault(quota.namespace, not quota.over_min(use.of(quota.namespace))):
            others.append(effective_requests(pod))
    return ours, others


def _told(name: str, used: Requests, wanted: Requests, what: str, limits: Requests) -> str:
    amount, limit = used.get(name, 0), limits.get(name, 0)
    return f"{name}: {amount} used and {wanted.get(name, 0)} asked for are more than {limit}, {what}"
