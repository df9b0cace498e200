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
    def scheduler_name(self) -> str: ...

    @property
    def plugins(self) -> Mapping[str, tuple[str, ...]]: ...

    @property
    def weights(self) -> Mapping[str, int]: ...

    @property
    def placement_weights(self) -> Mapping[str, int]: ...

    @property
    def args(self) -> Mapping[str, Any]: ...

    @property
    def percentage_of_nodes_to_score(self) -> int | None: ...


class FrameworkLike(Protocol):
    """A profile with its plugins."""

    @property
    def profile(self) -> ProfileLike: ...

    @property
    def release(self) -> KubeVersion: ...

    @property
    def extenders(self) -> Sequence[HTTPExtender]: ...

    def plugins_at(self, point: str) -> list[Plugin]: ...


class ConfigurationLike(Protocol):
    """The fields of a configuration that determine how many nodes are searched."""

    @property
    def percentage_of_nodes_to_score(self) -> int: ...

    @property
    def extenders(self) -> Sequence[Extender]: ...
