"""The effective configuration of a scheduler, as a document: kschedctl.dev/v1, kind EffectiveConfiguration."""

from __future__ import annotations

from typing import Annotated, Any

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted


class EffectivePlugin(Document, frozen=True):
    """A plugin at an extension point."""

    name: str
    origin: str
    """Where the plugin is enabled: default, multiPoint, or the extension point."""
    weight: int | None = None
    """The weight of a Score plugin."""


class EffectivePoint(Document, frozen=True):
    """The plugins at an extension point, in the order in which they run."""

    point: str
    plugins: tuple[EffectivePlugin, ...]


class EffectiveArgs(Document, frozen=True):
    """The arguments of a plugin."""

    plugin: Annotated[str, Column(keep=True)]
    origin: Annotated[str, Column("given by")]
    """Where the arguments come from: pluginConfig or default."""
    args: Annotated[Any, Column("arguments")]


class EffectiveProfile(Document, frozen=True):
    """A profile with its plugins and their arguments."""

    scheduler_name: str
    percentage_of_nodes_to_score: int
    """0 means that the percentage adapts to the number of nodes."""
    points: tuple[EffectivePoint, ...]
    args: tuple[EffectiveArgs, ...]


class EffectiveConfiguration(Report, frozen=True):
    """The profiles and settings of a scheduler, with defaults filled in."""

    profiles: tuple[EffectiveProfile, ...]
    parallelism: int
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    extenders: tuple[str, ...] = ()
    """The URLs of the extenders, in calling order."""
    configured_by: str = ""
    """Where the configuration of a live cluster's scheduler was found."""
    kube_version: str = ""
    """The version of kube-scheduler that reads the configuration."""
    ignored: tuple[str, ...] = ()
    """Settings that this version does not know and ignores, with the versions that have them."""
    api_version: str = "kschedctl.dev/v1"
    kind: str = "EffectiveConfiguration"

    def first_line(self) -> tuple[str, ...]:
        names = ", ".join(profile.scheduler_name for profile in self.profiles)
        of_version = f"as kube-scheduler {self.kube_version} takes it" if self.kube_version else ""
        return counted(len(self.profiles), "profile"), f"({names})", of_version
