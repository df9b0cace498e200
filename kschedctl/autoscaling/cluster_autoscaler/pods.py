"""Classification of pods as placed, unschedulable or ignored, as the autoscaler sees them.

Upstream: utils/kubernetes/listers.go, utils/pod/pod.go, core/utils/expendable.go, core/utils/utils.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.objects import OwnerReference, Pod
from kschedctl.api.pod_table import PodTable, build_value_key
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.nodes import GPU_RESOURCES
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions
from kschedctl.cel.library.times import parse_go_duration
from kschedctl.errors import InputError

ALL_NEW, GPU_NEW = 2 * 10**6, 30 * 10**6
"""The wait for further pods after the first one, in microseconds: in general, and for pods with GPUs."""


class BoundOrNominatedPod(NamedTuple):
    """A pod that is bound to a node or nominated for one."""

    row: int
    """Its row in the pod table."""
    node: str
    bound: bool
    """True if the pod is bound rather than nominated."""
    is_considered: bool
    """True if the autoscaler takes the pod into account, because its priority is not too low."""


class PodLists(NamedTuple):
    """The placed and the unschedulable pods of a table, in list order."""

    placed: list[BoundOrNominatedPod]
    unschedulable: list[Pod]
    """Pods that the scheduler rejected."""


class _TemplateFacts(NamedTuple):
    """Properties that all pods of a template share."""

    is_being_deleted: bool
    nominated_node: str
    """The name of the node for which the pods are nominated, or ""."""
    is_unschedulable: bool
    is_considered: bool
    """True if the autoscaler takes the pods into account, because their priority is not too low."""


def list_placed_and_unschedulable_pods(pods: PodTable, rows: Iterable[int], options: AutoscalerOptions) -> PodLists:
    """List the placed and the unschedulable pods among the pods in these rows.

    Nominated pods count as placed. Pods that have ended are left out, as well as unbound pods that are being deleted or
    that the scheduler has not rejected.
    """
    template_facts = [_read_template_facts(template, options) for template in pods.templates]
    template_indexes = pods.template.tolist()
    node_names = pods.node.values
    node_codes = pods.node.codes.tolist()
    lists = PodLists(placed=[], unschedulable=[])
    for row in rows:
        facts = template_facts[template_indexes[row]]
        if facts is None:  # the pods of this template have ended
            continue
        node_name = node_names[node_codes[row]]
        if node_name:
            lists.placed.append(BoundOrNominatedPod(row, node_name, bound=True, is_considered=facts.is_considered))
        elif facts.is_being_deleted:
            continue
        elif facts.nominated_node:
            lists.placed.append(
                BoundOrNominatedPod(row, facts.nominated_node, bound=False, is_considered=facts.is_considered)
            )
        elif facts.is_unschedulable:
            lists.unschedulable.append(pods[row])
    return lists


def _read_template_facts(pod: Pod, options: AutoscalerOptions) -> _TemplateFacts | None:
    """Return the properties that all pods of a template share, or None if these pods have ended."""
    if pod.terminated:
        return None
    return _TemplateFacts(
        is_being_deleted=bool(pod.metadata.deletion_timestamp),
        nominated_node=pod.status.nominated_node_name,
        is_unschedulable=is_unschedulable(pod),
        is_considered=not is_expendable(pod, options),
    )


def is_unschedulable(pod: Pod) -> bool:
    """Return whether the scheduler has marked the pod as unschedulable."""
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )


def is_expendable(pod: Pod, options: AutoscalerOptions) -> bool:
    """Return whether the pod's priority is so low that the autoscaler ignores it."""
    return pod.spec.priority is not None and pod.spec.priority < options.expendable_pods_priority_cutoff


def get_controller(pod: Pod) -> OwnerReference | None:
    """Return the owner reference of the pod's controller, or None if the pod has no controller."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def is_daemon_set_pod(pod: Pod) -> bool:
    """Return whether a DaemonSet controls the pod or an annotation declares it a DaemonSet's pod."""
    controller = get_controller(pod)
    return bool(controller and controller.kind == "DaemonSet") or pod.metadata.annotations.daemon_set_pod == "true"


def is_mirror_pod(pod: Pod) -> bool:
    """Return whether the pod mirrors a static pod of a kubelet."""
    return bool(pod.metadata.annotations.mirror)


def describe_pod_controller(pod: Pod) -> str:
    """Return the ``namespace/name`` of the pod's controller.

    The name is "(mirror)" for a mirror pod, and empty for a pod without a controller.
    """
    namespace = pod.metadata.namespace
    if is_mirror_pod(pod):
        return f"{namespace}/(mirror)"
    controller = get_controller(pod)
    return f"{namespace}/{controller.name}" if controller else f"{namespace}/"


def compute_similarity_key(pod: Pod) -> bytes:
    """Compute a key of a pod's labels and spec. The node name does not count."""
    return build_value_key((pod.metadata.labels, replace(pod.spec, node_name="")))


def list_pod_keys(pods: Iterable[Pod]) -> tuple[str, ...]:
    """Return the keys of the pods, in their order."""
    return tuple(pod.key for pod in pods)


def is_old_enough_for_scale_up(pod: Pod, options: AutoscalerOptions, now: int) -> bool:
    """Return whether the pod has waited long enough to trigger a scale-up.

    The longer of two delays applies: ``--new-pod-scale-up-delay`` and the delay in the pod's annotation. An invalid
    annotation is ignored. ``now`` is in microseconds.
    """
    delay = parse_go_duration(options.new_pod_scale_up_delay, "options.newPodScaleUpDelay")
    with suppress(InputError):  # as upstream, which only logs an invalid annotation
        delay = max(delay, parse_go_duration(pod.metadata.annotations.scale_up_delay or "0s", where=""))
    age_in_nanoseconds = (now - _get_creation_time(pod)) * 1000
    return age_in_nanoseconds > delay


def are_all_pods_new(pods: Sequence[Pod], now: int) -> bool:
    """Return whether the pods are so new that more pods are likely to follow.

    The oldest pod must be younger than ALL_NEW, or the oldest pod that requests a GPU must be younger than GPU_NEW.
    """
    if now < min(map(_get_creation_time, pods)) + ALL_NEW:
        return True
    with_gpu = [_get_creation_time(pod) for pod in pods if _requests_gpu(pod)]
    return bool(with_gpu) and now < min(with_gpu) + GPU_NEW


def _get_creation_time(pod: Pod) -> int:
    """Return the pod's creation time in microseconds since 1970, or the year 1 if it is unknown."""
    return parse_microseconds(pod.metadata.creation_timestamp or "0001-01-01T00:00:00Z")


def _requests_gpu(pod: Pod) -> bool:
    """Return whether a container of the pod requests a GPU."""
    return any(name in container.resources.requests for container in pod.spec.containers for name in GPU_RESOURCES)
