"""``kschedctl capacity``: how many more of these pods fit?"""

from __future__ import annotations

from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.manifests import read_manifests
from kschedctl.cli.options import Source, View, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.run_options import Run, exit_code
from kschedctl.errors import UsageError
from kschedctl.studies import capacity as study


@with_options
def capacity(
    *,
    source: Source,
    run: Run,
    view: View,
    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace of manifests that name none.")
    ] = None,
    most: Annotated[int | None, typer.Option("--max", metavar="NUMBER", help="Try no more than so many.")] = None,
) -> Answer:
    """How many more of these pods fit, where, and what stops the next one?

    Each manifest is a shape by itself: a pod, or what makes pods. Nobody is evicted for them. Exits with 1 when not
    even one pod fits, or fewer than --max.
    """
    if most is not None and most < 1:
        raise UsageError(f"--max {most}: at least one")
    cluster, manifests = read_manifests(source, namespace)
    with bars() as progress:
        report = study.capacity(
            cluster,
            manifests,
            most=most,
            seed=run.seed,
            runs=run.times(),
            sampling=run.sampling,
            workers=run.workers,
            progress=progress,
        )
    enough = all(shape.fits >= (most or 1) for shape in report.shapes)
    return view.answer(report, exit_code(enough, report.interrupted))
