"""What a scheduler does by its configuration, as a document: kschedctl.dev/v1, kind EffectiveConfiguration."""

from __future__ import annotations

from typing import Annotated, Any

from kschedctl.reports.columns import Column
from kschedctl.reports.document import Document
from kschedctl.reports.report import Report
from kschedctl.text.counts import counted


class EffectivePlugin(Document, frozen=True):
    """A plugin at a point. ``origin``: default, multiPoint, or the point itself; ``weight`` of those that score."""

    name: str
    origin: str
    weight: int | None = None


class EffectivePoint(Document, frozen=True):
    """The plugins at an extension point, in the order in which they run."""

    point: str
    plugins: tuple[EffectivePlugin, ...]


class EffectiveArgs(Document, frozen=True):
    """The arguments of a plugin; ``origin``: pluginConfig or default."""

    plugin: Annotated[str, Column(keep=True)]
    origin: Annotated[str, Column("given by")]
    args: Annotated[Any, Column("arguments")]


class EffectiveProfile(Document, frozen=True):
    """``percentage_of_nodes_to_score`` 0 is adaptive."""

    scheduler_name: str
    percentage_of_nodes_to_score: int
    points: tuple[EffectivePoint, ...]
    args: tuple[EffectiveArgs, ...]


class EffectiveConfiguration(Report, frozen=True):
    """``extenders``: their URLs in calling order. ``kube_version``: of which version this is the effect.

    ``ignored``: what was written that this version does not know and passes over, and which version has it. Of a live
    cluster's scheduler ``configured_by`` says where it was found.
    """

    profiles: tuple[EffectiveProfile, ...]
    parallelism: int
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    extenders: tuple[str, ...] = ()
    configured_by: str = ""
    kube_version: str = ""
    ignored: tuple[str, ...] = ()
    api_version: str = "kschedctl.dev/v1"
    kind: str = "EffectiveConfiguration"

    def first_line(self) -> tuple[str, ...]:
        names = ", ".join(profile.scheduler_name for profile in self.profiles)
        of_version = f"as kube-scheduler {self.kube_version} takes it" if self.kube_version else ""
        return counted(len(self.profiles), "profile"), f"({names})", of_version
