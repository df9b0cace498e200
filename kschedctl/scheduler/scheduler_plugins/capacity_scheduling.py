"""CapacityScheduling: namespaces share the cluster by ElasticQuotas and borrow what other namespaces do not use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from kschedctl.api.objects import Pod
from kschedctl.scheduler.engine.cycle import Cycle
from kschedctl.scheduler.engine.preemption.evaluator import NEVER, TERMINATING, Ineligible, PreemptionPlugin
from kschedctl.scheduler.framework import Code, PreFilterResult, Status, require_state
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import POD, ActionType, ClusterEventWithHint
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.scheduler_plugins import PlacedIsReserved
from kschedctl.scheduler.scheduler_plugins.effective_requests import Requests, add_requests, sum_effective_requests
from kschedctl.scheduler.scheduler_plugins.elastic_quotas import (
    KIND,
    Quota,
    QuotaUse,
    find_exceeded_resource,
    index_quotas,
)
from kschedctl.scheduler.scheduler_plugins.quota_victims import QUOTA_VICTIMS_SORTED_AGAIN, QuotaClaim, QuotaVictims
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import PodInfo

NOT_PRE_FILTERED = "not eligible due to failed to read from cycleState"


class CapacityScheduling(PlacedIsReserved, PreemptionPlugin[QuotaClaim, None]):
    """Plugin that rejects a pod if its namespace's ElasticQuota or the sum of all quotas would be exceeded.

    The namespace may not use more than the max of its quota, and all namespaces together may not use more than the sum
    of the mins. Pods of namespaces without a quota pass. If other namespaces borrow from the min of a pod's quota, the
    pod may preempt their pods regardless of priority.

    Upstream: pkg/capacityscheduling/capacity_scheduling.go of kubernetes-sigs/scheduler-plugins.
    """

    name = "CapacityScheduling"
    changed = (QUOTA_VICTIMS_SORTED_AGAIN,)
    kinds: ClassVar[tuple[str, ...]] = (KIND, "PodDisruptionBudget")
    by_priority = False

    def pre_filter(self, info: PodInfo, view: Fork) -> PreFilterResult[QuotaClaim]:
        """Reject the pod if it would exceed the max of its namespace's quota or the sum of all mins.

        A pod in a namespace without a quota passes. The state has the requests that were checked.
        """
        use = find_quota_use(view)
        requests = sum_effective_requests(info.pod)
        quota = use.quotas.get(info.namespace)
        if quota is None:
            return PreFilterResult(state=QuotaClaim(requests, requests, requests))
        same_quota, other_quotas = _find_nominated_requests(info, view, use)
        claim = QuotaClaim(
            requests, add_requests(*same_quota, requests), add_requests(*same_quota, *other_quotas, requests)
        )

        # Check the namespace's own max.
        used_by_namespace = use.sum_namespace(info.namespace)
        if resource := quota.find_resource_over_max(used_by_namespace, claim.same_quota):
            limit_name = f"the max of {quota.name}"
            max_amounts = quota.max_amounts or {}
            fact = _describe_excess(resource, used_by_namespace, claim.same_quota, limit_name, max_amounts)
            return _build_rejection(info, claim, f"ElasticQuota {quota.namespace} is more than Max", fact)

        # Check the sum of the mins, which all namespaces share.
        used_by_all = use.sum_all_namespaces()
        total_min = add_requests(*(quota.min_amounts for quota in use.quotas.values()))
        if resource := find_exceeded_resource(add_requests(used_by_all, claim.all_quotas), {}, total_min, 0):
            limit_name = "the sum of the mins of all quotas"
            fact = _describe_excess(resource, used_by_all, claim.all_quotas, limit_name, total_min)
            return _build_rejection(info, claim, "total ElasticQuota used is more than min", fact)
        return PreFilterResult(state=claim)

    def find_ineligibility(self, cycle: Cycle) -> Ineligible | None:
        """Return the reason why the pod may not preempt, or None if it may.

        The pod may not preempt if its preemptionPolicy is Never, if this plugin's PreFilter did not run, or if
        terminating pods on its nominated node will free resources for it.
        """
        pod, view = cycle.info.pod, cycle.view
        if pod.spec.preemption_policy == "Never":
            return Ineligible(NEVER)
        if self.name not in cycle.pre_filter.reached:
            return Ineligible(NOT_PRE_FILTERED)

        # Wait for pods that are terminating on the nominated node already.
        row = view.nodes.index.get(pod.status.nominated_node_name)
        if row is None or cycle.get_node_status(row).code is Code.UNRESOLVABLE:
            return None
        selection = self.select_victims(cycle)
        objects = view.pods.objects
        terminating = [p for p in view.pods_on(row) if objects[p].metadata.deletion_timestamp is not None]
        leaving = tuple(position for position in terminating if selection.makes_room(position))
        return Ineligible(TERMINATING, leaving) if leaving else None

    def select_victims(self, cycle: Cycle) -> QuotaVictims:
        """Return the selection of the pods that may be evicted for this pod.

        Raises PluginError if PreFilter did not run.
        """
        claim = require_state(cycle.pre_filter.find_state(CapacityScheduling), NOT_PRE_FILTERED)
        return QuotaVictims(cycle.info, cycle.view, find_quota_use(cycle.view), claim)

    def dependencies(self, info: PodInfo, view: Fork) -> Iterator[Dependency]:
        """Yield the kinds whose unread objects could change the answer.

        ElasticQuotas may change any verdict. PodDisruptionBudgets may change the victims.
        """
        yield Dependency(KIND, Effect.EITHER)
        yield Dependency("PodDisruptionBudget", Effect.VICTIMS)

    def events_to_register(self, gates: FeatureGates) -> Iterator[ClusterEventWithHint]:
        """Yield the events after which a rejected pod is retried: deleted pods and any change of an ElasticQuota."""
        yield ClusterEventWithHint(POD, ActionType.DELETE)
        yield ClusterEventWithHint(KIND, ActionType.ALL)


def find_quota_use(view: Fork) -> QuotaUse:
    """Return the quota usage of all namespaces that have an ElasticQuota."""
    return QuotaUse(view, view.objects.index(KIND, index_quotas, KIND))


def _build_rejection(info: PodInfo, claim: QuotaClaim, cause: str, fact: str) -> PreFilterResult[QuotaClaim]:
    """Build a PreFilter result that rejects the pod for this cause. `fact` tells users the amounts."""
    reason = f"Pod {info.namespace}/{info.pod.metadata.name} is rejected in PreFilter because {cause}"
    return PreFilterResult(Status(Code.UNSCHEDULABLE, (reason,)), state=claim, fact=fact)


def _find_nominated_requests(info: PodInfo, view: Fork, use: QuotaUse) -> tuple[list[Requests], list[Requests]]:
    """Return the requests of the nominated pods of the pod's quota, and of the nominated pods of other quotas.

    A pod of the same quota is included if it has at least the pod's priority. A pod of another quota is included if
    that quota stays within its min. Pods that have a node, and the pod itself, are left out.
    """
    same_quota: list[Requests] = []
    other_quotas: list[Requests] = []
    stays_within_min: dict[str, bool] = {}
    _, nominated_positions = view.nominations
    for position in nominated_positions.tolist():
        pod: Pod = view.pods.objects[position]
        quota: Quota | None = use.quotas.get(pod.metadata.namespace)
        if quota is None or view.node[position] >= 0 or is_same_pod(pod, info.pod):
            continue
        if quota.namespace == info.namespace:
            if (pod.spec.priority or 0) >= info.priority:
                same_quota.append(sum_effective_requests(pod))
            continue

        if quota.namespace not in stays_within_min:
            stays_within_min[quota.namespace] = not quota.is_over_min(use.sum_namespace(quota.namespace))
        if stays_within_min[quota.namespace]:
            other_quotas.append(sum_effective_requests(pod))
    return same_quota, other_quotas


def _describe_excess(resource: str, used: Requests, requested: Requests, limit_name: str, limits: Requests) -> str:
    """Describe the used and the requested amount of a resource, which together exceed a limit, for users."""
    amount, limit = used.get(resource, 0), limits.get(resource, 0)
    return f"{resource}: {amount} used + {requested.get(resource, 0)} requested exceeds {limit_name}, {limit}"
