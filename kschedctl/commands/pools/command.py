"""The command `kschedctl pools`."""

from __future__ import annotations

from kschedctl.cli.autoscaler_options import AUTOSCALER_KINDS, KARPENTER_KINDS, NodeGroupInput
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Untabled
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import get_cluster_time, load_cluster
from kschedctl.commands import pools as library

EXAMPLES = (
    "kschedctl pools",
    "kschedctl pools --snapshot prod.ksnap -o json",
    "kschedctl pools --node-groups groups.yaml",
)


@with_options
def pools(*, source: Source, view: Untabled, node_groups: NodeGroupInput) -> Answer:
    """Which node pools exist, what are their nodes like, and what is free on them?

    Pools are found by the node labels of cloud providers. Karpenter's NodePools are listed with their limits, their
    usage, and how many nodes may be disrupted now. The Cluster Autoscaler's node groups are listed with their limits,
    and with the number of pending pods that would fit on one more node.
    """
    cluster = load_cluster(source, live=KARPENTER_KINDS.union(AUTOSCALER_KINDS))
    user_groups = node_groups.read_groups()
    report = library.pools(
        cluster,
        user_groups.groups,
        pool_label=user_groups.label,
        where=user_groups.where,
        now=get_cluster_time(cluster, source),
    )
    return view.build_answer(report, choose_exit_code(good=True, interrupted=False, undecided=report.undecided))
