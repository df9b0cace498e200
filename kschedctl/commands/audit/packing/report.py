"""The report of the section about fragmentation and packing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.placements import NO_POOL
from kschedctl.reports.section import Section
from kschedctl.text.counts import agreeing, join_first_few


class ResourceRoom(Document, frozen=True):
    """The amounts of a resource of a pool's workers, in millicores, bytes or units."""

    resource: str
    allocatable: int
    requested: int
    free: int
    stranded: int
    """The part of `free` that no typical or pending pod can use."""


class PoolRoom(Document, frozen=True):
    """The resources of a pool's worker nodes."""

    pool: str
    """Empty for nodes without a pool."""
    nodes: int
    """The number of workers, without cordoned and control plane nodes."""
    resources: tuple[ResourceRoom, ...]


class TypicalPods(Document, frozen=True, kw_only=True):
    """Pods with the same requests that are frequent in a pool, or frequent among the pending pods."""

    pool: Annotated[str, Column(keep=True)]
    pods: Annotated[int, Column()]
    workloads: int
    """The number of workloads of these pods."""
    examples: Annotated[tuple[str, ...], Column("workloads", place=1)]
    requests: Annotated[dict[str, int], Column("request per pod")]
    fits_on: Annotated[int, Column("fits on nodes")]
    """The number of nodes on which one more of them fits now."""
    pending: bool = False


class StrandedRoom(Document, frozen=True, kw_only=True):
    """Free capacity on nodes of a pool that none of the pods can use."""

    pool: Annotated[str, Column(keep=True, place=-1, words=NO_POOL)]
    reason: Annotated[str, Column("why no typical pod fits")]
    """The reason that keeps most of the pods off these nodes."""
    nodes: Annotated[int, Column(place=-1)]
    """The number of nodes."""
    examples: Annotated[tuple[str, ...], Column("examples", beneath="such as", place=1)]
    free: Annotated[dict[str, int], Column("stranded", beneath="stranded")]


class EmptiedNode(Document, frozen=True):
    """A node that can be emptied."""

    node: str
    pool: str
    moved: int
    """The number of pods that move to other nodes."""
    saves: dict[str, int]
    """The allocatable resources of the node."""
    loses_data: tuple[str, ...] = ()
    """The pods that move and whose emptyDir volumes are deleted (`namespace/name`)."""
    ask_to_stay: tuple[str, ...] = ()
    """The pods that move although their annotations ask autoscalers not to evict them (`namespace/name`)."""
    outages: tuple[str, ...] = ()
    """The workloads that have no running pod until replacements run."""
    starting_over: tuple[str, ...] = ()
    """The pods of Jobs, whose replacements start from the beginning (`namespace/name`)."""
    slow_pods: dict[str, int] = {}
    """The pods with a long grace period, each with the seconds that it may take to end."""


class KeptNode(Document, frozen=True):
    """A node that cannot be emptied or that pending pods need, with the first reason."""

    node: Annotated[str, Column(keep=True)]
    pool: Annotated[str, Column(keep=True, beneath="of pool", words=NO_POOL)]
    why: Annotated[str, Column("reason")]
    lets_run: tuple[str, ...] = ()
    """The pending pods (`namespace/name`) that fit there once its pods have moved, or cannot run on any other node."""
    pod: str = ""
    """The pod that keeps the node, if a pod does."""
    message: str = ""
    """kube-scheduler's message if that pod fits nowhere else."""
    cordoned_in_replay: int = 0
    """The number of nodes that count as cordoned in the message because the replay removes them, with this one."""


class PoolSavings(Document, frozen=True):
    """The removable nodes of a pool."""

    pool: Annotated[str, Column(keep=True, words=NO_POOL)]
    nodes: Annotated[int, Column("removable")]
    """The number of nodes."""
    empty: Annotated[int, Column("empty now")]
    """The number of these nodes on which nothing has to move."""
    saves: Annotated[dict[str, int], Column()]
    empty_nodes: tuple[str, ...] = ()
    """The names of the nodes on which nothing has to move."""


class PackingSection(Section, frozen=True, kw_only=True, tag="packing"):
    """The section about stranded capacity and removable nodes."""

    pools: tuple[PoolRoom, ...] = ()
    typical: tuple[TypicalPods, ...] = ()
    stranded: tuple[StrandedRoom, ...] = ()
    emptied: tuple[EmptiedNode, ...] = ()
    """The nodes that trial drains emptied."""
    kept: tuple[KeptNode, ...] = ()
    """The nodes that trial drains could not empty, or that pending pods need once they are empty."""
    empty: tuple[str, ...] = ()
    """The nodes on which nothing has to move."""
    candidates: int = 0
    """The number of nodes that could be tried."""
    tried: int = 0
    """The number of nodes that were tried. Nodes with the least to move are tried first."""
    waiting_workloads: tuple[str, ...] = ()
    """The objects that wait for nodes but whose pods are not placed: in queues or of other schedulers."""
    savings: tuple[PoolSavings, ...] = ()
    """The removable nodes by pool, both emptied and empty ones."""


def describe_condition(unreplayed_workloads: Sequence[str]) -> str:
    """Return the condition that the answer depends on, as a clause that follows the answer, or "".

    >>> describe_condition(("PodGroup ml/small",))
    ', unless PodGroup ml/small needs the capacity (not placed by kube-scheduler)'
    """
    if not unreplayed_workloads:
        return ""
    need = agreeing(len(unreplayed_workloads), "needs", "need")
    names = join_first_few(unreplayed_workloads)
    return f", unless {names} {need} the capacity (not placed by kube-scheduler)"
