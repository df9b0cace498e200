"""Which nodes the scheduler looks at, as a document: apiVersion kschedctl.dev/v1, kind Sampling."""

from __future__ import annotations

import msgspec

from kschedctl.reports.document import Document
from kschedctl.reports.unknown import UnknownKind


class SampledPod(Document, frozen=True, omit_defaults=True):
    """One pod's search for nodes, which began at index ``start`` of the nodes in the scheduler's order.

    ``searched``: how many nodes there were to look at, of which ``num_to_find`` that fit are enough; ``feasible`` in
    the order found, ``rejected``; ``processed``: both together; ``next``: the index at which the next search begins.
    ``total``: node -> its score, ``best``: the highest. ``unscheduled``: why it was not tried, or failed.
    """

    pod: str
    start: int
    searched: int
    num_to_find: int
    processed: int
    next: int
    feasible: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    total: dict[str, int] = msgspec.field(default_factory=dict)
    best: tuple[str, ...] = ()
    unscheduled: str = ""


class SamplingReport(Document, frozen=True):
    """Pods tried one after the other, nothing assumed between them; ``node_order``: as the scheduler goes through it.

    ``not_replayed``: what the configuration runs and this answer leaves out; ``unknown``: what was not read.
    """

    node_order: tuple[str, ...]
    steps: tuple[SampledPod, ...]
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Sampling"
