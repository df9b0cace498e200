"""Karpenter's answer for one pod: each pool's verdict, nodes with room, and differences from kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.events import FAILED_SCHEDULING, NOMINATED, get_last_time, is_event_about
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Event, Pod
from kschedctl.api.tolerations import is_tolerated
from kschedctl.autoscaling.karpenter.existing_nodes import ExistingColumns
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.nearest_miss import find_nearest_miss
from kschedctl.autoscaling.karpenter.pods import is_daemon_set_pod
from kschedctl.autoscaling.karpenter.provision import ProvisioningRun, iter_nominated_nodes
from kschedctl.autoscaling.karpenter.requirements import get_required_terms
from kschedctl.autoscaling.karpenter.scheduler import SchedulerRun
from kschedctl.autoscaling.karpenter.setting import (
    KarpenterSetting,
    describe_missing_types,
    explain_unusable_pool,
    read_karpenter_options,
)
from kschedctl.autoscaling.karpenter.state_nodes import derive_instance_types
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.autoscaling.karpenter.validation import find_pod_rejection
from kschedctl.cluster import Cluster
from kschedctl.reports.new_node import LastAutoscalerEvent, NewNode, PoolVerdict

NAME = "Karpenter"
EXCLUDES_KARPENTER = "the pod excludes nodes that Karpenter launches"
OF_DAEMON_SET = "Karpenter does not launch nodes for DaemonSet pods"
FAILED = "Failed to schedule pod, "


def predict_new_node(
    cluster: Cluster, pod: Pod, types: Sequence[JsonObject] | None, options: Mapping[str, object], now: str
) -> NewNode:
    """Predict whether Karpenter would launch a node for this pod, with the verdict of each pool.

    Other waiting pods are ignored. If Karpenter rejects the pod before scheduling, all pools' verdicts give the reason.
    If ``types`` is None, instance types are derived from the existing nodes. ``options`` are Karpenter's settings, and
    ``now`` is an RFC 3339 time. Raises InputError if an instance type or option is invalid.
    """
    documents = derive_instance_types(cluster) if types is None else types
    type_count = len(documents) if types is None else None
    setting = KarpenterSetting.for_cluster(
        cluster, read_instance_types(documents), read_karpenter_options(options), now
    )

    if is_daemon_set_pod(pod):
        return _build_answer_for_rejected_pod(cluster, pod, OF_DAEMON_SET, message="", type_count=type_count)
    error = find_pod_rejection(pod, setting.volumes, setting.catalog.well_known)
    if error is not None:
        # The error is "" if the pod excludes Karpenter's nodes
        reason = error.removeprefix(FAILED) or EXCLUDES_KARPENTER
        return _build_answer_for_rejected_pod(cluster, pod, reason, message=error, type_count=type_count)

    # When Karpenter provisions, no node counts as settling
    existing = setting.build_existing_node_columns(setting.pools, lambda node: False)
    run = None
    nominated_node = ""
    if setting.pools.node_pools:
        run = setting.run_scheduler([pod], existing, movable=[pod.key])
        nominated_node = next((nominated.node for nominated in iter_nominated_nodes(run)), "")
    message = _build_failure_message(pod, run)
    return NewNode(
        NAME,
        tuple(_PoolVerdicts(setting, pod, existing).iter_verdicts()),
        nominated_node,
        seen_types=type_count,
        message=message,
        said=_find_last_karpenter_event(cluster, pod, message),
        differences=tuple(iter_scheduler_differences(setting, pod)),
    )


def _build_answer_for_rejected_pod(
    cluster: Cluster, pod: Pod, reason: str, *, message: str, type_count: int | None
) -> NewNode:
    """Build the answer for a pod that Karpenter rejects before scheduling, with the reason as every pool's verdict.

    ``message`` is the message of the event that Karpenter writes about the pod, or "" if it writes none. ``type_count``
    is the number of instance types if they were derived from existing nodes, otherwise None.
    """
    verdicts = tuple(
        PoolVerdict(pool.metadata.name, takes=False, answer=reason) for pool in cluster.karpenter_node_pools
    )
    last_event = _find_last_karpenter_event(cluster, pod, message)
    return NewNode(NAME, verdicts, seen_types=type_count, message=message, said=last_event)


class _PoolVerdicts:
    """The verdicts of all pools on one pod."""

    def __init__(self, setting: KarpenterSetting, pod: Pod, existing: ExistingColumns) -> None:
        self._setting, self._pod, self._existing = setting, pod, existing
        self._templates = {template.name: template for template in setting.pools.all_templates}
        self._provisioning = ProvisioningRun(setting)

    def iter_verdicts(self) -> Iterator[PoolVerdict]:
        """Yield each NodePool's verdict. For a pool that takes no part in scheduling, the verdict says why."""
        for pool in self._setting.cluster.karpenter_node_pools:
            template = self._templates.get(pool.metadata.name)
            if template:
                yield self._build_template_verdict(template)
            else:
                yield PoolVerdict(pool.metadata.name, takes=False, answer=explain_unusable_pool(self._setting, pool))

    def _build_template_verdict(self, template: ClaimTemplate) -> PoolVerdict:
        """Build the verdict on whether a pool that takes part in scheduling would create a node for the pod.

        Only this pool is tried. If it does not take the pod, the verdict says what is missing. For a pool without
        instance types, the verdict says why there are none.
        """
        key = self._pod.key
        # Like upstream, a pool without instance types takes no part, but its verdict names the reason
        has_instance_types = template.options.any()
        answer = self._provisioning.try_pool_alone(
            key, {key: self._pod}, template if has_instance_types else None, self._existing
        )
        if answer.instance_types:
            return PoolVerdict(template.name, takes=True, answer=answer.describe())
        text = answer.describe() if has_instance_types else describe_missing_types(template)
        miss = find_nearest_miss(self._setting, self._pod, template, self._existing)
        return PoolVerdict(
            template.name,
            takes=False,
            answer=text,
            missing=miss.obstacles,
            sufficient_limits=miss.sufficient_limits,
        )


def _build_failure_message(pod: Pod, run: SchedulerRun | None) -> str:
    """Build the message of Karpenter's event about the pod's failed run, or return "" if there was no error."""
    errors = run.errors.get(pod.key, ()) if run else ()
    return FAILED + "; ".join(errors) if errors else ""


def _find_last_karpenter_event(cluster: Cluster, pod: Pod, message: str) -> LastAutoscalerEvent | None:
    """Return Karpenter's last event about the pod, or None if there is none.

    The result also says whether the event agrees with the replay. ``message`` is the replay's failure message, or "" if
    the replay places the pod.
    """
    pod_events = [event for event in cluster.events if _is_karpenter_event(event) and is_event_about(event, pod)]
    if not pod_events:
        return None
    last = max(pod_events, key=get_last_time)
    if last.reason == NOMINATED:
        agrees = not message
    else:
        agrees = _split_failure_message(last.message) == _split_failure_message(message)
    return LastAutoscalerEvent(last.message, get_last_time(last), agrees)


def _is_karpenter_event(event: Event) -> bool:
    """Return whether Karpenter wrote this event about the placement of a pod."""
    return event.reason == NOMINATED or (event.reason == FAILED_SCHEDULING and event.message.startswith(FAILED))


def _split_failure_message(message: str) -> frozenset[str]:
    """Split a failure message into its errors, whose order does not matter."""
    return frozenset(message.removeprefix(FAILED).split("; "))


def iter_scheduler_differences(setting: KarpenterSetting, pod: Pod) -> Iterator[str]:
    """Yield the differences between Karpenter's and kube-scheduler's treatment of this pod."""
    if node := pod.status.nominated_node_name:
        yield f"Karpenter ignores the pod as long as kube-scheduler nominates it to {node}"
    terms = len(get_required_terms(pod))
    if terms > 1:
        yield f"Karpenter tries the {terms} required node affinity terms one at a time, in the order of the manifest"
    if preferences := list(_iter_preference_descriptions(pod)):
        listed = ", ".join(preferences)
        if setting.options.ignores_preferences:
            yield f"Karpenter ignores {listed}: preferencePolicy is Ignore"
        else:
            yield f"Karpenter first requires {listed}, and drops one preference after another if no pool takes the pod"
    if taints := sorted(_find_untolerated_soft_taints(setting, pod)):
        yield f"Karpenter treats {', '.join(taints)} like NoSchedule until it has dropped all other preferences"
    if any(constraint.min_domains is not None for constraint in pod.spec.topology_spread_constraints):
        yield "Karpenter uses the minDomains of the first pod that it sees with the same spread constraint"


def _iter_preference_descriptions(pod: Pod) -> Iterator[str]:
    """Yield a description of each kind of preference that the pod has."""
    affinity = pod.spec.affinity
    pod_affinity = affinity and affinity.pod_affinity
    if pod_affinity and pod_affinity.preferred_during_scheduling_ignored_during_execution:
        yield "preferred pod affinity"
    pod_anti_affinity = affinity and affinity.pod_anti_affinity
    if pod_anti_affinity and pod_anti_affinity.preferred_during_scheduling_ignored_during_execution:
        yield "preferred pod anti-affinity"
    node_affinity = affinity and affinity.node_affinity
    if node_affinity and (preferred := node_affinity.preferred_during_scheduling_ignored_during_execution):
        yield "the heaviest preferred node affinity term" if len(preferred) > 1 else "preferred node affinity"
    if any(constraint.when_unsatisfiable == "ScheduleAnyway" for constraint in pod.spec.topology_spread_constraints):
        yield "ScheduleAnyway spread constraints"


def _find_untolerated_soft_taints(setting: KarpenterSetting, pod: Pod) -> set[str]:
    """Return the pools' PreferNoSchedule taints that the pod does not tolerate."""
    taints = {taint for pool in setting.pools.node_pools for taint in pool.spec.template.spec.taints}
    return {
        str(taint)
        for taint in taints
        if taint.effect == "PreferNoSchedule"
        and not is_tolerated(pod.spec.tolerations, taint, comparison_operators=True)
    }
