"""What has a say in creation, under pseudonyms: what webhooks and policies are about stays where everybody has it."""

from __future__ import annotations

from kschedctl.api import admission_hooks as hooks
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import LocalObjectReference, ScaleTargetReference, ScopeSelectorTerm
from kschedctl.api.observed.failed_creation import POD_CREATORS
from kschedctl.sources.anonymize.keys import is_well_known_domain
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

ANY = "*"
_OWN_RESOURCES = frozenset((ANY, "cronjobs", *(kind.plural for kind in KINDS.values())))


def _name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.own_name(value)


def _names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.name, value))


def _groups(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(
        group if "." not in group or is_well_known_domain(group) else rewriter.domain(group) for group in value
    )


def _resources(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """``pods``, ``pods/status``: the resource and what is of it."""
    return tuple(_resource(rewriter, *resource.partition("/")) for resource in value)


def _resource(rewriter: Rewriter, resource: str, slash: str, part: str) -> str:
    return f"{resource if resource in _OWN_RESOURCES else rewriter.name(resource)}{slash}{part}"


def _scaled(rewriter: Rewriter, value: str, obj: object) -> str:
    return value if value in POD_CREATORS else rewriter.name(value)


ADMISSION_FIELDS: dict[type, dict[str, Handler]] = {
    LocalObjectReference: {"name": _name},
    ScopeSelectorTerm: {"values": _names},
    ScaleTargetReference: {"name": _name, "kind": _scaled},
    hooks.Webhook: {"name": _name},
    hooks.HookRule: {"api_groups": _groups, "resources": _resources, "resource_names": _names},
    hooks.PolicyBindingSpec: {"policy_name": _name},
}
