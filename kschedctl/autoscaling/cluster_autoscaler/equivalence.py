"""Pods of one controller that are alike: what is found of the first holds for all.

Upstream: core/scaleup/equivalence/groups.go (1.36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import FilterRefusal
from kschedctl.autoscaling.cluster_autoscaler.pods import controller_of, is_daemon_set_pod, likeness

MOST_OF_CONTROLLER = 10


@dataclass(eq=False)
class EquivalenceGroup:
    """``refusals``: node group -> why one of its nodes would not take such a pod; ``takes``: those that would."""

    pods: list[Pod]
    refusals: dict[str, FilterRefusal] = field(default_factory=dict)
    takes: list[str] = field(default_factory=list)

    @property
    def first(self) -> Pod:
        return self.pods[0]


def pod_groups(pods: Iterable[Pod]) -> list[EquivalenceGroup]:
    """In the order of their first pods; so many different ones of a controller are remembered, others stay alone."""
    groups: list[EquivalenceGroup] = []
    known: dict[str, dict[bytes, EquivalenceGroup]] = {}
    for pod in pods:
        controller = controller_of(pod)
        if controller is None or is_daemon_set_pod(pod):
            groups.append(EquivalenceGroup([pod]))
            continue
        of_controller, like = known.setdefault(controller.uid, {}), likeness(pod)
        if like in of_controller:
            of_controller[like].pods.append(pod)
            continue
        groups.append(EquivalenceGroup([pod]))
        if len(of_controller) < MOST_OF_CONTROLLER:
            of_controller[like] = groups[-1]
    return groups
