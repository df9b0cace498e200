"""The command line of `kschedctl provision`."""

from __future__ import annotations

from kschedctl.cli.autoscaler_options import KARPENTER_KINDS, KarpenterInput, require_node_pools
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Untabled
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import get_cluster_time, load_cluster
from kschedctl.commands import provision as library

EXAMPLES = (
    "kschedctl provision --instance-types instance_types.json",
    "kschedctl provision --snapshot prod.ksnap --instance-types types/ -o json",
)


@with_options
def provision(*, source: Source, view: Untabled, karpenter: KarpenterInput) -> Answer:
    """Which nodes would Karpenter launch for pending pods, and why can other pods not get one?

    Replays Karpenter's own scheduler (v1.14), which differs from kube-scheduler: it first treats preferences as
    requirements, and then drops them one by one. Without --instance-types, only the types of existing nodes are known,
    without prices, so a pod that fits none of them might still fit another type. Exits with 1 if a pod gets no node.
    """
    cluster = load_cluster(source, live=KARPENTER_KINDS)
    require_node_pools(cluster)
    now = get_cluster_time(cluster, source)
    report = library.provision(cluster, karpenter.read_types(), karpenter.parse_settings(), now=now)
    return view.build_answer(
        report, choose_exit_code(report.are_all_placed, interrupted=False, undecided=report.undecided)
    )
