"""Equivalence groups: similar pods of one controller, of which only the first is tried.

Upstream: core/scaleup/equivalence/groups.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import FilterRejection
from kschedctl.autoscaling.cluster_autoscaler.pods import compute_similarity_key, get_controller, is_daemon_set_pod

MAX_GROUPS_PER_CONTROLLER = 10


@dataclass(eq=False)
class EquivalenceGroup:
    """Similar pods of one controller."""

    pods: list[Pod]
    rejections: dict[str, FilterRejection] = field(default_factory=dict)
    """Node group -> why its new node would reject such a pod."""
    accepting_groups: list[str] = field(default_factory=list)
    """Node groups whose new node would accept such a pod."""

    @property
    def first(self) -> Pod:
        return self.pods[0]


def group_equivalent_pods(pods: Iterable[Pod]) -> list[EquivalenceGroup]:
    """Group similar pods of each controller, in the order of the first pod of each group.

    Beyond MAX_GROUPS_PER_CONTROLLER, each further pod that is different forms a group by itself.
    """
    groups: list[EquivalenceGroup] = []
    by_controller: dict[str, dict[bytes, EquivalenceGroup]] = {}
    for pod in pods:
        controller = get_controller(pod)
        if controller is None or is_daemon_set_pod(pod):
            groups.append(EquivalenceGroup([pod]))
            continue
        controller_groups, similarity = by_controller.setdefault(controller.uid, {}), compute_similarity_key(pod)
        if similarity in controller_groups:
            controller_groups[similarity].pods.append(pod)
            continue
        groups.append(EquivalenceGroup([pod]))
        if len(controller_groups) < MAX_GROUPS_PER_CONTROLLER:
            controller_groups[similarity] = groups[-1]
    return groups
