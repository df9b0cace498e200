"""``kschedctl scale``: what would the Cluster Autoscaler do next?"""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from kschedctl.autoscaling.cluster_autoscaler.scale_down import scale_down
from kschedctl.autoscaling.cluster_autoscaler.scale_up import scale_up
from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.node_groups import NodeGroupInput
from kschedctl.cli.options import Source, Untabled, with_options
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import LiveKinds, load, time_of
from kschedctl.errors import UsageError

EXAMPLES = (
    "kschedctl scale up --node-groups groups.yaml",
    "kschedctl scale down --snapshot prod.ksnap --node-groups groups.yaml -o json",
    "kschedctl scale up --pool-label example.com/pool",
)
WHAT_IT_READS = LiveKinds(("DaemonSet", "Job"))
"""Besides what a scheduler reads."""


@with_options
def scale(
    *,
    source: Source,
    view: Untabled,
    asked: NodeGroupInput,
    action: Annotated[str, typer.Argument(metavar="up|down", help="For pending pods, or of unneeded nodes.")],
) -> Answer:
    """What would the Cluster Autoscaler do in its next loop, and why not more?

    up: which node groups would grow for pending pods, and what keeps each other group from it. down: which nodes are
    not needed, which go now, and what keeps each other node. Release 1.36 is replayed. Without --node-groups the groups
    are those that well-known labels name, and their limits are not known. up exits with 1 if a pod gets no node.
    """
    if action not in ("up", "down"):
        raise UsageError(f'unknown action "{action}"', hint="kschedctl scale up; kschedctl scale down")
    cluster = load(source, live=WHAT_IT_READS)
    groups, options = asked.read(cluster)
    seen = not asked.node_groups
    now = time_of(cluster, source)
    if action == "up":
        up = scale_up(cluster, groups, options, now=now)
        unsure = seen or bool(up.faults)
        up = replace(up, seen_groups=seen, undecided=unsure)
        return view.answer(up, exit_code(not up.remaining, interrupted=False, undecided=unsure))
    down = scale_down(cluster, groups, options, now=now)
    unsure = seen or bool(down.faults)
    return view.answer(
        replace(down, seen_groups=seen, undecided=unsure), exit_code(good=True, interrupted=False, undecided=unsure)
    )
