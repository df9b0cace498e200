"""Who makes nodes for a cluster: Karpenter where it has NodePools, the Cluster Autoscaler where groups are named."""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.cli.option_groups.karpenter import WHAT_KARPENTER_READS, KarpenterInput
from kschedctl.cli.option_groups.node_groups import WHAT_IT_SAYS, NodeGroupInput
from kschedctl.cli.options import Source
from kschedctl.cli.source import NOTHING_MORE, LiveKinds, time_of
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.new_node import NewNode, NodeGrowth
from kschedctl.reports.remedy import Remedy


@dataclass(frozen=True)
class Autoscalers:
    """What the options say of both."""

    source: Source
    karpenter: KarpenterInput
    node_groups: NodeGroupInput

    @property
    def live(self) -> LiveKinds:
        """What to read of a live cluster besides what a scheduler reads."""
        of_karpenter = WHAT_KARPENTER_READS if self.karpenter.instance_types or self.node_groups.asked else NOTHING_MORE
        return of_karpenter.and_also(WHAT_IT_SAYS)

    def growth(self, cluster: Cluster) -> NodeGrowth | None:
        """The nodes that come for all pods that wait; None where nobody is known to make any. Raises InputError."""
        from kschedctl.fixes.new_node import node_growth  # noqa: PLC0415 - only pods that wait need it

        now = time_of(cluster, self.source)
        return node_growth(cluster, now, self.node_groups.given(), self.karpenter.types(), self.karpenter.settings())

    def fixes(self, asked: TargetPod, told: NewNode) -> tuple[Remedy, ...]:
        """Return what lets a node group grow, or a NodePool launch a node, for the pod. Raises InputError."""
        from kschedctl.fixes.new_node import autoscaler_fixes  # noqa: PLC0415 - only pods that were explained need it

        now = time_of(asked.scheduler.cluster, self.source)
        types, settings = self.karpenter.types(), self.karpenter.settings()
        return autoscaler_fixes(asked, told, now, self.node_groups.given(), types=types, settings=settings)

    def new_node(self, asked: TargetPod) -> NewNode | None:
        """Whether one would come for a pod; None where nobody is known to make any. Raises InputError."""
        from kschedctl.fixes.new_node import new_node  # noqa: PLC0415 - only pods that were explained need it

        now = time_of(asked.scheduler.cluster, self.source)
        return new_node(asked, now, self.node_groups.given(), self.karpenter.types(), self.karpenter.settings())
