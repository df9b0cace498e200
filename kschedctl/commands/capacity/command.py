"""The command `kschedctl capacity`."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec.structs import replace

from kschedctl.cli.extender_options import Extending
from kschedctl.cli.manifests import Application, Namespace, read_manifests
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, DrawnUnlisted
from kschedctl.cli.run_options import RunOptions, answer_about_subjects
from kschedctl.cli.source import KUEUE_QUOTA_KINDS
from kschedctl.commands import capacity as study
from kschedctl.commands.capacity.report import Capacity
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.creation import MAX_PODS
from kschedctl.replay.controllers.manifests import locate_errors
from kschedctl.replay.parallel import Progress, Workers
from kschedctl.reports.placements import describe_objects_without_pods

EXAMPLES = (
    "kschedctl capacity -f web.yaml",
    "kschedctl capacity -f web.yaml --max 50 --snapshot prod.ksnap",
    "kschedctl capacity -f web.yaml --plot",
)


@with_options
def capacity(
    *,
    source: Source,
    run: RunOptions,
    view: DrawnUnlisted,
    extending: Extending,
    namespace: Namespace = None,
    most: Annotated[
        int | None, typer.Option("--max", metavar="NUMBER", help="Stop counting after this many additional pods.")
    ] = None,
) -> Answer:
    """How many more of these pods fit, where, and what stops the next one?

    Each pod or workload is tried by itself. Pending pods of equal or higher priority are ahead in the queue and are
    placed first. No pod is evicted. Exits with 1 if no pod fits, or fewer than --max.
    """
    if most is not None and not 1 <= most <= MAX_PODS:
        raise UsageError(f"--max {most}: must be from 1 to {MAX_PODS:,}")
    options = run.options()

    def answer_source(application: Application, workers: Workers, progress: Progress) -> Capacity:
        """Answer for one cluster. Errors in manifests name the place in the file."""
        with locate_errors(application.places):
            report = study.capacity(
                application.cluster,
                application.manifests,
                written=application.written,
                workers=workers,
                progress=progress,
                most=most,
                **options,
            )
        return replace(report, missing_namespaces=dict(application.missing_namespaces))

    def fits_enough(report: Capacity) -> bool:
        """Return whether at least one pod of each shape fits, or as many as --max asks for."""
        return all(shape.most >= (most or 1) for shape in report.shapes)

    applications = read_manifests(source, namespace, KUEUE_QUOTA_KINDS)
    for application in applications.values():
        if application.without_pods:
            raise UsageError(f"no workload to try: {describe_objects_without_pods(application.without_pods)}")
    with extending.open_caller() as call_extender:
        options["call_extender"] = call_extender
        return answer_about_subjects(run, view, applications, answer_source, fits_enough)
