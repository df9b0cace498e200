"""What the engine asks of a scheduler profile whose plugins are made, and of the configuration that it is from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kschedctl.api.kube_version import KubeVersion
from kschedctl.scheduler.engine.extenders.extender import HTTPExtender
from kschedctl.scheduler.engine.extenders.settings import Extender
from kschedctl.scheduler.framework import Plugin


class ProfileLike(Protocol):
    """The fields of a profile that a cycle goes by."""

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
    """A profile with its plugins at each extension point, in order."""

    @property
    def profile(self) -> ProfileLike: ...

    @property
    def release(self) -> KubeVersion: ...

    @property
    def extenders(self) -> Sequence[HTTPExtender]: ...

    def at(self, point: str) -> list[Plugin]: ...


class ConfigurationLike(Protocol):
    """What of a configuration decides how many nodes are looked at."""

    @property
    def percentage_of_nodes_to_score(self) -> int: ...

    @property
    def extenders(self) -> Sequence[Extender]: ...
