"""Gangs of other projects than Kubernetes: what on a pod says that it is of one.

Upstream: pkg/util/podgroup.go of kubernetes-sigs/scheduler-plugins, pkg/scheduler/api/job_info.go of
volcano-sh/volcano, pkg/controller/jobs/pod of kubernetes-sigs/kueue.
"""

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
"""What Kueue takes from a pod when its group is admitted, and when its place in the topology is chosen."""


class GangProject(StrEnum):
    """Who holds the pods of a gang together."""

    COSCHEDULING = "scheduler-plugins"
    VOLCANO = "Volcano"
    KUEUE = "Kueue"


GROUP_KINDS: Mapping[GangProject, str] = {
    GangProject.COSCHEDULING: "CoschedulingPodGroup",
    GangProject.VOLCANO: "VolcanoPodGroup",
}
"""The kind of the objects that describe gangs; Kueue's pods say themselves how many they are."""


class GangKey(NamedTuple):
    """Which gang of which project."""

    project: GangProject
    namespace: str
    name: str


def gangs_of(pod: Pod) -> tuple[GangKey, ...]:
    """The gangs that a pod says that it is of; of those of several projects first who holds it back the earliest."""
    meta = pod.metadata
    volcano, coscheduling = meta.annotations.group_name, meta.labels.get(COSCHEDULING_LABEL)
    kueue = meta.labels.get(KUEUE_LABEL) or meta.annotations.pod_group_name
    if not (volcano or kueue or coscheduling):  # as nearly all pods
        return ()
    names = {GangProject.VOLCANO: volcano, GangProject.KUEUE: kueue, GangProject.COSCHEDULING: coscheduling}
    return tuple(GangKey(project, meta.namespace, name) for project, name in names.items() if name)


def coscheduling_gang(pod: Pod) -> GangKey | None:
    """The gang of scheduler-plugins that a pod says that it is of."""
    name = pod.metadata.labels.get(COSCHEDULING_LABEL)
    return GangKey(GangProject.COSCHEDULING, pod.metadata.namespace, name) if name else None


def volcano_task(pod: Pod) -> str:
    """The task of Volcano whose pod it is; empty for none."""
    return pod.metadata.annotations.task_spec or pod.metadata.labels.get(VOLCANO_TASK_LABEL, "")


def group_kinds(pods: Iterable[Pod]) -> frozenset[str]:
    """The kinds of the objects that describe the gangs of these pods."""
    projects = {key.project for pod in pods for key in gangs_of(pod)}
    return frozenset(GROUP_KINDS[project] for project in projects & GROUP_KINDS.keys())
