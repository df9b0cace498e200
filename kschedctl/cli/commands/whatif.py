"""``kschedctl whatif``: what would these changes of the cluster do to its pods?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.asking import Asked, answer, clusters
from kschedctl.cli.options import Output, Source, with_options
from kschedctl.cli.run_options import RunOptions
from kschedctl.errors import InputError, UsageError
from kschedctl.reports.scenario import Scenario
from kschedctl.reports.whatif import WhatIf
from kschedctl.sources.documents.documents import Content, parse
from kschedctl.sources.read import load_configuration_file, read_documents
from kschedctl.studies import whatif as study
from kschedctl.studies.one_more_node import helps
from kschedctl.studies.parallel import Progress, Workers
from kschedctl.studies.scenarios.scenario import load_scenario

EXAMPLES = (
    "kschedctl whatif upgrade.yaml",
    'kschedctl whatif \'{"steps": [{"drain": {"nodes": ["general-a1"]}}]}\' --demo',
)

WRITTEN_OUT = "SCENARIO"
"""What messages call a scenario that stands on the command line."""


@with_options
def whatif(
    *,
    source: Source,
    run: RunOptions,
    result: Output,
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="[SCENARIO]", help="File with the steps to take, - for stdin, or the JSON itself."),
    ] = None,
    compare_config: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare-config", metavar="FILE FILE", help="Do it under two scheduler configurations."),
    ] = None,
) -> Answer:
    """What would these changes of the cluster do to its pods?

    SCENARIO lists steps: cordon, uncordon, taint, label, addNodes, removeNodes, fail, drain, scale, apply,
    priorityClass, configure. They are taken in order, and after each the pending pods pass the scheduling queue. With
    --compare-config the same happens under two configurations, and the difference between the results is shown.
    Exits with 1 when pods wait for a node that did not wait before.
    """
    if scenario is None and compare_config is None:
        raise UsageError("nothing to try", hint="give a SCENARIO, or two files with --compare-config")
    steps, folder, where = _scenario(scenario) if scenario else (None, Path(), "")
    named = {name: load_configuration_file(name) for name in compare_config or ()}
    if len(named) == 1:
        raise UsageError("--compare-config compares two different files")
    options = {**run.options(), "read": lambda name: read_documents(str(folder / name)), "where": where}

    def ask(asked: Asked, workers: Workers, progress: Progress) -> WhatIf:
        if steps and not named:
            return study.whatif(asked.cluster, steps, workers=workers, progress=progress, **options)
        return study.compare(asked.cluster, steps, named, workers=workers, progress=progress, **options)

    return answer(run, result, clusters(source), ask, helps)


def _scenario(name: str) -> tuple[Scenario, Path, str]:
    """A scenario of a file, or that is written out; the folder where the files that it names are; what it is called."""
    written_out = name.lstrip().startswith("{")
    where = WRITTEN_OUT if written_out else name
    documents = [value for value, *_ in parse(Content(where, name, True))] if written_out else read_documents(name)
    if len(documents) != 1:
        raise InputError(f"expected one Scenario, found {len(documents)} documents", where=where)
    folder = Path() if written_out or name == "-" else Path(name).parent
    return load_scenario(documents[0], where=where), folder, where
