"""Classification of pods: which ones the autoscaler counts, and as what.

Upstream: utils/kubernetes/listers.go, utils/pod/pod.go, core/utils/expendable.go, core/utils/utils.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kschedctl.api.copying import replace
from kschedctl.api.objects import OwnerReference, Pod
from kschedctl.api.pod_table import PodTable, digest
from kschedctl.api.times import parse_microseconds
from kschedctl.autoscaling.cluster_autoscaler.nodes import GPU_RESOURCES
from kschedctl.autoscaling.cluster_autoscaler.options import AutoscalerOptions
from kschedctl.autoscaling.durations import parse_go_duration
from kschedctl.errors import InputError

ALL_NEW, GPU_NEW = 2 * 10**6, 30 * 10**6
"""Microseconds for which more pods are waited for, once there are some."""


class CountedPod(NamedTuple):
    """A pod that has a node or is nominated for one."""

    row: int
    """Its row in the pod table."""
    node: str
    bound: bool
    """Whether it has a node."""
    counts: bool


class PodLists(NamedTuple):
    """Pods of a table in list order."""

    placed: list[CountedPod]
    unschedulable: list[Pod]
    """Pods that the scheduler rejected."""


class _TemplateFacts(NamedTuple):
    """What all pods of a template share."""

    leaving: bool
    nominated: str
    refused: bool
    counts: bool


def list_pods(pods: PodTable, rows: Iterable[int], options: AutoscalerOptions) -> PodLists:
    """List the pods of these rows that have not terminated. Other pending pods are ignored."""
    shared = [_read_template(template, options) for template in pods.templates]
    template, names, node = pods.template.tolist(), pods.node.values, pods.node.codes.tolist()
    lists = PodLists([], [])
    for row in rows:
        facts, name = shared[template[row]], names[node[row]]
        if facts is None:
            continue
        if name:
            lists.placed.append(CountedPod(row, name, bound=True, counts=facts.counts))
        elif facts.leaving:
            continue
        elif facts.nominated:
            lists.placed.append(CountedPod(row, facts.nominated, bound=False, counts=facts.counts))
        elif facts.refused:
            lists.unschedulable.append(pods[row])
    return lists


def _read_template(pod: Pod, options: AutoscalerOptions) -> _TemplateFacts | None:
    """Return the shared facts of a template, or None if its pods have terminated."""
    if pod.terminated:
        return None
    nominated, leaving = pod.status.nominated_node_name, bool(pod.metadata.deletion_timestamp)
    return _TemplateFacts(leaving, nominated, is_unschedulable(pod), not is_expendable(pod, options))


def is_unschedulable(pod: Pod) -> bool:
    """Return whether the scheduler has marked the pod as unschedulable."""
    return any(
        condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable"
        for condition in pod.status.conditions
    )


def is_expendable(pod: Pod, options: AutoscalerOptions) -> bool:
    """Return whether the pod is ignored because of its low priority."""
    return pod.spec.priority is not None and pod.spec.priority < options.expendable_pods_priority_cutoff


def controller_of(pod: Pod) -> OwnerReference | None:
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def is_daemon_set_pod(pod: Pod) -> bool:
    controller = controller_of(pod)
    return bool(controller and controller.kind == "DaemonSet") or pod.metadata.annotations.daemon_set_pod == "true"


def is_mirror(pod: Pod) -> bool:
    return bool(pod.metadata.annotations.mirror)


def get_source(pod: Pod) -> str:
    """Return ``namespace/name`` of the object that creates the pod."""
    controller = controller_of(pod)
    name = "(mirror)" if is_mirror(pod) else controller.name if controller else ""
    return f"{pod.metadata.namespace}/{name}"


def similarity_key(pod: Pod) -> bytes:
    """Return a key that is equal for pods with equal labels and specs, whatever their nodes."""
    return digest((pod.metadata.labels, replace(pod.spec, node_name="")))


def is_old_enough(pod: Pod, options: AutoscalerOptions, now: int) -> bool:
    """Return whether the pod has waited as long as the flag says, or its annotation if that is longer."""
    delay = parse_go_duration(options.new_pod_scale_up_delay, "options.newPodScaleUpDelay")
    with suppress(InputError):  # as upstream, which logs it
        delay = max(delay, parse_go_duration(pod.metadata.annotations.scale_up_delay or "0s", ""))
    return (now - _created_at(pod)) * 1000 > delay


def all_are_new(pods: Sequence[Pod], now: int) -> bool:
    """Return whether more pods are probably about to come."""
    if now < min(map(_created_at, pods)) + ALL_NEW:
        return True
    with_gpu = [_created_at(pod) for pod in pods if _requests_gpu(pod)]
    return bool(with_gpu) and now < min(with_gpu) + GPU_NEW


def _created_at(pod: Pod) -> int:
    return parse_microseconds(pod.metadata.creation_timestamp or "0001-01-01T00:00:00Z")


def _requests_gpu(pod: Pod) -> bool:
    return any(name in container.resources.requests for container in pod.spec.containers for name in GPU_RESOURCES)
