"""Soft constraints of pods, which Karpenter treats as required as long as a pod can be placed.

Karpenter drops a soft constraint only if no node and no NodePool can take the pod. It therefore keeps a node whose pod
would need a new node to meet a soft constraint, even if another existing node has room.
"""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod, PodAffinity
from kschedctl.autoscaling.karpenter.preferences import remove_next_preference

SCHEDULE_ANYWAY = "ScheduleAnyway"


def describe_soft_constraints(pod: Pod) -> tuple[str, ...]:
    """Describe each distinct soft constraint of the pod, with its topology key."""
    return tuple(dict.fromkeys(_iter_soft_constraints(pod)))


def remove_soft_constraints(pod: Pod) -> Pod:
    """Return the pod without its soft constraints, as Karpenter sees it with preferencePolicy=Ignore."""
    while relaxed := remove_next_preference(pod):
        pod = relaxed[0]
    return pod


def _iter_soft_constraints(pod: Pod) -> Iterator[str]:
    """Yield a description of each soft constraint, including repetitions."""
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == SCHEDULE_ANYWAY:
            yield f"ScheduleAnyway spread over {constraint.topology_key}"
    affinity = pod.spec.affinity
    if affinity is None:
        return
    yield from (f"preferred pod affinity over {key}" for key in _iter_preferred_topologies(affinity.pod_affinity))
    yield from (
        f"preferred pod anti-affinity over {key}" for key in _iter_preferred_topologies(affinity.pod_anti_affinity)
    )
    if affinity.node_affinity and affinity.node_affinity.preferred_during_scheduling_ignored_during_execution:
        yield "preferred node affinity"


def _iter_preferred_topologies(affinity: PodAffinity | None) -> Iterator[str]:
    """Yield the topology keys of preferred affinity terms."""
    terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
    return (term.pod_affinity_term.topology_key for term in terms)
