"""``kschedctl consolidate``: which nodes would Karpenter take away?"""

from __future__ import annotations

from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.karpenter import WHAT_KARPENTER_READS, KarpenterInput, check_pools
from kschedctl.cli.options import Source, Untabled, with_options
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import load, time_of
from kschedctl.errors import UsageError
from kschedctl.library import autoscalers as library

EXAMPLES = (
    "kschedctl consolidate --instance-types instance_types.json",
    "kschedctl consolidate --instance-types types/ --snapshot prod.ksnap -o json",
)


@with_options
def consolidate(*, source: Source, view: Untabled, asked: KarpenterInput) -> Answer:
    """Which nodes would Karpenter take away, what would it launch instead, and what keeps the other nodes?

    Its methods (v1.14) are replayed on the cluster as it is: empty nodes, drifted nodes, several nodes at once, one
    node; the first that finds something ends the round. Then each node is looked at alone, whatever budgets say. That
    a replacement is cheaper needs prices: --instance-types gives them.
    """
    types = asked.types()
    if types is None:
        raise UsageError("what could replace a node, and for how much, is not known", hint="--instance-types FILE")
    cluster = load(source, live=WHAT_KARPENTER_READS)
    check_pools(cluster)
    report = library.consolidate(cluster, types, asked.settings(), now=time_of(cluster, source))
    return view.answer(report, exit_code(good=True, interrupted=False, undecided=report.undecided))
