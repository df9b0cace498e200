"""The command ``kschedctl consolidate``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from kschedctl.api.json_values import JsonObject
from kschedctl.api.workloads import is_workload_manifest
from kschedctl.cli.autoscaler_options import (
    AUTOSCALER_KINDS,
    KARPENTER_KINDS,
    KarpenterInput,
    NodeGroupInput,
    require_node_pools,
)
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, DrawnUntabled
from kschedctl.cli.progress import show_progress
from kschedctl.cli.run_options import WorkOptions, choose_exit_code
from kschedctl.cli.source import NOTHING_MORE, get_cluster_time, load_cluster
from kschedctl.cluster import Cluster
from kschedctl.commands import consolidate as library
from kschedctl.commands import provision, scale
from kschedctl.commands.consolidate.plan import ConsolidationCriteria
from kschedctl.commands.consolidate.report import NodeConsolidation
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import Workers
from kschedctl.reports.cluster_autoscaler import ScaleDown
from kschedctl.reports.karpenter import Disruption
from kschedctl.sources.read import read_paths

EXAMPLES = (
    "kschedctl consolidate",
    "kschedctl consolidate --headroom 20% --keep-zone-loss --snapshot prod.ksnap",
    "kschedctl consolidate --pool general --headroom-for surge.yaml",
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
        str,
        typer.Option(
            "--headroom",
            metavar="PERCENT",
            help="Keep this percentage of the cluster's CPU and memory free, such as 20%.  [default: 0%]",
        ),
    ] = ""
    headroom_for: Annotated[
        str,
        typer.Option(
            "--headroom-for",
            metavar="FILE",
            help="Remove nodes only while the pods of the workloads in this file still fit.",
        ),
    ] = ""
    keep_zone_loss: Annotated[
        bool,
        typer.Option(
            "--keep-zone-loss",
            help="Keep the nodes that the cluster needs to survive the loss of a zone as well as it does now.",
        ),
    ] = False
    pool: Annotated[
        str,
        typer.Option(
            "--pool", metavar="NAME", help="Consider only nodes in this pool for removal.  [default: all pools]"
        ),
    ] = ""
    seconds: Annotated[
        int | None,
        typer.Option(
            "--search-seconds",
            metavar="NUMBER",
            min=1,
            help="Time limit for the search, in seconds. By default, the number of replays is limited instead, so "
            "that the result does not depend on the machine.",
        ),
    ] = None

    def parse_headroom(self) -> float:
        """Return the headroom in percent, 0 if it was not given. Raises UsageError if it is not a percentage."""
        text = self.headroom.removesuffix("%")
        if not self.headroom:
            return 0.0
        if not text.replace(".", "", 1).isdecimal() or not 0 <= float(text) < 100:
            raise UsageError(f"--headroom {self.headroom}: not a percentage", hint="such as 20%")
        return float(text)

    def build_criteria(self) -> ConsolidationCriteria:
        """Build the conditions for removing nodes from the options. Raises UsageError for an invalid --headroom."""
        return ConsolidationCriteria(self.keep_zone_loss, self.parse_headroom(), pool=self.pool, seconds=self.seconds)

    def read_manifests(self) -> list[JsonObject]:
        """Read the workload manifests whose pods must still fit. The list is empty if no file was named.

        Raises UsageError if the file has no workload, and InputError if it cannot be read.
        """
        if not self.headroom_for:
            return []
        documents = [manifest.document for manifest in read_paths([self.headroom_for]).manifests]
        manifests = [document for document in documents if is_workload_manifest(document)]
        if not manifests:
            raise UsageError("no workload among the manifests", where=self.headroom_for)
        return manifests


@dataclass(frozen=True)
class DrainWorkOptions(WorkOptions):
    """Options that choose where nodes are drained."""

    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            metavar="NUMBER",
            help="Number of processes to run in parallel. 0 means one per core. More than one helps only if most "
            "nodes cannot be removed.",
        ),
    ] = 1


@with_options
def consolidate(
    *,
    source: Source,
    view: DrawnUntabled,
    options: ConsolidationOptions,
    karpenter: KarpenterInput,
    groups: NodeGroupInput,
    work: DrainWorkOptions,
    compare: Annotated[
        NamedAutoscaler | None,
        typer.Option("--compare", metavar=NAMES, help="Also show this autoscaler's decision about each node."),
    ] = None,
    autoscaler: Annotated[
        NamedAutoscaler | None,
        typer.Option("--autoscaler", metavar=NAMES, help="Show only what this autoscaler would do next, in detail."),
    ] = None,
) -> Answer:
    """Which nodes could be removed with all their pods placed elsewhere, and why must the others stay?

    Simulates draining the nodes one at a time as kschedctl drain does, emptiest first. A node that can be drained
    counts as removed when the next nodes are tried. A node can be drained only if no pod is lost, preempted or left
    without a node. With --compare, --instance-types or --node-groups, also shows what Karpenter (v1.14) or the Cluster
    Autoscaler (1.36) would do with each node. With --autoscaler, shows only the autoscaler's decisions.
    """
    if NamedAutoscaler.KARPENTER in (autoscaler, compare) and not karpenter.instance_types:
        raise UsageError("the types and prices of replacement nodes are unknown", hint="pass --instance-types FILE")
    options.parse_headroom()
    needs_autoscaler = bool(autoscaler or compare or karpenter.instance_types or groups.is_given)
    live_kinds = KARPENTER_KINDS.union(AUTOSCALER_KINDS) if needs_autoscaler else NOTHING_MORE
    cluster = load_cluster(source, live=live_kinds)
    if autoscaler is not None:
        autoscaler_report = _run_autoscaler(autoscaler, source, cluster, karpenter, groups)
        code = choose_exit_code(good=True, interrupted=False, undecided=autoscaler_report.undecided)
        return view.build_answer(autoscaler_report, code)
    comparison = _run_compared_autoscaler(compare, source, cluster, karpenter, groups)
    report = _run_consolidation(cluster, options, karpenter.read_types() or (), comparison, work.workers)
    is_undecided = report.undecided or (comparison is not None and comparison.undecided)
    return view.build_answer(
        report, choose_exit_code(good=True, interrupted=report.interrupted, undecided=is_undecided)
    )


def _run_consolidation(
    cluster: Cluster,
    options: ConsolidationOptions,
    types: Sequence[JsonObject],
    autoscaler_report: Disruption | ScaleDown | None,
    workers: Workers,
) -> NodeConsolidation:
    """Find the removable nodes, with a progress bar.

    Raises UsageError for invalid options, and InputError if manifests or instance types are invalid.
    """
    criteria, pods = options.build_criteria(), options.read_manifests()
    with show_progress() as progress:
        return library.consolidate(
            cluster,
            criteria,
            headroom_for=pods,
            instance_types=types,
            autoscaler=autoscaler_report,
            workers=workers,
            progress=progress,
        )


def _run_compared_autoscaler(
    compare: NamedAutoscaler | None, source: Source, cluster: Cluster, karpenter: KarpenterInput, groups: NodeGroupInput
) -> Disruption | ScaleDown | None:
    """Run the autoscaler to compare with, and return its report, or None if there is none.

    This is the autoscaler named by --compare, otherwise Karpenter if its instance types and NodePools are known,
    otherwise the Cluster Autoscaler if its node groups are known. Raises UsageError if Karpenter is named but the
    cluster has no NodePools.
    """
    if compare is not None:
        return _run_autoscaler(compare, source, cluster, karpenter, groups)
    if karpenter.instance_types and cluster.karpenter_node_pools:
        return _run_karpenter(source, cluster, karpenter)
    if groups.is_given:
        return _run_cluster_autoscaler(source, cluster, groups)
    return None


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
    user_groups = groups.read_groups()
    return scale.scale_down(
        cluster,
        user_groups.groups,
        user_groups.options,
        pool_label=user_groups.label,
        where=user_groups.where,
        now=get_cluster_time(cluster, source),
    )
