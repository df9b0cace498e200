"""Karpenter's answer for one pod: the verdict of each pool, and existing nodes with room."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kschedctl.api.events import FAILED_SCHEDULING, NOMINATED, is_event_about, last_seen
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Event, Pod
from kschedctl.autoscaling.karpenter.differences import iter_differences
from kschedctl.autoscaling.karpenter.instance_types import read_instance_types
from kschedctl.autoscaling.karpenter.nearest_miss import find_nearest_miss
from kschedctl.autoscaling.karpenter.node_columns import ExistingColumns
from kschedctl.autoscaling.karpenter.options import read_karpenter_options
from kschedctl.autoscaling.karpenter.pods import is_daemon
from kschedctl.autoscaling.karpenter.provision import ProvisioningRun, iter_nominated_nodes
from kschedctl.autoscaling.karpenter.rejections import find_rejection
from kschedctl.autoscaling.karpenter.scheduler import SchedulerRun
from kschedctl.autoscaling.karpenter.seen_types import derive_instance_types
from kschedctl.autoscaling.karpenter.setting import KarpenterSetting, describe_no_types, explain_unusable_pool
from kschedctl.autoscaling.karpenter.templates import ClaimTemplate
from kschedctl.cluster import Cluster
from kschedctl.reports.new_node import AutoscalerSaid, NewNode, PoolVerdict

NAME = "Karpenter"
NOT_WANTED = "the pod asks for no node of Karpenter's"
OF_DAEMON = "Karpenter launches no node for a pod of a DaemonSet"
FAILED = "Failed to schedule pod, "


def explain_new_node(
    cluster: Cluster, pod: Pod, types: Sequence[JsonObject] | None, options: Mapping[str, object], now: str
) -> NewNode:
    """Explain whether Karpenter would launch a node for the pod alone. Raises InputError.

    Without ``types``, only the instance types of existing nodes are known.
    """
    documents = derive_instance_types(cluster) if types is None else types
    setting = KarpenterSetting.of(cluster, read_instance_types(documents), read_karpenter_options(options), now)
    type_count = len(documents) if types is None else None
    rejection = OF_DAEMON if is_daemon(pod) else find_rejection(pod, setting.volumes, setting.catalog.well_known)
    if rejection is not None:
        reason = rejection.removeprefix(FAILED) or NOT_WANTED
        verdicts = tuple(PoolVerdict(pool.metadata.name, False, reason) for pool in cluster.karpenter_node_pools)
        message = rejection if rejection.startswith(FAILED) else ""
        return NewNode(
            NAME, verdicts, seen_types=type_count, message=message, said=_find_last_event(cluster, pod, message)
        )
    existing = setting.build_existing_columns(setting.pools, lambda node: False)
    run = setting.run_scheduler([pod], existing, movable=[pod.key]) if setting.pools.pools else None
    message = _build_failure_message(pod, run)
    return NewNode(
        NAME,
        tuple(_PoolVerdicts(setting, pod, existing).iter_verdicts()),
        next((node.node for node in iter_nominated_nodes(run)), "") if run else "",
        type_count,
        message,
        _find_last_event(cluster, pod, message),
        differences=tuple(iter_differences(setting, pod)),
    )


class _PoolVerdicts:
    """The verdicts of all pools on one pod."""

    def __init__(self, setting: KarpenterSetting, pod: Pod, existing: ExistingColumns) -> None:
        self._setting, self._pod, self._existing = setting, pod, existing
        self._templates = {template.name: template for template in setting.pools.all_templates}
        self._provisioning = ProvisioningRun(setting)

    def iter_verdicts(self) -> Iterator[PoolVerdict]:
        """Yield the verdict of each NodePool."""
        for pool in self._setting.cluster.karpenter_node_pools:
            template = self._templates.get(pool.metadata.name)
            refusal = "" if template else explain_unusable_pool(self._setting, pool)
            yield self._judge_template(template) if template else PoolVerdict(pool.metadata.name, False, refusal)

    def _judge_template(self, template: ClaimTemplate) -> PoolVerdict:
        """Return a usable pool's verdict on the pod, found by running the scheduler with this pool alone."""
        key, has_instance_types = self._pod.key, template.options.any()
        answer = self._provisioning.answer_for_pool(
            key, {key: self._pod}, template if has_instance_types else None, self._existing
        )
        if answer.instance_types:
            return PoolVerdict(template.name, True, answer.describe())
        text = answer.describe() if has_instance_types else describe_no_types(template)
        return PoolVerdict(
            template.name, False, text, find_nearest_miss(self._setting, self._pod, template, self._existing)
        )


def _build_failure_message(pod: Pod, run: SchedulerRun | None) -> str:
    """Build the event message that Karpenter writes if it cannot place the pod, or return ""."""
    errors = run.errors.get(pod.key, ()) if run else ()
    return FAILED + "; ".join(errors) if errors else ""


def _find_last_event(cluster: Cluster, pod: Pod, message: str) -> AutoscalerSaid | None:
    """Return Karpenter's last event about the pod and whether the replay agrees with it, or None."""
    pod_events = [event for event in cluster.events if _is_karpenter_event(event) and is_event_about(event, pod)]
    if not pod_events:
        return None
    last = max(pod_events, key=last_seen)
    agrees = not message if last.reason == NOMINATED else _split_message(last.message) == _split_message(message)
    return AutoscalerSaid(last.message, last_seen(last), agrees)


def _is_karpenter_event(event: Event) -> bool:
    """Return whether Karpenter wrote the event."""
    return event.reason == NOMINATED or (event.reason == FAILED_SCHEDULING and event.message.startswith(FAILED))


def _split_message(message: str) -> frozenset[str]:
    """Split a failure message into its parts, whose order does not matter."""
    return frozenset(message.removeprefix(FAILED).split("; "))
