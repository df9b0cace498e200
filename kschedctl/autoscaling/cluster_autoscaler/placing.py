"""Placement of many pods one after the other, skipping pods that are similar to one that fits nowhere.

Upstream: simulator/scheduling/hinting_simulator.go and similar_pods.go (1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.pods import compute_similarity_key, get_controller, is_daemon_set_pod

MAX_REMEMBERED = 10
Hints = dict[str, Row]
"""Pod -> the row where it was placed last."""


def place_pods(
    snapshot: ClusterSnapshot,
    pods: Sequence[tuple[Pod, Position]],
    acceptable: Bools | None = None,
    hints: Hints | None = None,
    *,
    all_or_none: bool = False,
) -> dict[str, Row]:
    """Place pods one after the other, and return the row of each pod that was placed.

    ``acceptable`` restricts the nodes, (M,). With ``all_or_none``, the first pod that does not fit ends the placement.
    """
    unplaceable = _UnplaceablePods()
    placed: dict[str, Row] = {}
    for pod, position in pods:
        row = _place_by_hint(snapshot, pod, position, acceptable, hints)
        if row is None and not unplaceable.contains_similar(pod):
            row = snapshot.place_anywhere(position, acceptable)
            if row is None:
                unplaceable.add(pod)
        if row is not None:
            placed[pod.key] = row
            if hints is not None:
                hints[pod.key] = row
        elif all_or_none:
            break
    return placed


def _place_by_hint(
    snapshot: ClusterSnapshot, pod: Pod, position: Position, acceptable: Bools | None, hints: Hints | None
) -> Row | None:
    """Put a pod on the node where it was placed last, and return the row. Return None if that is not possible."""
    row = hints.get(pod.key) if hints else None
    if row is None or row not in snapshot.order or (acceptable is not None and not acceptable[row]):
        return None
    return row if snapshot.place(position, row) is None else None


class _UnplaceablePods:
    """Pods that fit nowhere, with a limited number of different pods per controller."""

    def __init__(self) -> None:
        self._by_controller: dict[str, list[bytes]] = {}

    def contains_similar(self, pod: Pod) -> bool:
        """Return whether a similar pod of the same controller fits nowhere."""
        controller = get_controller(pod)
        return controller is not None and compute_similarity_key(pod) in self._by_controller.get(controller.uid, ())

    def add(self, pod: Pod) -> None:
        """Remember a pod that fits nowhere, up to MAX_REMEMBERED per controller."""
        controller = get_controller(pod)
        if controller is None or is_daemon_set_pod(pod):
            return
        similarities = self._by_controller.setdefault(controller.uid, [])
        if len(similarities) < MAX_REMEMBERED:
            similarities.append(compute_similarity_key(pod))
