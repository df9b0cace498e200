"""The report of `pools`: apiVersion kschedctl.dev/v1, kind NodePools."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import replace

from kschedctl.api.resource_names import CPU, MEMORY, describe_amount
from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.reports.summary import Summary
from kschedctl.text.counts import counted


class PoolReport(Document, frozen=True):
    """A node pool, with its free resources and the limits to which it may grow."""

    pool: Annotated[str, Column("pool", keep=True)]
    nodes: Annotated[int, Column("nodes")] = 0
    ready: Annotated[int, Column("usable")] = 0
    """The number of nodes that are ready and not cordoned."""
    cordoned: Annotated[int, Column("cordoned", show_above=0)] = 0
    unready: Annotated[int, Column("not ready", show_above=0)] = 0
    """The number of nodes that are tainted as not ready, unreachable or not initialized, and not cordoned."""
    shapes: Annotated[tuple[str, ...], Column("node size", csv="shape")] = ()
    """The allocatable cpu and memory of the nodes, most frequent first."""
    zones: Annotated[tuple[str, ...], Column("zones", show_all=True, beneath="zones:")] = ()
    taints: Annotated[tuple[str, ...], Column("taints", show_all=True, beneath="taints:")] = ()
    """The taints that all nodes have."""
    free_cpu: Annotated[int, Column("free cpu")] = 0
    """The free cpu on all nodes that are neither cordoned nor tainted as not ready, in millicores."""
    most_free_cpu: Annotated[int, Column("most free cpu on one node", csv="most on a node")] = 0
    """The most free cpu on one of these nodes that can run one more pod, in millicores."""
    free_memory: Annotated[int, Column("free memory")] = 0
    """The free memory on all nodes that are neither cordoned nor tainted as not ready, in bytes."""
    min: Annotated[int | None, Column("min")] = None
    """The minimum number of nodes of Cluster Autoscaler's node group, or None if unknown."""
    target: Annotated[int | None, Column("target")] = None
    """The number of nodes that Cluster Autoscaler's node group should have, or None if unknown."""
    max: Annotated[int | None, Column("max")] = None
    """The maximum number of nodes of Cluster Autoscaler's node group, or None if unknown."""
    waiting: Annotated[int | None, Column("waiting")] = None
    """The number of pods that find no room and would fit on one more node of the group."""
    limits: Annotated[dict[str, str], Column("limits")] = {}
    """Resource -> how much of a Karpenter NodePool's limit is used."""
    weight: Annotated[int | None, Column("weight")] = None
    """The weight of a Karpenter NodePool."""
    disruption: Annotated[str, Column("disruption")] = ""
    """The disruption policy of a Karpenter NodePool, and the number of nodes that it may remove now."""
    node_class: Annotated[str, Column("node class")] = ""
    """The node class of a Karpenter NodePool, which describes its machines."""

    @property
    def free_text(self) -> str:
        """A phrase about the free CPU and memory on the pool's nodes."""
        cpu, most_cpu = (describe_amount(CPU, amount) for amount in (self.free_cpu, self.most_free_cpu))
        cordoned = f", {self.cordoned:,} cordoned" if self.cordoned else ""
        unready = f", {self.unready:,} not ready" if self.unready else ""
        nodes = f"{counted(self.nodes, 'node')}{cordoned}{unready}"
        memory = describe_amount(MEMORY, self.free_memory)
        return f"pool {self.pool} ({nodes}): {cpu} free, at most {most_cpu} on a node; {memory} free"


class NodePools(Report, frozen=True):
    """The node pools of a cluster, and the number of its pending pods."""

    pools: tuple[PoolReport, ...] = ()
    pending: int = 0
    """The number of pods that wait for a node."""
    sources: tuple[str, ...] = ()
    """The sources of the node groups."""
    doubts: tuple[str, ...] = ()
    """Reasons why node groups may be incomplete or wrong."""
    undecided: bool = False
    kind: str = "NodePools"

    def build_headline_parts(self) -> tuple[str, ...]:
        """Return two texts: the numbers of pools and nodes, and the number of pending pods."""
        nodes = counted(sum(pool.nodes for pool in self.pools), "node")
        return (f"{counted(len(self.pools), 'pool')}, {nodes},", counted(self.pending, "pending pod"))

    def extend_summary(self, summary: Summary) -> Summary:
        """Return the summary with a warning for each pool, which describes its free resources."""
        return replace(summary, warnings=tuple(pool.free_text for pool in self.pools))
