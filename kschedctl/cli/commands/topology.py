"""``kschedctl topology``: which node, zone or rack takes a whole workload with it, and does spreading hold?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from kschedctl.api.ownership import Owner
from kschedctl.cli.answer import Answer
from kschedctl.cli.option_groups.judged import Judged
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.references import Reference, references
from kschedctl.cli.source import load
from kschedctl.errors import UsageError
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.audit.audited_cluster import AuditedCluster
from kschedctl.studies.audit.topology import TopologyScope, topology_section
from kschedctl.studies.workload_topology import Workloads

EXAMPLES = (
    "kschedctl topology",
    "kschedctl topology deploy/web -n shop",
    "kschedctl topology --key topology.example.com/rack --snapshot prod.ksnap",
    "kschedctl topology --demo -o json",
)


@with_options
def topology(
    *,
    source: Source,
    shown: Judged,
    workloads: Annotated[
        list[str] | None, typer.Argument(metavar="[WORKLOAD]…", help="name, namespace/name, deploy/name, sts/name …")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NAME", help="Only workloads of this namespace.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="LABEL", help="A topology key in addition to hosts, zones and those of constraints."
        ),
    ] = None,
) -> Answer:
    """Which node, zone or rack takes a whole workload with it, and does spreading hold?

    Of every workload with two or more pods on nodes: those whose pods share one node, zone or other domain though
    there are others, and the topology spread constraints that no longer hold, counted as kube-scheduler counts. With a
    WORKLOAD: its skew now and after the loss of each domain, and how many pods could not come back.
    """
    cluster = load(source)
    with bars() as progress:
        audited = AuditedCluster(Scheduler(cluster), progress=progress)
        chosen = _chosen(audited, tuple(workloads or ()), namespace) if workloads or namespace else frozenset()
        return shown.judged(topology_section(audited, TopologyScope(tuple(key or ()), chosen)))


def _chosen(audited: AuditedCluster, words: Sequence[str], namespace: str | None) -> frozenset[Owner]:
    """Workloads that the words name, or all of the namespace. Raises UsageError for what is not there."""
    known = [
        owner for owner in Workloads.of_view(audited.scheduler.view).owners if namespace in (None, owner.namespace)
    ]
    owners = []
    for reference in references(words):
        meant = list(_meant(reference, known))
        if not meant:
            what = f'no workload "{reference.name}" with two pods on nodes'
            raise UsageError(what, hint="kschedctl topology looks at all")
        owners += meant
    if not known:
        raise UsageError(f'namespace "{namespace}" has no workload with two pods on nodes')
    return frozenset(owners if words else known)


def _meant(reference: Reference, known: Sequence[Owner]) -> Iterator[Owner]:
    """A word without a kind means workloads of any."""
    for owner in known:
        of_kind = reference.kind in ("Pod", owner.kind)
        if of_kind and owner.name == reference.name and reference.namespace in ("", owner.namespace):
            yield owner
