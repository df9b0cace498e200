"""The parts of a profile and of the configuration that the engine reads, as protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kschedctl.api.kube_version import KubeVersion
from kschedctl.scheduler.engine.extenders import Extender, HTTPExtender
from kschedctl.scheduler.framework import Plugin


class ProfileLike(Protocol):
    """The fields of a profile that a scheduling cycle reads."""

    @property
    def scheduler_name(self) -> str:
        """The schedulerName that the profile serves."""

    @property
    def plugins(self) -> Mapping[str, tuple[str, ...]]:
        """Extension point -> the plugins in order of execution."""

    @property
    def weights(self) -> Mapping[str, int]:
        """Plugin -> weight of its scores."""

    @property
    def placement_weights(self) -> Mapping[str, int]:
        """Plugin -> weight of its placement scores."""

    @property
    def args(self) -> Mapping[str, Any]:
        """Plugin -> its arguments."""

    @property
    def percentage_of_nodes_to_score(self) -> int | None:
        """The percentage of nodes to search, or None if the value of the configuration applies."""


class FrameworkLike(Protocol):
    """A profile with its plugins."""

    @property
    def profile(self) -> ProfileLike:
        """The profile."""

    @property
    def release(self) -> KubeVersion:
        """The version of kube-scheduler."""

    @property
    def extenders(self) -> Sequence[HTTPExtender]:
        """The extenders, in the order in which they are called."""

    def plugins_at(self, point: str) -> list[Plugin]:
        """Return the plugins of an extension point in order."""


class ConfigurationLike(Protocol):
    """The fields of a configuration that determine how many nodes are searched."""

    @property
    def percentage_of_nodes_to_score(self) -> int:
        """The percentage of nodes to search; 0 is adaptive."""

    @property
    def extenders(self) -> Sequence[Extender]:
        """The extenders, in the order in which they are called."""
