"""How long a pod that could not be scheduled has to wait before it is tried again.

Upstream: pkg/scheduler/backend/queue/backoff_queue.go (v1.36).
"""

from __future__ import annotations


def backoff_duration(attempts: int, initial: int, maximum: int) -> int:
    """Doubles with every failed attempt from ``initial`` up to ``maximum``; none before the first attempt.

    ``initial`` and ``maximum`` are whole numbers of one unit, which is the answer's, too.

    >>> [backoff_duration(attempts, 1, 10) for attempts in range(7)]
    [0, 1, 2, 4, 8, 10, 10]
    """
    if attempts == 0:
        return 0
    shift = attempts - 1
    return maximum if initial > maximum >> shift else initial << shift
