"""``kschedctl config``: is this KubeSchedulerConfiguration sound, and what does it do?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

from kschedctl.cli.answer import Answer
from kschedctl.cli.lint import CLEAN, FOUND, Shown, signed
from kschedctl.cli.options import feature_gates, with_options
from kschedctl.errors import InputError, UsageError
from kschedctl.lint.configuration import check_configuration, load
from kschedctl.lint.effective_configuration import effective_configuration
from kschedctl.lint.engine import report_of
from kschedctl.lint.rule import Severity, Subject
from kschedctl.scheduler.configuration_document import KIND
from kschedctl.scheduler.feature_gates import KUBE_VERSION, FeatureGates
from kschedctl.sources.positions import Manifest, read_manifests


@dataclass(frozen=True)
class SchedulerOptions:
    """How kube-scheduler is started besides its configuration."""

    feature_gates: Annotated[
        list[str],
        typer.Option("--feature-gates", metavar="GATE=BOOL,…", help="Gates as kube-scheduler was started with."),
    ] = field(default_factory=list)
    kube_version: Annotated[
        str, typer.Option("--kube-version", metavar="VERSION", help="Version of kube-scheduler: 1.30 to 1.36.")
    ] = KUBE_VERSION

    def gates(self) -> FeatureGates:
        return FeatureGates(self.kube_version, feature_gates(self.feature_gates))


@with_options
def config(
    shown: Shown,
    scheduler: SchedulerOptions,
    *,
    action: Annotated[str, typer.Argument(metavar="check|view", help="Look for faults, or show what is in force.")],
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="KubeSchedulerConfiguration.  [default for view: the default]"),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", metavar="NUMBER", help="Size of the cluster, for percentageOfNodesToScore.")
    ] = None,
    fail_on: Annotated[
        Severity, typer.Option("--fail-on", metavar="error|warning|note", help="check: exit with 1 from here.")
    ] = Severity.WARNING,
) -> Answer:
    """Is this KubeSchedulerConfiguration sound (check), and what does it do (view)?

    view shows the effective profiles: plugins per extension point in order, weights, arguments, where each came from.
    """
    if action not in ("check", "view") or (action == "check" and file is None):
        hint = "kschedctl config check FILE; kschedctl config view [FILE]"
        raise UsageError(f'nothing to do with "{action}"', hint=hint)
    known = scheduler.gates()
    document = _document(file) if file else None
    if document is None or action == "view":
        written = None if document is None else document.value
        return shown.answer(effective_configuration(load(written, known), written))
    subject = Subject(KIND, "", document=document.value, place=document)
    report = signed(report_of(check_configuration(subject, known, nodes), checked=1))
    return shown.answer(report, FOUND if report.at_least(fail_on) else CLEAN)


def _document(file: str) -> Manifest:
    """The only document of a file. Raises InputError."""
    documents = list(read_manifests(file))
    if len(documents) != 1 or documents[0].value.get("kind") != KIND:
        raise InputError(f"not one {KIND}", where=file)
    return documents[0]
