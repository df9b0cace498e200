"""The node pools of a cluster: what they are, what is free, what they may grow to: kind NodePools."""

from __future__ import annotations

from typing import Annotated

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted


class PoolReport(Document, frozen=True):
    """Cpu in millicores, memory in bytes. ``ready``: nodes that are, and are not cordoned; ``shapes``: allocatable cpu
    and memory of its nodes, the most frequent first; ``taints``: those of all nodes. ``limits``: of a NodePool of
    Karpenter, resource -> used of how much; ``disruption``: how it takes nodes away, and how many may go now;
    ``node_class``: what its machines are. ``min``, ``target``, ``max``: nodes of a node group of the Cluster
    Autoscaler, None where nothing tells; ``waiting``: pods for which there is no room and which one more of its nodes
    would take.
    """

    pool: Annotated[str, Column("pool", keep=True)]
    nodes: Annotated[int, Column("nodes")] = 0
    ready: Annotated[int, Column("ready")] = 0
    shapes: Annotated[tuple[str, ...], Column("shape")] = ()
    zones: Annotated[tuple[str, ...], Column("zones", every=True)] = ()
    taints: Annotated[tuple[str, ...], Column("taints", every=True)] = ()
    free_cpu: Annotated[int, Column("free cpu")] = 0
    most_free_cpu: Annotated[int, Column("most on a node")] = 0
    free_memory: Annotated[int, Column("free memory")] = 0
    min: Annotated[int | None, Column("min")] = None
    target: Annotated[int | None, Column("target")] = None
    max: Annotated[int | None, Column("max")] = None
    waiting: Annotated[int | None, Column("waiting")] = None
    limits: Annotated[dict[str, str], Column("limits")] = {}
    weight: Annotated[int | None, Column("weight")] = None
    disruption: Annotated[str, Column("disruption")] = ""
    node_class: Annotated[str, Column("node class")] = ""


class NodePools(Report, frozen=True):
    """``pending``: pods that wait for a node; ``sources``, ``doubts``: of node groups, as of a NewNode."""

    pools: tuple[PoolReport, ...] = ()
    pending: int = 0
    sources: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    undecided: bool = False
    api_version: str = "kschedctl.dev/v1"
    kind: str = "NodePools"

    def first_line(self) -> tuple[str, ...]:
        """How many pools and nodes there are, and pods that wait."""
        nodes = counted(sum(pool.nodes for pool in self.pools), "node")
        return (f"{counted(len(self.pools), 'pool')}, {nodes}", f"{counted(self.pending, 'pending pod')}")
