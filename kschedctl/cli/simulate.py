"""``kschedctl simulate``: where would the pods of these manifests go, and whom would they evict?"""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.manifests import read_manifests
from kschedctl.cli.options import Output, Source, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.run_options import Run, exit_code
from kschedctl.errors import UsageError
from kschedctl.studies import simulate as study


@with_options
def simulate(
    *,
    source: Source,
    run: Run,
    result: Output,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace of manifests that name none.")
    ] = None,
    rollout: Annotated[
        bool,
        typer.Option("--rollout", help="Replace the pods of workloads that exist, within maxSurge and maxUnavailable."),
    ] = False,
    pending: Annotated[bool, typer.Option("--pending", help="Let the cluster's pending pods take part.")] = False,
) -> Answer:
    """Where would the pods of these manifests go? Applies them to a copy of the cluster.

    Workloads become the pods that their controllers make, which pass the scheduling queue one by one, with preemption.
    The cluster is that of the files if they hold nodes, else --snapshot, --demo or the live one. For example
    helm template web ./web | kschedctl simulate -f -
    """
    cluster, manifests = read_manifests(source, namespace)
    if not manifests and not pending:
        raise UsageError("no workload among the manifests", where=", ".join(source.filename))
    with bars() as progress:
        report = study.simulate(
            cluster,
            manifests,
            seed=run.seed,
            runs=run.times(),
            sampling=run.sampling,
            rollout=rollout,
            pending=pending,
            workers=run.workers,
            progress=progress,
        )
    return result.answer(report, exit_code(not report.unplaced, report.interrupted))
