"""``kschedctl pools``: which node pools are there, and what have they left?"""

from __future__ import annotations

from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.karpenter import WHAT_KARPENTER_READS
from kschedctl.cli.option_groups.node_groups import WHAT_IT_READS, NodeGroupInput
from kschedctl.cli.options import Source, Untabled, with_options
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import load, time_of
from kschedctl.commands import pools as library

EXAMPLES = (
    "kschedctl pools",
    "kschedctl pools --snapshot prod.ksnap -o json",
    "kschedctl pools --node-groups groups.yaml",
)


@with_options
def pools(*, source: Source, view: Untabled, asked: NodeGroupInput) -> Answer:
    """Which node pools are there, what are their nodes like, and what is free on them?

    Pools are those that the labels of providers name, and the NodePools of Karpenter, with limits, what of them is
    used, and how many nodes may be taken away now. Node groups of the Cluster Autoscaler are shown with their limits,
    and with the pods that one more of their nodes would take.
    """
    cluster, given = load(source, live=WHAT_KARPENTER_READS.and_also(WHAT_IT_READS)), asked.given()
    report = library.pools(
        cluster, given.groups, pool_label=given.label, where=given.where, now=time_of(cluster, source)
    )
    return view.answer(report, exit_code(good=True, interrupted=False, undecided=report.undecided))
