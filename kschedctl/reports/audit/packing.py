"""The section of an audit about fragmentation and packing: kind AuditSection, name packing."""

from __future__ import annotations

from kschedctl.reports.audit.section import Section
from kschedctl.reports.document import Document


class ResourceRoom(Document, frozen=True):
    """A resource of a pool's workers; millicores, bytes or units. ``stranded``: what of the ``free`` is of no use."""

    resource: str
    allocatable: int
    requested: int
    free: int
    stranded: int


class PoolRoom(Document, frozen=True):
    """``pool``: empty for nodes that are in none. ``nodes``: workers, neither cordoned nor of the control plane."""

    pool: str
    nodes: int
    resources: tuple[ResourceRoom, ...]


class TypicalPods(Document, frozen=True, kw_only=True):
    """Pods of the same ``requests``, of so many ``workloads``, that go to a pool or are ``pending``.

    ``fits_on``: how many nodes would take one of them now.
    """

    pool: str
    pods: int
    workloads: int
    examples: tuple[str, ...]
    requests: dict[str, int]
    fits_on: int
    pending: bool = False


class StrandedRoom(Document, frozen=True, kw_only=True):
    """What is ``free`` on ``nodes`` of a pool that take none of the pods, most of them for this ``reason``."""

    pool: str
    reason: str
    nodes: int
    examples: tuple[str, ...]
    free: dict[str, int]


class EmptiedNode(Document, frozen=True):
    """A node of which all pods that have to ``moved`` to others; ``saves``: what it offers."""

    node: str
    pool: str
    moved: int
    saves: dict[str, int]


class KeptNode(Document, frozen=True):
    """A node that cannot be emptied, and the first reason."""

    node: str
    pool: str
    why: str


class PoolSavings(Document, frozen=True):
    """``nodes`` of a pool could go, ``empty`` of them without a pod that moves."""

    pool: str
    nodes: int
    empty: int
    saves: dict[str, int]


class PackingSection(Section, frozen=True, kw_only=True, tag="packing"):
    """``tried`` of ``candidates`` nodes were drained, those with least to move first, each after those that worked:
    ``emptied`` or ``kept``. ``empty``: nodes on which nothing has to move. ``savings``: both, by pool.
    """

    pools: tuple[PoolRoom, ...] = ()
    typical: tuple[TypicalPods, ...] = ()
    stranded: tuple[StrandedRoom, ...] = ()
    emptied: tuple[EmptiedNode, ...] = ()
    kept: tuple[KeptNode, ...] = ()
    empty: tuple[str, ...] = ()
    candidates: int = 0
    tried: int = 0
    savings: tuple[PoolSavings, ...] = ()
