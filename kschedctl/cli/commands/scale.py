"""``kschedctl scale``: what would the Cluster Autoscaler do next?"""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from kschedctl.autoscaling.cluster_autoscaler.scale_down import scale_down
from kschedctl.autoscaling.cluster_autoscaler.scale_up import scale_up
from kschedctl.autoscaling.node_groups.found import NodeGroups
from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.node_groups import WHAT_IT_READS, NodeGroupInput
from kschedctl.cli.options import Source, Untabled, with_options
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import load, time_of
from kschedctl.cluster import Cluster
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
    asked: NodeGroupInput,
    action: Annotated[str, typer.Argument(metavar="up|down", help="For pending pods, or of unneeded nodes.")],
) -> Answer:
    """What would the Cluster Autoscaler do in its next loop, and why not more?

    up: which node groups would grow for pending pods, and what keeps each other group from it. down: which nodes are
    not needed, which go now, and what keeps each other node. Release 1.36 is replayed. Groups are those of the
    autoscaler's status ConfigMap, of Cluster API or of its flags; where none tells their limits, those that node
    labels name. --node-groups adds what is not told. up exits with 1 if a pod gets no node.
    """
    if action not in ("up", "down"):
        raise UsageError(f'unknown action "{action}"', hint="kschedctl scale up; kschedctl scale down")
    cluster = load(source, live=WHAT_IT_READS)
    found, now = asked.read(cluster), time_of(cluster, source)
    return _up(cluster, found, now, view) if action == "up" else _down(cluster, found, now, view)


def _up(cluster: Cluster, found: NodeGroups, now: str, view: Untabled) -> Answer:
    report = scale_up(cluster, found.groups, found.options, now=now, active_scale_ups=found.active)
    undecided = not found.certain or bool(report.faults) or bool(report.unknown_groups and report.waiting)
    report = replace(report, undecided=undecided, faults=(*found.faults, *report.faults), **_basis(found))
    return view.answer(report, exit_code(not report.remaining, interrupted=False, undecided=undecided))


def _down(cluster: Cluster, found: NodeGroups, now: str, view: Untabled) -> Answer:
    report = scale_down(cluster, found.groups, found.options, now=now, active_scale_ups=found.active)
    undecided = not found.certain or bool(report.faults)
    waits = dict(found.waits)
    report = replace(report, undecided=undecided, faults=(*found.faults, *report.faults), waits=waits, **_basis(found))
    return view.answer(report, exit_code(good=True, interrupted=False, undecided=undecided))


def _basis(found: NodeGroups) -> dict[str, object]:
    """What both reports say of the groups."""
    return {"seen_groups": not found.limits_known, "sources": found.sources, "doubts": found.doubts}
