"""``kschedctl explain``: why is this pod Pending, or why are all of these?"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Annotated

import typer
from msgspec.structs import replace as replaced

from kschedctl.api.objects import Pod, PodStatus
from kschedctl.cli import pending, pods
from kschedctl.cli.answer import DOES_NOT_SCHEDULE, SCHEDULES, Answer
from kschedctl.cli.options import DEFAULT_NAMESPACE, Scope, Source, View, command as takes_groups
from kschedctl.cli.program import program
from kschedctl.cli.source import load, manifest_pod
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.render.pending import PendingPods
from kschedctl.reports.explanation import Explanation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import explain_pod

log = logging.getLogger(__name__)


@takes_groups
def command(
    source: Source,
    scope: Scope,
    view: View,
    pod: Annotated[str | None, typer.Argument(metavar="[POD]", help="name, pod/name or namespace/name")] = None,
) -> Answer:
    """Why is this pod Pending? One scheduling cycle of kube-scheduler is replayed for it.

    Without POD: if just one -f file has no nodes and holds one Pod that is not bound, that pod is explained as if it
    were created now; else every pending pod of the namespace (-A: of all) is, and they are grouped by cause.
    """
    cluster = load(source)
    if pod is not None:
        return _answer(_existing(cluster, pods.find(cluster, pod, scope), scope), view)
    manifest = manifest_pod(cluster)
    if manifest is not None:
        return _answer(_created(cluster, manifest, scope), view)
    return summary(cluster, source, scope, view)
