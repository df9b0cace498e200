"""The section of an audit about fragmentation and packing: kind AuditSection, name packing."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.pool_change import NO_POOL
from kschedctl.reports.section import Section


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

    pool: Annotated[str, Column("pods of", keep=True)]
    pods: Annotated[int, Column()]
    workloads: int
    examples: Annotated[tuple[str, ...], Column("workloads", place=1)]
    requests: Annotated[dict[str, int], Column("request")]
    fits_on: Annotated[int, Column("fit on")]
    pending: bool = False


class StrandedRoom(Document, frozen=True, kw_only=True):
    """What is ``free`` on ``nodes`` of a pool that take none of the pods, most of them for this ``reason``."""

    pool: Annotated[str, Column(keep=True, place=-1, words=NO_POOL)]
    reason: Annotated[str, Column("keeps pods away")]
    nodes: Annotated[int, Column(place=-1)]
    examples: Annotated[tuple[str, ...], Column("such as", beneath="such as", place=1)]
    free: Annotated[dict[str, int], Column("free there", beneath="free")]


class EmptiedNode(Document, frozen=True):
    """A node of which all pods that have to ``moved`` to others; ``saves``: what it offers."""

    node: str
    pool: str
    moved: int
    saves: dict[str, int]


class KeptNode(Document, frozen=True):
    """A node that cannot be emptied, and the first reason."""

    node: Annotated[str, Column("cannot be emptied", keep=True)]
    pool: Annotated[str, Column(keep=True, beneath="of pool", words=NO_POOL)]
    why: Annotated[str, Column("reason")]


class PoolSavings(Document, frozen=True):
    """``nodes`` of a pool could go, ``empty`` of them without a pod that moves."""

    pool: Annotated[str, Column(keep=True, words=NO_POOL)]
    nodes: Annotated[int, Column("removable")]
    empty: Annotated[int, Column("empty now")]
    saves: Annotated[dict[str, int], Column()]


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
