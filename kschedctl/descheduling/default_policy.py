"""The policy that is replayed if none is given: it restores constraints that pods declare themselves."""

from __future__ import annotations

from kschedctl.api.json_values import JsonObject
from kschedctl.descheduling.arguments import REQUIRED

PROFILE_NAME = "default"
_ARGUMENTS: dict[str, JsonObject] = {
    "DefaultEvictor": {"nodeFit": True},
    "RemovePodsViolatingNodeTaints": {},
    "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": [REQUIRED]},
    "RemovePodsViolatingInterPodAntiAffinity": {},
    "RemovePodsViolatingTopologySpreadConstraint": {},
}
_BALANCE_PLUGINS = ("RemovePodsViolatingTopologySpreadConstraint",)
DEFAULT_POLICY: JsonObject = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": PROFILE_NAME,
            "pluginConfig": [{"name": name, "args": args} for name, args in _ARGUMENTS.items()],
            "plugins": {
                "deschedule": {"enabled": [name for name in list(_ARGUMENTS)[1:] if name not in _BALANCE_PLUGINS]},
                "balance": {"enabled": list(_BALANCE_PLUGINS)},
            },
        }
    ],
}
"""The policy as a document."""
