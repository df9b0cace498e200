"""The nodes that an autoscaler would launch, for one pod and for all pods that find no room."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated

import msgspec

from kschedctl.api.copying import replace
from kschedctl.reports.columns import Column, Tone
from kschedctl.reports.document import Document
from kschedctl.reports.placements import EvictedPod
from kschedctl.text.counts import agreeing, counted, first_few


class PoolVerdict(Document, frozen=True, omit_defaults=True):
    """A pool's answer to the question whether it would launch a node if only this pod waited."""

    pool: Annotated[str, Column("pool", keep=True)]
    takes: bool
    answer: Annotated[str, Column("answer")]
    """The instance types, or why the pool launches none, in the autoscaler's words."""
    missing: Annotated[tuple[str, ...], Column("what prevents it", lines=True)] = ()
    """Everything that keeps the pool from taking the pod, the closest instance type last."""
    would_take: bool = False
    """True if one more node of the pool would take the pod, if the pool could grow."""
    sufficient_limits: dict[str, str] = {}
    """Resource -> the higher limit of a NodePool with which it would launch a node, if limits are the only obstacle."""
    plugin: str = ""
    """The plugin of kube-scheduler that rejects a node of the pool."""


class LastAutoscalerEvent(Document, frozen=True):
    """The autoscaler's last event about the pod."""

    message: str
    at: str = ""
    agrees: bool = True
    """True if the replay comes to the same answer."""


class QueueShare(Document, frozen=True):
    """The result of the competition among all waiting pods for the nodes that an autoscaler adds."""

    nodes: int
    """The number of nodes that are added for all waiting pods, in pools that could take the pod."""
    rivals: tuple[str, ...]
    """The other waiting pods that get a place on these nodes."""
    placed: bool
    """True if the pod gets a node in the end."""
    enough: int | None = None
    """The number of new nodes that would be enough for the pod and its rivals, without the size limits of pools if the
    pod gets no node. None if no number is.
    """
    growth: str = ""
    """The new nodes by pool, in words."""


class NewNode(Document, frozen=True):
    """The answer to the question whether the cluster's autoscaler would launch a node for the pod."""

    autoscaler: str
    pools: tuple[PoolVerdict, ...] = ()
    existing_node: str = ""
    """The node on which the autoscaler sees room for the pod, so that it launches none."""
    seen_types: int | None = None
    """The number of instance types that existing nodes show, if no others are known. It is then not certain that no
    type fits.
    """
    message: str = ""
    """The autoscaler's message about the pod if it launches nothing."""
    said: LastAutoscalerEvent | None = None
    """The autoscaler's own event, if events were read."""
    sources: tuple[str, ...] = ()
    """The places at which node groups and flags were read."""
    doubts: tuple[str, ...] = ()
    """Uncertainties about groups and flags."""
    differences: tuple[str, ...] = ()
    """Ways in which the autoscaler treats this pod differently from kube-scheduler."""
    ignored_because: str = ""
    """The reason why the autoscaler ignores the pod; empty if it does not."""
    queue: QueueShare | None = None
    """The effect of other waiting pods, if there are any and a node would be added for this pod alone."""

    @property
    def would_launch(self) -> bool:
        """True if the autoscaler would launch a node if only this pod waited."""
        return not self.existing_node and any(pool.takes for pool in self.pools)

    @property
    def gets_node(self) -> bool:
        """True if the pod gets a new node, also if other waiting pods compete for the new nodes."""
        return self.would_launch and (self.queue is None or self.queue.placed) and not self.ignored_because

    @property
    def answer(self) -> str:
        """The answer in a sentence: whether a new node comes for the pod, and what that depends on."""
        if self.ignored_because:
            answer = f"No, not by {self.autoscaler}: {self.ignored_because}"
        elif self.existing_node:
            answer = f"No: {self.autoscaler} sees room for the pod on {self.existing_node}"
        elif self.would_launch or self.queue:
            answer = self._describe_queue_answer()
        else:
            closest = f"; {self.closest} comes closest" if self.closest else ""
            growing = "; ".join(f"{pool.pool}: {pool.answer}" for pool in self.pools if pool.would_take)
            answer = f"No, not by {self.autoscaler}{closest}" + (f" ({growing})" if growing else "")
        if self.seen_types is not None:
            types = agreeing(self.seen_types, "instance type", f"{self.seen_types:,} instance types")
            were = agreeing(self.seen_types, "was", "were")
            answer += f". Only the {types} of the existing nodes {were} considered; --instance-types FILE adds others"
        return answer

    def _describe_queue_answer(self) -> str:
        """Describe whether the pod gets a new node while other waiting pods compete for the new nodes.

        Without a replay of the other pods (`queue`), the answer is about this pod alone.
        """
        queue = self.queue
        if queue is None:
            return f"Yes, by {self.autoscaler}"
        if queue.placed and not queue.rivals:
            return f"Yes, by {self.autoscaler}: {queue.growth}, regardless of other waiting pods"
        rivals = counted(len(queue.rivals), "other waiting pod")
        rival_names = f" ({first_few(queue.rivals)})" if queue.rivals else ""
        if queue.placed:
            return f"Yes, by {self.autoscaler}: {queue.growth}, which the pod shares with {rivals}{rival_names}"
        need = agreeing(len(queue.rivals), "needs", "need")
        enough = ""
        if queue.enough is not None:
            enough = f"; without size limits, {counted(queue.enough, 'new node')} would be enough for all"
        obstacle = f"{rivals}{rival_names} {need} this capacity{enough}"
        return f"Not for this pod: {self.autoscaler} adds {queue.growth}, but {obstacle}"

    @property
    def closest(self) -> str:
        """The pool that lacks the fewest things to take the pod.

        The name is "" if a pool takes the pod, or if fewer than two pools lack something.
        """
        refusing = [pool for pool in self.pools if pool.missing]
        if len(refusing) < 2 or any(pool.takes for pool in self.pools):
            return ""
        return min(refusing, key=lambda pool: len(pool.missing)).pool


class NewPoolNodes(Document, frozen=True):
    """New nodes of a pool in a zone, and the pods that they hold in the end, without DaemonSet pods."""

    pool: Annotated[str, Column(keep=True)]
    zone: Annotated[str, Column()]
    new: Annotated[int, Column("new nodes")]
    pods: Annotated[int, Column("pods on them")]
    """The number of pods on the new nodes, without DaemonSet pods."""
    pod_names: Annotated[tuple[str, ...], Column("names")] = ()
    """The pods on the new nodes, without DaemonSet pods."""


class NeverScheduled(Document, frozen=True):
    """Pods that have no node in the end."""

    pods: Annotated[tuple[str, ...], Column(keep=True)]
    message: Annotated[str, Column("kube-scheduler's message", tone=Tone.VERBATIM)]
    """kube-scheduler's message."""
    autoscaler: Annotated[str, Column("autoscaler's message", tone=Tone.VERBATIM)]
    """The reason why no node is added for them, in the autoscaler's words."""
    causes: Annotated[tuple[str, ...], Column("what stops it", lines=True)] = ()
    """The reasons why node groups or NodePools do not add a node for these pods, in our words."""


class NodeGrowth(Document, frozen=True):
    """The nodes that an autoscaler would launch for all pods that find no room."""

    autoscaler: str
    loops: int = 0
    """The number of loops in which the autoscaler launched nodes."""
    nodes: int = 0
    """The number of new nodes."""
    pools: tuple[NewPoolNodes, ...] = ()
    never: tuple[NeverScheduled, ...] = ()
    """The pods that have no node in the end."""
    placements: dict[str, str] = msgspec.field(default_factory=dict)
    """Pod -> node, for the pods that found no room before."""
    evicted: int = 0
    """The number of pods that were preempted, apart from pods that were being deleted anyway."""
    preempted: tuple[EvictedPod, ...] = ()
    """The evictions of these pods in their order, with what becomes of the pods once all new nodes exist."""
    sources: tuple[str, ...] = ()
    """The places at which node groups and flags were read."""
    doubts: tuple[str, ...] = ()
    """Uncertainties about groups and flags."""

    @property
    def unplaced_count(self) -> int:
        """The number of pods that never get a node."""
        return sum(len(pods.pods) for pods in self.never)

    def select_pools(self, pools: Collection[str]) -> NodeGrowth:
        """Return the growth with only the new nodes of these pools."""
        selected = tuple(nodes for nodes in self.pools if nodes.pool in pools)
        return replace(self, pools=selected, nodes=sum(nodes.new for nodes in selected))

    def iter_pods_on_new_nodes(self) -> Iterator[str]:
        """Yield the pods on the new nodes, without DaemonSet pods."""
        for nodes in self.pools:
            yield from nodes.pod_names

    @property
    def sentence(self) -> str:
        """A description of the new nodes, such as ``6 new nodes (4 of b, 2 a zone; 2 of c)``."""
        if not self.nodes:
            return f"{self.autoscaler} adds no node"
        pools: dict[str, list[int]] = {}
        for pool in self.pools:
            pools.setdefault(pool.pool, []).append(pool.new)
        parts = [f"{sum(new):,} of {pool}{_describe_per_zone(new)}" for pool, new in pools.items()]
        return f"{counted(self.nodes, 'new node')} ({'; '.join(parts)})"


def _describe_per_zone(new_by_zone: list[int]) -> str:
    """Describe the number of nodes per zone, or return "" if zones differ or there is only one."""
    if len(new_by_zone) < 2 or len(set(new_by_zone)) > 1:
        return ""
    return f", {new_by_zone[0]:,} a zone"
