"""Options of both autoscalers: Karpenter if the cluster has NodePools, else Cluster Autoscaler."""

from __future__ import annotations

from dataclasses import dataclass

from kschedctl.cli.option_groups.karpenter import KARPENTER_KINDS, KarpenterInput
from kschedctl.cli.option_groups.node_groups import AUTOSCALER_STATUS_KINDS, NodeGroupInput
from kschedctl.cli.options import Source
from kschedctl.cli.source import NOTHING_MORE, LiveKinds, get_cluster_time
from kschedctl.cluster import Cluster
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.reports.new_node import NewNode, NodeGrowth
from kschedctl.reports.remedy import Remedy


@dataclass(frozen=True)
class Autoscalers:
    """Options of both autoscalers."""

    source: Source
    karpenter: KarpenterInput
    node_groups: NodeGroupInput

    @property
    def live(self) -> LiveKinds:
        """The kinds to read from a live cluster in addition to those that plugins read."""
        of_karpenter = KARPENTER_KINDS if self.karpenter.instance_types or self.node_groups.is_given else NOTHING_MORE
        return of_karpenter.union(AUTOSCALER_STATUS_KINDS)

    def find_growth(self, cluster: Cluster) -> NodeGrowth | None:
        """Return the nodes that come for all pending pods, or None without an autoscaler. Raises InputError."""
        from kschedctl.fixes.new_node import simulate_node_growth  # noqa: PLC0415 - only pods that wait need it

        now = get_cluster_time(cluster, self.source)
        return simulate_node_growth(
            cluster, now, self.node_groups.read_groups(), self.karpenter.read_types(), self.karpenter.parse_settings()
        )

    def find_fixes(self, asked: TargetPod, told: NewNode) -> tuple[Remedy, ...]:
        """Return the fixes by which an autoscaler adds a node for the pod. Raises InputError."""
        from kschedctl.fixes.new_node import find_autoscaler_fixes  # noqa: PLC0415 - only pods that were explained need it

        now = get_cluster_time(asked.scheduler.cluster, self.source)
        types, settings = self.karpenter.read_types(), self.karpenter.parse_settings()
        return find_autoscaler_fixes(asked, told, now, self.node_groups.read_groups(), types=types, settings=settings)

    def find_new_node(self, asked: TargetPod) -> NewNode | None:
        """Return the node that would come for a pod, or None without an autoscaler. Raises InputError."""
        from kschedctl.fixes.new_node import explain_new_node  # noqa: PLC0415 - only pods that were explained need it

        now = get_cluster_time(asked.scheduler.cluster, self.source)
        types, settings = self.karpenter.read_types(), self.karpenter.parse_settings()
        return explain_new_node(asked, now, self.node_groups.read_groups(), types, settings)
