"""Equivalence groups: similar pods of one controller share the results of the first.

Upstream: core/scaleup/equivalence/groups.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import FilterRejection
from kschedctl.autoscaling.cluster_autoscaler.pods import controller_of, is_daemon_set_pod, similarity_key

MAX_GROUPS_PER_CONTROLLER = 10


@dataclass(eq=False)
class EquivalenceGroup:
    """Similar pods of one controller."""

    pods: list[Pod]
    rejections: dict[str, FilterRejection] = field(default_factory=dict)
    """Why a new node of each node group would reject such a pod."""
    accepting_groups: list[str] = field(default_factory=list)
    """The node groups whose new nodes would take such a pod."""

    @property
    def first(self) -> Pod:
        return self.pods[0]


def group_equivalent_pods(pods: Iterable[Pod]) -> list[EquivalenceGroup]:
    """Group pods in the order of their first members. Beyond the limit per controller, pods stay alone."""
    groups: list[EquivalenceGroup] = []
    known: dict[str, dict[bytes, EquivalenceGroup]] = {}
    for pod in pods:
        controller = controller_of(pod)
        if controller is None or is_daemon_set_pod(pod):
            groups.append(EquivalenceGroup([pod]))
            continue
        of_controller, like = known.setdefault(controller.uid, {}), similarity_key(pod)
        if like in of_controller:
            of_controller[like].pods.append(pod)
            continue
        groups.append(EquivalenceGroup([pod]))
        if len(of_controller) < MAX_GROUPS_PER_CONTROLLER:
            of_controller[like] = groups[-1]
    return groups
