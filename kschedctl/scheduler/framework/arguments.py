"""The arguments of a plugin, typed: their defaults, and what kube-scheduler refuses in them.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, Self

from kschedctl.api.objects import Struct
from kschedctl.scheduler.framework.feature_gates import FeatureGates

Naming = Literal["key", "resource", "domain"] | type[Struct]


class PluginArgs(Struct, frozen=True):
    """The arguments of a plugin, as its class names them in ``args_type``.

    ``naming``: field, at any depth, -> what its text names, or the struct that it holds: a snapshot without names
    has pseudonyms there.
    """

    naming: ClassVar[Mapping[str, Naming]] = {}

    def with_defaults(self, gates: FeatureGates) -> Self:
        """The arguments with the defaults that depend on gates or on other fields."""
        return self

    def errors(self, gates: FeatureGates) -> Iterator[str]:
        """What the scheduler refuses in defaulted arguments; the paths are relative to them."""
        return iter(())
