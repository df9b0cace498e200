"""``kschedctl whatif``: what would these changes of the cluster do to its pods?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.options import Output, Source, with_options
from kschedctl.cli.progress import bars
from kschedctl.cli.run_options import exit_code
from kschedctl.cli.source import load
from kschedctl.errors import InputError, UsageError
from kschedctl.reports.scenario import Scenario
from kschedctl.sources.read import load_configuration_file, read_documents
from kschedctl.studies import whatif as study
from kschedctl.studies.scenario import load_scenario


@with_options
def whatif(
    *,
    source: Source,
    result: Output,
    scenario: Annotated[
        str | None, typer.Argument(metavar="[SCENARIO]", help="File with the steps to take, or - for stdin.")
    ] = None,
    compare_config: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare-config", metavar="FILE FILE", help="Do it under two scheduler configurations."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="NUMBER", help="Decides between nodes that are equal.")] = 0,
    sampling: Annotated[
        bool, typer.Option("--sampling", help="Look at as many nodes as kube-scheduler does, not at all of them.")
    ] = False,
) -> Answer:
    """What would these changes of the cluster do to its pods?

    SCENARIO lists steps: cordon, uncordon, taint, label, addNodes, removeNodes, fail, drain, scale, apply,
    priorityClass, configure. They are taken in order, and after each the pending pods pass the scheduling queue. With
    --compare-config the same happens under two configurations, and the difference between the results is shown.
    Exits with 1 when pods wait for a node that did not wait before.
    """
    if scenario is None and compare_config is None:
        raise UsageError("nothing to try", hint="give a SCENARIO, or two files with --compare-config")
    steps, folder = _scenario(scenario) if scenario else (None, Path())

    def read(name: str) -> Sequence[Mapping[str, Any]]:
        return read_documents(str(folder / name))

    options: dict[str, Any] = {"read": read, "seed": seed, "sampling": sampling}
    cluster = load(source)
    with bars() as progress:
        if compare_config:
            named = {name: load_configuration_file(name) for name in compare_config}
            if len(named) < 2:
                raise UsageError("--compare-config compares two different files")
            report = study.compare(cluster, steps, named, progress=progress, **options)
        else:
            assert steps is not None
            report = study.whatif(cluster, steps, progress=progress, **options)
    worse = any(change.change == "NewlyPending" for change in report.changes)
    return result.answer(report, exit_code(not worse, report.interrupted))


def _scenario(name: str) -> tuple[Scenario, Path]:
    """The scenario of a file, and the folder where the files that it names are."""
    documents = list(read_documents(name))
    if len(documents) != 1:
        raise InputError(f"expected one Scenario, found {len(documents)} documents", where=name)
    return load_scenario(documents[0], where=name), Path() if name == "-" else Path(name).parent
