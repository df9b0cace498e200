"""The command `kschedctl whatif`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from kschedctl.cli.extender_options import Extending
from kschedctl.cli.options import Source, with_options
from kschedctl.cli.output_options import Answer, Drawn
from kschedctl.cli.run_options import RunChoices, RunOptions, answer_about_subjects
from kschedctl.cli.source import LoadedSource, load_clusters
from kschedctl.commands import whatif as study
from kschedctl.commands.whatif.one_more_node import is_harmless
from kschedctl.commands.whatif.report import WhatIf
from kschedctl.commands.whatif.scenario_file import ScenarioFile, read_scenario
from kschedctl.errors import UsageError
from kschedctl.replay.parallel import Progress, Workers
from kschedctl.replay.scenarios import FileReader
from kschedctl.sources.read import load_configuration_file

EXAMPLES = (
    "kschedctl whatif upgrade.yaml",
    "kschedctl whatif --compare-version 1.33 1.36",
    'kschedctl whatif \'{"steps": [{"drain": {"nodes": ["general-a1"]}}]}\' --demo',
)


class WhatIfSettings(RunChoices):
    """Keyword arguments of the library function `whatif`."""

    read: FileReader
    where: str
    in_full: int


@dataclass(frozen=True)
class ComparisonOptions:
    """Options that compare two schedulers."""

    compare_config: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare-config",
            metavar="FILE FILE",
            help="Compare verdicts and placements under two KubeSchedulerConfiguration files.",
        ),
    ] = None
    compare_version: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare-version",
            metavar="VERSION VERSION",
            help="Compare verdicts and placements under two versions of kube-scheduler, such as 1.33 1.36.",
        ),
    ] = None


@with_options
def whatif(
    *,
    comparison: ComparisonOptions,
    source: Source,
    run: RunOptions,
    result: Drawn,
    extending: Extending,
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="[SCENARIO]", help="Steps to simulate: a file, - (stdin) or JSON text."),
    ] = None,
) -> Answer:
    """What would these changes to the cluster do to its pods?

    SCENARIO lists steps: cordon, uncordon, taint, label, addNodes, removeNodes, fail, drain, scale, apply,
    priorityClass, configure. They are applied in order, and after each step the pending pods pass the scheduling queue.
    With --compare-config or --compare-version, the steps run under two configurations or versions of kube-scheduler,
    and the answer shows the differences, including running pods whose best node would be another one if they were
    recreated. A comparison of versions also shows pending pods whose message changes.

    Exits with 1 if a drain cannot be completed because pods cannot be evicted or come back. Also exits with 1 if pods
    become pending, are not created, are lost because no controller recreates them, wait until failed nodes are deleted,
    or stay Terminating because a drained node is unreachable or not ready.
    """
    _validate_options(scenario, comparison)
    steps = read_scenario(scenario) if scenario else ScenarioFile()
    configurations = {name: load_configuration_file(name) for name in comparison.compare_config or ()}
    if comparison.compare_version:
        under = study.build_version_settings(comparison.compare_version)
    else:
        under = study.build_configuration_settings(configurations)
    options: WhatIfSettings = {
        **run.options(),
        "read": steps.read,
        "where": steps.where,
        "in_full": result.max_matrices,
    }

    def answer_source(loaded: LoadedSource, workers: Workers, progress: Progress) -> WhatIf:
        """Run the scenario on one cluster."""
        return study.whatif(loaded.cluster, steps.scenario, under, workers=workers, progress=progress, **options)

    with extending.open_caller() as call_extender:
        options["call_extender"] = call_extender
        return answer_about_subjects(run, result, load_clusters(source), answer_source, is_harmless)


def _validate_options(scenario: str | None, comparison: ComparisonOptions) -> None:
    """Raise UsageError if there is neither a scenario nor a comparison, or if the comparison options conflict."""
    files, versions = comparison.compare_config, comparison.compare_version
    if not (scenario or files or versions):
        raise UsageError("nothing to try", hint="give a SCENARIO, --compare-config or --compare-version")
    if files and versions:
        raise UsageError("--compare-config and --compare-version cannot be combined", hint="use only one of them")
    if files and len(set(files)) == 1:
        raise UsageError("--compare-config compares two different files")
