"""The commands that tell more about pending pods."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.cli.next_commands import build_command, workload_arguments
from kschedctl.cli.options import Source
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.pending_report import PendingPods
from kschedctl.commands.explain.report import Explanation
from kschedctl.render.page import Commands


def about_explained(
    source: Source, cluster: Cluster, explained: Iterable[Explanation], options: Iterable[str] = ()
) -> Commands:
    """What tells more of each of these that the cluster has."""
    options = list(options)
    there = (report for report in explained if cluster.pod(*report.pod.split("/", 1)) is not None)
    return {report.pod: build_command(source, telling_more(report), report.pod, options) for report in there}


def telling_more(report: Explanation) -> str:
    """The command for its fixes; for a pod that is held back and that no change frees, the one for what does."""
    return "wakes" if report.verdict == "Gated" and not report.remedies else "remedies"


def about_pending(source: Source, report: PendingPods, options: Iterable[str] = ()) -> Commands:
    """To look at the first pod of each group, and at workloads that lack pods; where none is pending, elsewhere."""
    options = list(options)
    lacking = {
        not_created.workload: build_command(
            source, "explain", *workload_arguments(not_created.workload), options=options
        )
        for not_created in report.not_created
    }
    groups = {group.pods[0]: build_command(source, "explain", group.pods[0], options) for group in report.groups}
    if groups:
        return {"": next(iter(groups.values())), **groups, **lacking}
    return {"": build_command(source, "explain", "-A") if report.elsewhere else (), **lacking}
