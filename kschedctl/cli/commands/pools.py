"""``kschedctl pools``: which node pools are there, and what have they left?"""

from __future__ import annotations

from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.karpenter import WHAT_KARPENTER_READS
from kschedctl.cli.options import Source, Untabled, with_options
from kschedctl.cli.source import load, time_of
from kschedctl.library import autoscalers as library

EXAMPLES = (
    "kschedctl pools",
    "kschedctl pools --snapshot prod.ksnap -o json",
)


@with_options
def pools(*, source: Source, view: Untabled) -> Answer:
    """Which node pools are there, what are their nodes like, and what is free on them?

    Pools are those that the labels of providers name, and the NodePools of Karpenter, with limits, what of them is
    used, and how many nodes may be taken away now.
    """
    cluster = load(source, live=WHAT_KARPENTER_READS)
    return view.answer(library.pools(cluster, now=time_of(cluster, source)))
