"""The policy that is replayed where nobody gives one: constraints that pods themselves state are restored."""

from __future__ import annotations

from kschedctl.api.json_values import JsonObject
from kschedctl.descheduling.arguments import REQUIRED

DEFAULT = "default"
_ARGUMENTS: dict[str, JsonObject] = {
    "DefaultEvictor": {"nodeFit": True},
    "RemovePodsViolatingNodeTaints": {},
    "RemovePodsViolatingNodeAffinity": {"nodeAffinityType": [REQUIRED]},
    "RemovePodsViolatingInterPodAntiAffinity": {},
    "RemovePodsViolatingTopologySpreadConstraint": {},
}
_BALANCE = ("RemovePodsViolatingTopologySpreadConstraint",)
DEFAULT_POLICY: JsonObject = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": DEFAULT,
            "pluginConfig": [{"name": name, "args": args} for name, args in _ARGUMENTS.items()],
            "plugins": {
                "deschedule": {"enabled": [name for name in list(_ARGUMENTS)[1:] if name not in _BALANCE]},
                "balance": {"enabled": list(_BALANCE)},
            },
        }
    ],
}
"""As one would write it down."""
