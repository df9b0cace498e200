"""Plugins whose Reserve leaves nothing behind: what is taken follows from where the pods are."""

from __future__ import annotations

from collections.abc import Sequence

from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework import Changes, Reservation
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo


class PlacedIsReserved:
    """Reserves no object, and is asked all the same: what it finds is another once the pod is on its node."""

    def reserve(self, info: PodInfo, pod: Pod, view: Fork, row: int, state: object) -> Changes:
        return {}

    def release(self, view: Fork, positions: Sequence[int]) -> Changes:
        return {}

    def reservation(self, info: PodInfo, view: Fork, row: int, state: object) -> Reservation:
        return Reservation()
