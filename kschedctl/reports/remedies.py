"""What would let a pod schedule, as documents: apiVersion kschedctl.dev/v1, kinds Remedies and RemediesOfMany.

Each remedy was replayed: its changes, applied to the objects as they were read, are what was replayed.
"""

from __future__ import annotations

from typing import Any

from kschedctl.reports.document import Document
from kschedctl.reports.unknown import UnknownKind


class Remedy(Document, frozen=True):
    """The smallest changes that let the pod schedule: none of them can be left out.

    ``by``: who makes them, "author" of the workload or "operator" of the cluster, who could make all. ``weakens``: the
    guarantees that are given up, None for none. ``opens``: the nodes that then take the pod. ``commands``: what can be
    typed, or read, to make the changes. ``kinds``: of each change, for --only and --without. ``victims``: the pods that
    the scheduler then evicts to make room on the one node that ``opens`` names. ``alternatives``: where the same can be
    done as well, each replayed too.

    ``changes``: of each object, as it was read, either ``{"kind", "namespace", "name", "patch"}`` with RFC 6902
    operations, or ``{"create": object}``, or ``{"delete": {"kind", "namespace", "name"}}``. ``owner_patch``: what the
    pod asks for otherwise, as strategic merge patch of the ``owner`` that makes it; empty where it stays as it is.
    """

    summary: str
    by: str
    weakens: str | None
    opens: tuple[str, ...]
    commands: tuple[str, ...]
    changes: tuple[dict[str, Any], ...]
    kinds: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    owner: str = ""
    owner_patch: dict[str, Any] = {}


class SearchReport(Document, frozen=True):
    """Sets of up to ``max_changes`` were looked for, in so many ``replays``; ``complete``: time was enough for all."""

    max_changes: int
    replays: int
    complete: bool = True


class Remedies(Document, frozen=True):
    """Of one pod, the best first. ``impossible``: why a kind of remedy cannot exist, with the figures.

    ``verdict``, ``headline`` and the rest are as in its Explanation.
    """

    pod: str
    verdict: str
    headline: str
    remedies: tuple[Remedy, ...] = ()
    impossible: tuple[str, ...] = ()
    searched: SearchReport | None = None
    stands_for: str = ""
    not_replayed: tuple[str, ...] = ()
    unknown: tuple[UnknownKind, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "Remedies"
