"""Base class of plugin arguments, with their defaults and validation.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, Self

from kschedctl.api.objects import Struct
from kschedctl.scheduler.framework.feature_gates import FeatureGates

Naming = Literal["key", "resource", "domain"] | type[Struct]
"""What the text of a field names, or the struct that the field holds."""


class PluginArgs(Struct, frozen=True):
    """The arguments of a plugin; its class names this type in `args_type`."""

    naming: ClassVar[Mapping[str, Naming]] = {}
    """Field at any depth -> what it names. Anonymized snapshots have pseudonyms there."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        """Return the arguments with the defaults that depend on feature gates or on other fields."""
        return self

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        """Yield the errors that the scheduler reports for defaulted arguments; paths are relative to them."""
        return iter(())
