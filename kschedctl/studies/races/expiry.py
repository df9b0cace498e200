"""When a scheduler takes an assumed pod for gone of which it heard nothing since its binding was answered.

Upstream: durationToExpireAssumedPod in pkg/scheduler/scheduler.go, and finishBinding and cleanupAssumedPods in
pkg/scheduler/backend/cache/cache.go (v1.35). It was 30 s up to the first patches of 1.22, then 2 minutes (#106412), 15
minutes in 1.24, and is 0, which means never, since 1.25 (kubernetes/kubernetes#106361); 1.36 knows of no expiry any
more (#136204).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kschedctl.api.times import seconds_of_duration
from kschedctl.errors import InputError, UsageError

NEVER, ADAPTIVE = "never", "adaptive"
FOREVER = float("inf")
FIRST_TTL, NODES_THEN = 30.0, 1000
"""The 30 s stand in the scheduler's cache since it was written for Kubernetes 1.2, which was made for 1,000 nodes."""
USUAL = ("30s", "120s", "300s", ADAPTIVE, NEVER)
"""What is compared unless something else is asked for."""


def adaptive(nodes: int) -> float:
    """30 s on up to 1,000 nodes, and as much longer as there are more nodes.

    What keeps a confirmation from the scheduler is a queue: of requests in the API server and of events on their way to
    the watchers. Both grow with the number of objects, and that with the nodes. Where 30 s were enough for 1,000 nodes,
    so many times the nodes need so many times as long.

    >>> adaptive(100), adaptive(5000)
    (30.0, 150.0)
    """
    return FIRST_TTL * max(1.0, nodes / NODES_THEN)


@dataclass(frozen=True)
class Expiry:
    """``text``: as an option names it; ``ttl``: the seconds on so many nodes, FOREVER for never."""

    text: str
    ttl: Callable[[int], float]


def expiry_of(text: str) -> Expiry:
    """A duration, ``adaptive`` or ``never``, which 0 means too. Raises UsageError.

    >>> expiry_of("120s").text, expiry_of("0").text, expiry_of("adaptive").ttl(2000)
    ('120s', 'never', 60.0)
    """
    if text == ADAPTIVE:
        return Expiry(ADAPTIVE, adaptive)
    try:
        seconds = 0.0 if text == NEVER else seconds_of_duration(text)
    except InputError as error:
        raise UsageError(error.what, where="--expiry", hint="a duration as 30s, adaptive or never") from None
    if not seconds:
        return Expiry(NEVER, lambda nodes: FOREVER)
    return Expiry(text, lambda nodes: seconds)
