"""How many more pods of some shapes fit, as a document: apiVersion kschedctl.dev/v1, kind Capacity."""

from __future__ import annotations

import msgspec

from kschedctl.reports.document import Document
from kschedctl.reports.explanation import Elimination
from kschedctl.reports.searches import SearchStart
from kschedctl.reports.simulation import Headroom, Spread
from kschedctl.reports.unknown import UnknownKind


class RoomLeft(Document, frozen=True):
    """With so many new ``pods`` placed so many ``nodes`` take one more."""

    pods: int
    nodes: int


class ShapeCapacity(Document, frozen=True):
    """One shape of pod by itself, on the cluster as it is.

    ``fits`` pods more; ``limited``: no more than that were tried. ``nodes``: node -> new pods, ``domains``: topology
    key -> value -> new pods. ``message``: what stops the next one, in kube-scheduler's words, ``eliminations``: the
    same by reason; ``evicts``: the pods that preemption would evict for it, which ``fits`` does not count on.
    ``over_runs``: the least and the most over several runs. ``curve``: what is left as pods come, where it changes (of
    very many changes some); empty where a part of the nodes is looked at.
    """

    shape: str
    fits: int
    limited: bool
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    domains: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    verdict: str = ""
    message: str = ""
    eliminations: tuple[Elimination, ...] = ()
    evicts: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    headroom: tuple[Headroom, ...] = ()
    over_runs: Spread | None = None
    curve: tuple[RoomLeft, ...] = ()


class Capacity(Document, frozen=True):
    """``interrupted``: this is what was known when the user stopped it.

    ``extended``: what to know of the answers of extenders that were asked.
    """

    seed: int
    shapes: tuple[ShapeCapacity, ...] = ()
    not_replayed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    extended: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    interrupted: bool = False
    search_start: SearchStart | None = None
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Capacity"
