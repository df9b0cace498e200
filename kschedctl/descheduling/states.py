"""Pods in one of the states that a policy names: a phase, a reason, or what one of their containers tells."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.container_states import NotableContainers
from kschedctl.descheduling.seen_pods import SeenPods

RUNNING = "Running"


def in_states(
    seen: SeenPods,
    states: Collection[str],
    told: Callable[[NotableContainers], bool],
    *,
    reasons: bool = False,
) -> Bools:
    """(P,): the pods whose phase is one of the states, or their reason, or whose containers tell so.

    Pods that rounds before this one have moved run.
    """
    named = seen.where(lambda pod: pod.status.phase in states or (reasons and pod.status.reason in states))
    of_pod = np.where(seen.came, RUNNING in states, named[seen.info])
    return of_pod | seen.by_containers(told).astype(np.bool_)
