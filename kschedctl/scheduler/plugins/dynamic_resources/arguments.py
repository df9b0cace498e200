"""The arguments of DynamicResources.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types_pluginargs.go, pkg/scheduler/apis/config/v1/defaults.go and
pkg/scheduler/apis/config/validation/validation_pluginargs.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from msgspec.structs import replace

from kschedctl.api.decoding import introduced_in
from kschedctl.scheduler.framework.arguments import PluginArgs
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.field_errors import forbidden, invalid
from kschedctl.scheduler.framework.strict_decoding import GoDuration


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """The arguments of DynamicResources: time limits in seconds, None for no limit."""

    filter_timeout: GoDuration | None = None
    """The limit for allocating devices on one node."""
    binding_timeout: Annotated[GoDuration | None, introduced_in(35)] = None
    """The limit for devices to meet their binding conditions."""

    def with_defaults(self, gates: FeatureGates) -> Self:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
            filter_timeout = GoDuration(10)
        if binding_timeout is None and waits_for_binding(gates):
            binding_timeout = GoDuration(600)
        return replace(self, filter_timeout=filter_timeout, binding_timeout=binding_timeout)

    def validate(self, gates: FeatureGates) -> Iterator[str]:
        if self.filter_timeout is not None:
            if not gates.enabled("DRASchedulerFilterTimeout"):
                yield forbidden("filterTimeout", "DRASchedulingFilterTimeout feature gate is disabled")
            elif self.filter_timeout < 0:
                yield invalid("filterTimeout", f"{self.filter_timeout:g}s", "must be zero or positive")
        if self.binding_timeout is not None:
            if not waits_for_binding(gates):
                both = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
                yield forbidden("bindingTimeout", f"{both} feature gate is disabled")
            elif self.binding_timeout < 1:
                yield invalid("bindingTimeout", f"{self.binding_timeout:g}s", "must be at least 1 second")


def waits_for_binding(gates: FeatureGates) -> bool:
    """Return whether binding waits for the conditions of allocated devices."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled("DRAResourceClaimDeviceStatus")
