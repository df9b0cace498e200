"""The command ``kschedctl consolidate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.api.workloads import is_workload_manifest
from kschedctl.cli.answer import Answer
from kschedctl.cli.autoscaler_options import (
    AUTOSCALER_KINDS,
    KARPENTER_KINDS,
    KarpenterInput,
    NodeGroupInput,
    require_node_pools,
)
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import DrawnUntabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import WorkOptions, choose_exit_code
from kschedctl.cli.source import NOTHING_MORE, get_cluster_time, load_cluster
from kschedctl.cluster import Cluster
from kschedctl.commands import consolidate as library
from kschedctl.commands import provision, scale
from kschedctl.commands.consolidate.plan import ConsolidationWishes
from kschedctl.commands.consolidate.report import NodeConsolidation
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import Workers
from kschedctl.reports.cluster_autoscaler import ScaleDown
from kschedctl.reports.karpenter import Disruption
from kschedctl.sources.read import read

EXAMPLES = (
    "kschedctl consolidate",
    "kschedctl consolidate --headroom 20% --keep-zone-loss --snapshot prod.ksnap",
    "kschedctl consolidate --pool general --headroom-for surge.yaml --jobs 4",
    "kschedctl consolidate --instance-types types.json",
    "kschedctl consolidate --compare karpenter --instance-types types/",
)


class NamedAutoscaler(StrEnum):
    """The autoscalers that options can name."""

    KARPENTER = "karpenter"
    CLUSTER_AUTOSCALER = "cluster-autoscaler"


NAMES = "|".join(NamedAutoscaler)


@dataclass(frozen=True)
class ConsolidationOptions:
    """Options for the nodes that are tried, and for the conditions that must hold without them."""

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

    def parse_headroom(self) -> float:
        """Return the headroom in percent. Raises UsageError."""
        text = self.headroom.removesuffix("%")
        if not self.headroom:
            return 0.0
        if not text.replace(".", "", 1).isdecimal() or not 0 <= float(text) < 100:
            raise UsageError(f"--headroom {self.headroom}: not a percentage", hint="such as 20%")
        return float(text)

    def build_wishes(self) -> ConsolidationWishes:
        """Return the wishes that these options express."""
        return ConsolidationWishes(self.keep_zone_loss, self.parse_headroom(), pool=self.pool, seconds=self.seconds)

    def read_manifests(self) -> list[JsonObject]:
        """Read the manifests whose pods must fit. Raises UsageError and InputError."""
        if not self.headroom_for:
            return []
        manifests = [m.document for m in read([self.headroom_for]).manifests if is_workload_manifest(m.document)]
        if not manifests:
            raise UsageError("no workload among the manifests", where=self.headroom_for)
        return manifests


@with_options
def consolidate(
    *,
    source: Source,
    view: DrawnUntabled,
    options: ConsolidationOptions,
    karpenter: KarpenterInput,
    groups: NodeGroupInput,
    work: WorkOptions,
    compare: Annotated[
        NamedAutoscaler | None,
        typer.Option("--compare", metavar=NAMES, help="Tell what that one does with each node, beside what could go."),
    ] = None,
    autoscaler: Annotated[
        NamedAutoscaler | None,
        typer.Option("--autoscaler", metavar=NAMES, help="Only what that one would do in its next round, in full."),
    ] = None,
) -> Answer:
    """Which nodes could go with all pods placed again, and what keeps each other node?

    Nodes are drained one after the other, as by kschedctl drain, emptiest first, each on top of those that could go.
    Nobody is lost, evicted or left without a node. --compare also tells what Karpenter (v1.14), or the Cluster
    Autoscaler (1.36), does with each node, as does --instance-types, or --node-groups; --autoscaler tells only that.
    """
    if NamedAutoscaler.KARPENTER in (autoscaler, compare) and not karpenter.instance_types:
        raise UsageError("what could replace a node, and for how much, is not known", hint="--instance-types FILE")
    options.parse_headroom()
    autoscaler_kinds = KARPENTER_KINDS.union(AUTOSCALER_KINDS)
    named = autoscaler or compare
    cluster = load_cluster(
        source, live=autoscaler_kinds if karpenter.instance_types or groups.is_given or named else NOTHING_MORE
    )
    if autoscaler is not None:
        autoscaler_report = _run_autoscaler(autoscaler, source, cluster, karpenter, groups)
        return view.answer(
            autoscaler_report, choose_exit_code(good=True, interrupted=False, undecided=autoscaler_report.undecided)
        )
    comparison = _run_given_autoscaler(compare, source, cluster, karpenter, groups)
    report = _run_consolidation(cluster, options, karpenter.read_types() or (), comparison, work.workers)
    is_undecided = report.undecided or (comparison is not None and comparison.undecided)
    return view.answer(report, choose_exit_code(True, report.interrupted, is_undecided))


def _run_consolidation(
    cluster: Cluster,
    options: ConsolidationOptions,
    types: Sequence[JsonObject],
    autoscaler_report: Disruption | ScaleDown | None,
    workers: Workers,
) -> NodeConsolidation:
    """Find the removable nodes, with a progress bar. Raises UsageError and InputError."""
    wishes, pods = options.build_wishes(), options.read_manifests()
    with show_progress() as shown:
        return library.consolidate(
            cluster,
            wishes,
            headroom_for=pods,
            instance_types=types,
            autoscaler=autoscaler_report,
            workers=workers,
            progress=shown,
        )


def _run_given_autoscaler(
    compare: NamedAutoscaler | None, source: Source, cluster: Cluster, karpenter: KarpenterInput, groups: NodeGroupInput
) -> Disruption | ScaleDown | None:
    """Run the autoscaler that is named or whose settings are given, and return its report. Raises UsageError."""
    if compare is not None:
        return _run_autoscaler(compare, source, cluster, karpenter, groups)
    if karpenter.instance_types and cluster.karpenter_node_pools:
        return _run_karpenter(source, cluster, karpenter)
    return _run_cluster_autoscaler(source, cluster, groups) if groups.is_given else None


def _run_autoscaler(
    autoscaler: NamedAutoscaler, source: Source, cluster: Cluster, karpenter: KarpenterInput, groups: NodeGroupInput
) -> Disruption | ScaleDown:
    """Run one autoscaler and return its report. Raises UsageError if the cluster has no NodePools for Karpenter."""
    if autoscaler is NamedAutoscaler.CLUSTER_AUTOSCALER:
        return _run_cluster_autoscaler(source, cluster, groups)
    require_node_pools(cluster)
    return _run_karpenter(source, cluster, karpenter)


def _run_karpenter(source: Source, cluster: Cluster, karpenter: KarpenterInput) -> Disruption:
    """Run Karpenter's disruption and return its report."""
    now = get_cluster_time(cluster, source)
    with show_progress() as progress:
        return provision.disrupt(
            cluster, karpenter.read_types() or (), karpenter.parse_settings(), now=now, progress=progress
        )


def _run_cluster_autoscaler(source: Source, cluster: Cluster, groups: NodeGroupInput) -> ScaleDown:
    """Run the Cluster Autoscaler's scale-down and return its report."""
    user_groups, now = groups.read_groups(), get_cluster_time(cluster, source)
    return scale.scale_down(
        cluster, user_groups.groups, user_groups.options, pool_label=user_groups.label, where=user_groups.where, now=now
    )
