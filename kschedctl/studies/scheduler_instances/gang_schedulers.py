"""Schedulers of other projects that are known by the gangs that they serve."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.gangs import GangProject, gangs_of
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster


def schedulers_of_gangs(cluster: Cluster) -> frozenset[str]:
    """The names that pods of Volcano's PodGroups give: whoever made these runs a scheduler for them."""
    groups = {(each.metadata.namespace, each.metadata.name) for each in cluster.volcano_pod_groups}
    templates = cluster.pods.alive().templates if groups else ()
    return frozenset(pod.spec.scheduler_name for pod in templates if groups & set(_named(pod)))


def _named(pod: Pod) -> Iterator[tuple[str, str]]:
    return ((key.namespace, key.name) for key in gangs_of(pod) if key.project is GangProject.VOLCANO)
