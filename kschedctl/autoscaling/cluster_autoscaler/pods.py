"""Which pods the autoscaler counts, and as what.

Upstream: utils/kubernetes/listers.go, utils/pod/pod.go, core/utils/expendable.go, core/utils/utils.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.objects import OwnerReference, Pod
from kschedctl.api.pod_table import identity
from kschedctl.api.times import microseconds
from kschedctl.autoscaling.cluster_autoscaler.nodes import GPU_RESOURCES
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions
from kschedctl.autoscaling.durations import nanoseconds
from kschedctl.errors import InputError

ALL_NEW, GPU_NEW = 2 * 10**6, 30 * 10**6
"""Microseconds for which more pods are waited for, once there are some."""


class PodLists(NamedTuple):
    """Pods in the order in which they are listed.

    ``placed``: those that have a node, or are nominated for one, and its name; ``unschedulable``: those that the
    scheduler refused.
    """

    placed: list[tuple[Pod, str]]
    unschedulable: list[Pod]


def list_pods(pods: Iterable[Pod]) -> PodLists:
    """The pods that are not over, by what is known of them; others that are pending are nobody's business."""
    lists = PodLists([], [])
    for pod in pods:
        if pod.spec.node_name:
            lists.placed.append((pod, pod.spec.node_name))
        elif pod.metadata.deletion_timestamp:
            continue
        elif pod.status.nominated_node_name:
            lists.placed.append((pod, pod.status.nominated_node_name))
        elif is_unschedulable(pod):
            lists.unschedulable.append(pod)
    return lists


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler has said so."""
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )


def is_expendable(pod: Pod, options: AutoscalerOptions) -> bool:
    """Whether nothing is done for the pod, nor counted of it."""
    return pod.spec.priority is not None and pod.spec.priority < options.expendable_pods_priority_cutoff


def controller_of(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def is_daemon_set_pod(pod: Pod) -> bool:
    controller = controller_of(pod)
    return bool(controller and controller.kind == "DaemonSet") or pod.metadata.annotations.daemon_set_pod == "true"


def is_mirror(pod: Pod) -> bool:
    return bool(pod.metadata.annotations.mirror)


def likeness(pod: Pod) -> bytes:
    """Equal for pods with equal labels and specs, wherever they are."""
    return identity((pod.metadata.labels, replace(pod.spec, node_name="")))


def is_old_enough(pod: Pod, options: AutoscalerOptions, now: int) -> bool:
    """Whether the pod has waited for as long as the flag says, or its annotation where that says longer."""
    delay = nanoseconds(options.new_pod_scale_up_delay, "options.newPodScaleUpDelay")
    with suppress(InputError):  # as upstream, which logs it
        delay = max(delay, nanoseconds(pod.metadata.annotations.scale_up_delay or "0s", ""))
    return (now - _created(pod)) * 1000 > delay


def all_are_new(pods: Sequence[Pod], now: int) -> bool:
    """Whether more pods may be about to come."""
    if now < min(map(_created, pods)) + ALL_NEW:
        return True
    with_gpu = [_created(pod) for pod in pods if _requests_gpu(pod)]
    return bool(with_gpu) and now < min(with_gpu) + GPU_NEW


def _created(pod: Pod) -> int:
    return microseconds(pod.metadata.creation_timestamp or "0001-01-01T00:00:00Z")


def _requests_gpu(pod: Pod) -> bool:
    return any(name in container.resources.requests for container in pod.spec.containers for name in GPU_RESOURCES)
