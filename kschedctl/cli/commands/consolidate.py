"""``kschedctl consolidate``: which nodes could go, or which would an autoscaler take away?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kschedctl.api.workloads import makes_pods
from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.karpenter import WHAT_KARPENTER_READS, KarpenterInput, check_pools
from kschedctl.cli.option_groups.node_groups import WHAT_IT_READS, NodeGroupInput
from kschedctl.cli.options import Source, Untabled, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import NOTHING_MORE, load, time_of
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.library import autoscalers as library
from kschedctl.reports.disruption import Disruption
from kschedctl.reports.scale_down import ScaleDown
from kschedctl.sources.read import read
from kschedctl.studies.consolidating.autoscalers import (
    NOBODY,
    AutoscalerVerdicts,
    cluster_autoscalers,
    karpenters,
    prices_of,
)
from kschedctl.studies.consolidating.consolidate import ConsolidationWishes
from kschedctl.studies.consolidating.consolidate import consolidate as study
from kschedctl.studies.simulate import prepare

EXAMPLES = (
    "kschedctl consolidate",
    "kschedctl consolidate --headroom 20% --keep-zone-loss --snapshot prod.ksnap",
    "kschedctl consolidate --pool general --headroom-for surge.yaml",
    "kschedctl consolidate --instance-types types.json",
    "kschedctl consolidate --autoscaler karpenter --instance-types types/",
)


class NamedAutoscaler(StrEnum):
    KARPENTER = "karpenter"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"


@dataclass(frozen=True)
class Afterwards:
    """What has to hold once nodes have gone, and which nodes are tried."""

    headroom: Annotated[
        str, typer.Option("--headroom", metavar="PERCENT", help="So much cpu and memory stays free, such as 20%.")
    ] = ""
    headroom_for: Annotated[
        str, typer.Option("--headroom-for", metavar="FILE", help="The pods of these manifests still have to fit.")
    ] = ""
    keep_zone_loss: Annotated[
        bool, typer.Option("--keep-zone-loss", help="The loss of a zone leaves no more pods without a node than now.")
    ] = False
    pool: Annotated[str, typer.Option("--pool", metavar="NAME", help="Only nodes of this node pool may go.")] = ""
    seconds: Annotated[
        int, typer.Option("--search-seconds", metavar="NUMBER", min=1, help="Longest time to try nodes.")
    ] = 180

    def check(self) -> float:
        """The headroom in percent. Raises UsageError."""
        text = self.headroom.removesuffix("%")
        if not self.headroom:
            return 0.0
        if not text.replace(".", "", 1).isdecimal() or not 0 <= float(text) < 100:
            raise UsageError(f"--headroom {self.headroom}: not a percentage", hint="such as 20%")
        return float(text)

    def wished(self, cluster: Cluster) -> tuple[Cluster, ConsolidationWishes]:
        """The cluster, with the pods that have to fit, and what is asked for. Raises UsageError, InputError."""
        pods: tuple[str, ...] = ()
        if self.headroom_for:
            manifests = [m.document for m in read([self.headroom_for]).manifests if makes_pods(m.document)]
            if not manifests:
                raise UsageError("no workload among the manifests", where=self.headroom_for)
            prepared = prepare(cluster, manifests)
            cluster, pods = prepared.cluster, tuple(prepared.workloads)
        wishes = ConsolidationWishes(self.keep_zone_loss, self.check(), pods, self.pool, self.seconds)
        return cluster, wishes


@with_options
def consolidate(
    *,
    source: Source,
    view: Untabled,
    afterwards: Afterwards,
    asked: KarpenterInput,
    groups: NodeGroupInput,
    autoscaler: Annotated[
        NamedAutoscaler | None,
        typer.Option(
            "--autoscaler", metavar="|".join(NamedAutoscaler), help="What that one would do in its next round."
        ),
    ] = None,
) -> Answer:
    """Which nodes could go with all pods placed again, and what keeps each other node?

    Nodes are drained one after the other, as by kschedctl drain, emptiest first, each on top of those that could go.
    Nobody is lost, evicted or left without a node. With --instance-types, or --node-groups, it also tells what
    Karpenter (v1.14), or the Cluster Autoscaler (1.36), does with each node; --autoscaler gives that answer alone.
    """
    if autoscaler is NamedAutoscaler.KARPENTER and not asked.instance_types:
        raise UsageError("what could replace a node, and for how much, is not known", hint="--instance-types FILE")
    afterwards.check()
    live = WHAT_KARPENTER_READS.and_also(WHAT_IT_READS)
    cluster = load(source, live=live if asked.instance_types or groups.asked or autoscaler else NOTHING_MORE)
    if autoscaler is NamedAutoscaler.KARPENTER:
        check_pools(cluster)
        disruption = _karpenter(source, cluster, asked)
        return view.answer(disruption, exit_code(good=True, interrupted=False, undecided=disruption.undecided))
    if autoscaler is NamedAutoscaler.CLUSTER_AUTOSCALER:
        down = _cluster_autoscaler(source, cluster, groups)
        return view.answer(down, exit_code(good=True, interrupted=False, undecided=down.undecided))
    verdicts = _verdicts(source, cluster, asked, groups)
    prices = prices_of(cluster.nodes, asked.types() or ())
    cluster, wishes = afterwards.wished(cluster)
    with bars() as progress:
        report = study(cluster, wishes, prices=prices, verdicts=verdicts, progress=progress)
    return view.answer(report, exit_code(True, report.interrupted, report.undecided))


def _verdicts(source: Source, cluster: Cluster, asked: KarpenterInput, groups: NodeGroupInput) -> AutoscalerVerdicts:
    """What the autoscaler says of which somebody told what it needs."""
    if asked.instance_types and cluster.karpenter_node_pools:
        return karpenters(_karpenter(source, cluster, asked))
    return cluster_autoscalers(_cluster_autoscaler(source, cluster, groups)) if groups.asked else NOBODY


def _karpenter(source: Source, cluster: Cluster, asked: KarpenterInput) -> Disruption:
    return library.consolidate(cluster, asked.types() or (), asked.settings(), now=time_of(cluster, source))


def _cluster_autoscaler(source: Source, cluster: Cluster, groups: NodeGroupInput) -> ScaleDown:
    given, now = groups.given(), time_of(cluster, source)
    return library.scale_down(cluster, given.groups, given.options, pool_label=given.label, where=given.where, now=now)
