"""Who makes nodes for a cluster: Karpenter where it has NodePools, the Cluster Autoscaler where groups are named."""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.cli.option_groups.karpenter import WHAT_KARPENTER_READS, KarpenterInput
from kschedctl.cli.option_groups.node_groups import WHAT_IT_SAYS, NodeGroupInput
from kschedctl.cli.options import Source
from kschedctl.cli.source import NOTHING_MORE, LiveKinds, time_of
from kschedctl.reports.new_node import NewNode
from kschedctl.studies.controllers.asked_pod import AskedPod


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

    def new_node(self, asked: AskedPod) -> NewNode | None:
        """Whether one would come for a pod; None where nobody is known to make any. Raises InputError."""
        cluster = asked.scheduler.cluster
        now = time_of(cluster, self.source)
        if self.node_groups.concerns(cluster):
            from kschedctl.autoscaling.cluster_autoscaler import new_node as autoscaler  # noqa: PLC0415 - seldom asked

            return autoscaler.new_node(cluster, asked.pod, self.node_groups.read(cluster), now)
        if not cluster.karpenter_node_pools:
            return None
        from kschedctl.autoscaling.karpenter import new_node as karpenter  # noqa: PLC0415 - few clusters have it

        types = self.karpenter.types() if self.karpenter.instance_types else None
        return karpenter.new_node(cluster, asked.pod, types, self.karpenter.settings(), now)
