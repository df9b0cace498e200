"""The command ``kschedctl scale``: what the Cluster Autoscaler would do next."""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.autoscaler_options import AUTOSCALER_KINDS, NodeGroupInput
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Untabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import choose_exit_code
from kschedctl.cli.source import get_cluster_time, load_cluster
from kschedctl.commands import scale as library
from kschedctl.errors import UsageError

EXAMPLES = (
    "kschedctl scale up --node-groups groups.yaml",
    "kschedctl scale down --snapshot prod.ksnap --node-groups groups.yaml -o json",
    "kschedctl scale up --pool-label example.com/pool",
)


@with_options
def scale(
    *,
    source: Source,
    view: Untabled,
    group_options: NodeGroupInput,
    action: Annotated[
        str, typer.Argument(metavar="up|down", help="up adds nodes for pending pods, down removes unneeded nodes.")
    ] = "",
) -> Answer:
    """What would the Cluster Autoscaler do in its next loop, and why not more?

    up lists the node groups that would grow for pending pods, and why the other groups would not. down lists the nodes
    that are not needed, which of them would be removed now, and why the other nodes stay. Replays Cluster Autoscaler
    1.36. Groups come from the autoscaler's status ConfigMap, Cluster API or the autoscaler's flags, and otherwise from
    node labels. Node labels do not say how far a group may grow or shrink, so pass --node-groups in that case. up exits
    with 1 if a pod gets no node.
    """
    if action not in ("up", "down"):
        problem = f'unknown action "{action}"' if action else "choose up or down"
        raise UsageError(problem, hint="kschedctl scale up; kschedctl scale down")
    cluster = load_cluster(source, live=AUTOSCALER_KINDS)
    user_groups, now = group_options.read_groups(), get_cluster_time(cluster, source)
    label, where = user_groups.label, user_groups.where
    if action == "up":
        with show_progress() as progress:
            up = library.scale_up(
                cluster,
                user_groups.groups,
                user_groups.options,
                pool_label=label,
                where=where,
                now=now,
                progress=progress,
            )
        return view.build_answer(up, choose_exit_code(up.are_all_placed, interrupted=False, undecided=up.undecided))
    with show_progress() as progress:
        down = library.scale_down(
            cluster, user_groups.groups, user_groups.options, pool_label=label, where=where, now=now, progress=progress
        )
    return view.build_answer(down, choose_exit_code(good=True, interrupted=False, undecided=down.undecided))
