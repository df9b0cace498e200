"""Gangs of projects other than Kubernetes, which the labels and annotations of their pods declare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from kschedctl.api.objects import Pod

COSCHEDULING_LABEL = "scheduling.x-k8s.io/pod-group"
KUEUE_LABEL = "kueue.x-k8s.io/pod-group-name"
KUEUE_TOTAL_COUNT = "kueue.x-k8s.io/pod-group-total-count"
VOLCANO_TASK_LABEL = "volcano.sh/task-spec"
KUEUE_GATES = frozenset({"kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"})
"""The scheduling gates that Kueue removes when it admits a pod's group and when it has chosen the topology domain."""


class GangProject(StrEnum):
    """The project that schedules the pods of a gang together."""

    COSCHEDULING = "scheduler-plugins"
    VOLCANO = "Volcano"
    KUEUE = "Kueue"


GROUP_KINDS: Mapping[GangProject, str] = {
    GangProject.COSCHEDULING: "CoschedulingPodGroup",
    GangProject.VOLCANO: "VolcanoPodGroup",
}
"""The kind of object that describes a project's gangs. Kueue has none, since its pods state the size of their gang."""


class GangKey(NamedTuple):
    """The identity of a gang."""

    project: GangProject
    namespace: str
    name: str


def find_gangs(pod: Pod) -> tuple[GangKey, ...]:
    """Return the gangs that the pod belongs to, in the order Volcano, Kueue, scheduler-plugins.

    Most pods belong to none.
    """
    meta = pod.metadata
    volcano = meta.annotations.group_name
    coscheduling = meta.labels.get(COSCHEDULING_LABEL)
    kueue = meta.labels.get(KUEUE_LABEL) or meta.annotations.pod_group_name
    if not (volcano or kueue or coscheduling):  # a fast path for nearly all pods
        return ()
    names = {GangProject.VOLCANO: volcano, GangProject.KUEUE: kueue, GangProject.COSCHEDULING: coscheduling}
    return tuple(GangKey(project, meta.namespace, name) for project, name in names.items() if name)


def find_coscheduling_gang(pod: Pod) -> GangKey | None:
    """Return the scheduler-plugins gang that the pod belongs to, or None."""
    name = pod.metadata.labels.get(COSCHEDULING_LABEL)
    return GangKey(GangProject.COSCHEDULING, pod.metadata.namespace, name) if name else None


def get_volcano_task(pod: Pod) -> str:
    """Return the name of the Volcano task that the pod belongs to, or ""."""
    return pod.metadata.annotations.task_spec or pod.metadata.labels.get(VOLCANO_TASK_LABEL, "")


def find_group_kinds(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the kinds of the objects that describe the pods' gangs."""
    projects = {key.project for pod in pods for key in find_gangs(pod)}
    return frozenset(GROUP_KINDS[project] for project in projects & GROUP_KINDS.keys())
