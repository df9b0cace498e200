"""CapacityScheduling: namespaces share the cluster by their ElasticQuotas, and borrow what others do not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.preemption.evaluator import NEVER, TERMINATING, Ineligible, PreemptionPlugin
from kschedctl.scheduler.framework import Code, PreFilterResult, Status, required_state
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, added, effective_requests
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import (
    KIND,
    Quota,
    QuotaUse,
    exceeded,
    quotas_by_namespace,
)
from kschedctl.scheduler.scheduler_plugins.placed_is_reserved import PlacedIsReserved
from kschedctl.scheduler.scheduler_plugins.quota_victims import QUOTA_VICTIMS_SORTED_AGAIN, QuotaClaim, QuotaVictims
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

NOT_ASKED = "not eligible due to failed to read from cycleState"


class CapacityScheduling(PlacedIsReserved, PreemptionPlugin[QuotaClaim, None]):
    """Refuses a pod with which its namespace would use more than its quota's max, or all quotas more than their mins.

    Pods of namespaces without a quota pass. What others borrow of the min of a pod's quota it gets back by evicting
    pods of theirs, whatever their priority.

    Upstream: pkg/capacityscheduling/capacity_scheduling.go of kubernetes-sigs/scheduler-plugins.
    """

    name = "CapacityScheduling"
    changed = (QUOTA_VICTIMS_SORTED_AGAIN,)
    kinds: ClassVar[tuple[str, ...]] = (KIND, "PodDisruptionBudget")
    by_priority = False

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[QuotaClaim]:
        use, own = quota_use(view), effective_requests(info.pod)
        quota = use.quotas.get(info.namespace)
        if quota is None:
            return PreFilterResult(state=QuotaClaim(own, own, own))
        ours, others = _nominated(info, view, use)
        claim = QuotaClaim(own, added(*ours, own), added(*ours, *others, own))
        used = use.of(info.namespace)
        if name := quota.over_max(used, claim.ours):
            why = f"ElasticQuota {quota.namespace} is more than Max"
            fact = _told(name, used, claim.ours, f"the max of {quota.name}", quota.most or {})
            return _refused(info, claim, why, fact)
        used, least = use.everywhere(), added(*(quota.least for quota in use.quotas.values()))
        if name := exceeded(added(used, claim.everyone), {}, least, 0):
            why = "total ElasticQuota used is more than min"
            return _refused(info, claim, why, _told(name, used, claim.everyone, "the mins of all quotas", least))
        return PreFilterResult(state=claim)

    def find_ineligibility(self, cycle: Cycle) -> Ineligible | None:
        """Why it may not preempt: it must not, PreFilter was not asked, or pods leave its node, whose room it gets."""
        pod, view = cycle.info.pod, cycle.view
        if pod.spec.preemption_policy == "Never":
            return Ineligible(NEVER)
        if self.name not in cycle.pre_filter.reached:
            return Ineligible(NOT_ASKED)
        row = view.nodes.index.get(pod.status.nominated_node_name)
        if row is None or cycle.get_node_status(row).code is Code.UNRESOLVABLE:
            return None
        selection = self.select_victims(cycle)
        here = (p for p in view.pods_on(row) if view.pods.objects[p].metadata.deletion_timestamp is not None)
        leaving = tuple(position for position in here if selection.makes_room(position))
        return Ineligible(TERMINATING, leaving) if leaving else None

    def select_victims(self, cycle: Cycle) -> QuotaVictims:
        claim = required_state(cycle.pre_filter.find_state(CapacityScheduling), NOT_ASKED)
        return QuotaVictims(cycle.info, cycle.view, quota_use(cycle.view), claim)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        yield Dependency(KIND, Effect.EITHER)
        yield Dependency("PodDisruptionBudget", Effect.VICTIMS)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint(KIND, ActionType.ALL)


def quota_use(view: Fork) -> QuotaUse:
    """What the pods of namespaces with a quota use."""
    return QuotaUse(view, view.objects.index(KIND, quotas_by_namespace, KIND))


def _refused(info: PodInfo, claim: QuotaClaim, why: str, fact: str) -> PreFilterResult[QuotaClaim]:
    reason = f"Pod {info.namespace}/{info.pod.metadata.name} is rejected in PreFilter because {why}"
    return PreFilterResult(Status(Code.UNSCHEDULABLE, (reason,)), state=claim, fact=fact)


def _nominated(info: PodInfo, view: Fork, use: QuotaUse) -> tuple[list[Requests], list[Requests]]:
    """What pods with a nominated node count with: those of the namespace before which the pod must wait, and those of
    other quotas that use no more than they are guaranteed."""
    ours: list[Requests] = []
    others: list[Requests] = []
    within: dict[str, bool] = {}
    for position in view.nominations[1].tolist():
        pod: Pod = view.pods.objects[position]
        quota: Quota | None = use.quotas.get(pod.metadata.namespace)
        if quota is None or view.node[position] >= 0 or is_same_pod(pod, info.pod):
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
