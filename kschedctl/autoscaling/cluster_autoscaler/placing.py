"""Placement of many pods one after the other. Pods similar to one that fits nowhere are not tried again.

Upstream: simulator/scheduling/hinting_simulator.go and similar_pods.go (1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.arrays import Bools, Position, Row
from kschedctl.api.objects import Pod
from kschedctl.autoscaling.cluster_autoscaler.cluster_snapshot import ClusterSnapshot
from kschedctl.autoscaling.cluster_autoscaler.pods import controller_of, is_daemon_set_pod, similarity_key

MAX_REMEMBERED = 10
Hints = dict[str, Row]
"""The row where each pod was placed last."""


def place_pods(
    snapshot: ClusterSnapshot,
    pods: Sequence[tuple[Pod, Position]],
    acceptable: Bools | None = None,
    hints: Hints | None = None,
    *,
    all_or_none: bool = False,
) -> dict[str, Row]:
    """Place pods and return the row of each placed one. With ``all_or_none`` the first failure ends it."""
    refused = _UnplaceablePods()
    placed: dict[str, Row] = {}
    for pod, position in pods:
        row = _place_by_hint(snapshot, pod, position, acceptable, hints)
        if row is None and not refused.contains_similar(pod):
            row = snapshot.place_anywhere(position, acceptable)
            if row is None:
                refused.add(pod)
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
    """Put a pod on the node it was placed on before, if still possible."""
    row = hints.get(pod.key) if hints else None
    if row is None or row not in snapshot.order or (acceptable is not None and not acceptable[row]):
        return None
    return row if snapshot.place(position, row) is None else None


class _UnplaceablePods:
    """Pods that fit nowhere, with a limit on different ones per controller."""

    def __init__(self) -> None:
        self._known: dict[str, list[bytes]] = {}

    def contains_similar(self, pod: Pod) -> bool:
        controller = controller_of(pod)
        return controller is not None and similarity_key(pod) in self._known.get(controller.uid, ())

    def add(self, pod: Pod) -> None:
        """Remember a pod that fits nowhere, up to MAX_REMEMBERED per controller."""
        controller = controller_of(pod)
        if controller is None or is_daemon_set_pod(pod):
            return
        known = self._known.setdefault(controller.uid, [])
        if len(known) < MAX_REMEMBERED:
            known.append(similarity_key(pod))
