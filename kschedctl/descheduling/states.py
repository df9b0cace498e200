"""The pod states that a policy can name: phases, reasons and container states."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from kschedctl.api.arrays import Bools
from kschedctl.api.container_states import NotableContainers
from kschedctl.descheduling.seen_pods import SeenPods

RUNNING = "Running"


def find_pods_in_states(
    seen: SeenPods,
    states: Collection[str],
    has_state: Callable[[NotableContainers], bool],
    *,
    reasons: bool = False,
) -> Bools:
    """Return a mask (P,) of the pods whose phase, reason or container state is among the states.

    ``has_state`` decides for containers. Pods that were moved in earlier rounds are running.
    """
    has_pod_state = seen.select_infos(
        lambda pod: pod.status.phase in states or (reasons and pod.status.reason in states)
    )
    of_pod = np.where(seen.moved, RUNNING in states, has_pod_state[seen.info])
    return of_pod | seen.measure_containers(has_state).astype(np.bool_)
