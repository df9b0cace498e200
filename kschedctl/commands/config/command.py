"""The command `config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypedDict

import typer
from msgspec.structs import replace

from kschedctl.api.kube_version import KUBE_VERSION
from kschedctl.cli.options import (
    ContextOption,
    FeatureGatesOption,
    KubeconfigOption,
    KubeVersionOption,
    Source,
    parse_feature_gates,
    with_options,
)
from kschedctl.cli.output_options import Answer
from kschedctl.cli.source import connect_to_cluster, log_cluster
from kschedctl.commands.config import check_configuration, effective_configuration
from kschedctl.commands.lint.command import CLEAN, FOUND, DisplayOptions
from kschedctl.errors import InputError, UsageError
from kschedctl.lint.effective_configuration import EffectiveConfiguration
from kschedctl.lint.rule import Severity
from kschedctl.scheduler.configuration.document import KIND
from kschedctl.sources.documents.positions import LocatedObject, load_objects

EXAMPLES = (
    "kschedctl config check scheduler.yaml",
    "kschedctl config view scheduler.yaml --kube-version 1.34",
    "kschedctl config view --live -o yaml",
)


class VersionAndGates(TypedDict):
    """The version and the feature gates of kube-scheduler, as keyword arguments of the library."""

    kube_version: str
    feature_gates: Mapping[str, bool]


@dataclass(frozen=True)
class SchedulerOptions:
    """The options of kube-scheduler that its configuration does not contain."""

    feature_gates: FeatureGatesOption = field(default_factory=list)
    kube_version: KubeVersionOption = None

    def parse_version_and_gates(self) -> VersionAndGates:
        """Return the version (by default the newest) and the parsed feature gates.

        Raises UsageError if a feature gate is malformed.
        """
        return {
            "kube_version": self.kube_version or KUBE_VERSION,
            "feature_gates": parse_feature_gates(self.feature_gates),
        }


@dataclass(frozen=True)
class LiveScheduler:
    """The options that select the scheduler of a live cluster."""

    live: Annotated[
        bool,
        typer.Option("--live", help="With view: show the configuration of the scheduler in the live cluster."),
    ] = False
    kubeconfig: KubeconfigOption = None
    context: ContextOption = None

    @property
    def is_given(self) -> bool:
        """True if one of the options was given."""
        return bool(self.live or self.kubeconfig or self.context)


@with_options
def config(
    shown: DisplayOptions,
    scheduler: SchedulerOptions,
    live: LiveScheduler,
    *,
    action: Annotated[
        str, typer.Argument(metavar="check|view", help="Check for faults, or view the effective configuration.")
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="File with a KubeSchedulerConfiguration. Without a file, view shows the defaults."
        ),
    ] = None,
    cluster_size: Annotated[
        int | None,
        typer.Option(
            "--cluster-size",
            metavar="NUMBER",
            help="Show the percentageOfNodesToScore for a cluster of this many nodes.",
        ),
    ] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", metavar="NUMBER", hidden=True)] = None,
    fail_on: Annotated[
        Severity,
        typer.Option(
            "--fail-on",
            metavar="error|warning|note",
            help="With check: exit with 1 if there are findings of this severity or higher.",
        ),
    ] = Severity.WARNING,
) -> Answer:
    """Is this KubeSchedulerConfiguration valid (check), and what does it do (view)?

    view shows the effective profiles of FILE, of the live cluster's scheduler (--live), or of the default
    configuration. It lists the plugins of each extension point in order, with their weights and arguments, and where
    each comes from.
    """
    _validate_arguments(action, file, live)
    if live.is_given:
        return shown.build_answer(_read_live_configuration(live, scheduler))
    version_and_gates = scheduler.parse_version_and_gates()
    document = _read_single_configuration(file) if file else None
    if document is None or action == "view":
        written = None if document is None else document.value
        return shown.build_answer(effective_configuration(written, **version_and_gates))
    size = nodes if cluster_size is None else cluster_size
    report = check_configuration(document.value, nodes=size, place=document, **version_and_gates)
    return shown.build_answer(report, FOUND if report.has_at_least(fail_on) else CLEAN)


def _validate_arguments(action: str, file: str | None, live: LiveScheduler) -> None:
    """Raise UsageError if the action is unknown, if check has no FILE, or if the arguments cannot be combined."""
    hint = "kschedctl config check FILE; kschedctl config view [FILE | --live]"
    if action not in ("check", "view"):
        raise UsageError(f'unknown action "{action}"', hint=hint)
    if action == "check" and file is None and not live.is_given:
        raise UsageError("check needs a FILE", hint=hint)
    if live.is_given and (file or action == "check"):
        raise UsageError("--live can only be used with view, without a FILE")


def _read_live_configuration(live: LiveScheduler, scheduler: SchedulerOptions) -> EffectiveConfiguration:
    """Read the effective configuration of the live cluster's scheduler.

    Raises ClusterError if the cluster cannot be read.
    """
    from kschedctl.sources.live.components import read_scheduler_setup  # noqa: PLC0415
    from kschedctl.sources.live.reading import ReadingOptions, build_scheduler_cluster  # noqa: PLC0415 - only live clusters need the client

    connected = connect_to_cluster(Source(kubeconfig=live.kubeconfig, context=live.context))
    options = ReadingOptions(
        feature_gates=parse_feature_gates(scheduler.feature_gates), kube_version=scheduler.kube_version
    )
    cluster = build_scheduler_cluster(connected, read_scheduler_setup(connected.server), options)
    log_cluster(cluster)
    report = effective_configuration(
        cluster.configuration, kube_version=cluster.kube_version, feature_gates=cluster.feature_gates
    )
    origin = cluster.provenance.configured_by if cluster.provenance else ""
    if not origin:
        origin = "kube-scheduler's defaults, because no other configuration was found"
    return replace(report, configured_by=origin)


def _read_single_configuration(file: str) -> LocatedObject:
    """Read the only document of a file. Raises InputError unless it is exactly one KubeSchedulerConfiguration."""
    documents = list(load_objects(file))
    if len(documents) != 1 or documents[0].value.get("kind") != KIND:
        raise InputError(f"must contain exactly one {KIND}", where=file)
    return documents[0]
