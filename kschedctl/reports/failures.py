"""What the loss of nodes would do, as a document: apiVersion kschedctl.dev/v1, kind Failures."""

from __future__ import annotations

from kschedctl.reports.explanation import Document
from kschedctl.reports.simulation import UnplacedPods


class Failure(Document, frozen=True):
    """The loss of some ``nodes`` at once. ``displaced`` pods are made anew, of which ``unplaced`` fit nowhere else.

    ``evicted``: pods of other nodes that have to make room; ``lost``: pods that nobody makes anew. ``reasons``: the
    pods that do not fit, by workload and kube-scheduler's words.
    """

    name: str
    nodes: tuple[str, ...]
    displaced: int
    unplaced: int
    evicted: int
    lost: int
    reasons: tuple[UnplacedPods, ...] = ()

    @property
    def safe(self) -> bool:
        return not (self.unplaced or self.evicted)


class Failures(Document, frozen=True):
    """The losses of every ``unit`` (node, zone, pool, or pair of them), the worst first.

    ``safe``: after each of them every pod that is made anew gets a node, and nobody is evicted for it. ``scenarios``:
    how many there are; fewer than that are known when the user ``interrupted``.
    """

    unit: str
    scenarios: int
    safe: bool
    seed: int
    failures: tuple[Failure, ...] = ()
    not_replayed: tuple[str, ...] = ()
    interrupted: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Failures"
