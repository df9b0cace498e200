"""Handlers for admission webhooks, policies and quotas, in which well-known API groups and resources are kept."""

from __future__ import annotations

from kschedctl.api import admission_hooks as hooks
from kschedctl.api.events import POD_CREATORS
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import LocalObjectReference, ScaleTargetReference, ScopeSelectorTerm
from kschedctl.sources.anonymize.kept_texts import is_well_known_domain
from kschedctl.sources.anonymize.rewriter import Handler, Rewriter

ANY = "*"
_WELL_KNOWN_RESOURCES = frozenset((ANY, "cronjobs", *(kind.plural for kind in KINDS.values())))


def _replace_name(rewriter: Rewriter, value: str, obj: object) -> str:
    return rewriter.object_name(value)


def _replace_names(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    return tuple(map(rewriter.name, value))


def _replace_groups(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace API groups, except well-known ones."""
    return tuple(
        group if "." not in group or is_well_known_domain(group) else rewriter.domain(group) for group in value
    )


def _replace_resources(rewriter: Rewriter, value: tuple[str, ...], obj: object) -> tuple[str, ...]:
    """Replace resources such as ``pods`` or ``pods/status``, except well-known ones."""
    return tuple(_replace_resource(rewriter, *resource.partition("/")) for resource in value)


def _replace_resource(rewriter: Rewriter, resource: str, slash: str, subresource: str) -> str:
    """Replace a resource unless it is well known. Its subresource is kept."""
    return f"{resource if resource in _WELL_KNOWN_RESOURCES else rewriter.name(resource)}{slash}{subresource}"


def _replace_scaled_kind(rewriter: Rewriter, value: str, obj: object) -> str:
    """Replace the kind of a scaled object unless it is one of Kubernetes' own."""
    return value if value in POD_CREATORS else rewriter.name(value)


ADMISSION_FIELDS: dict[type, dict[str, Handler]] = {
    LocalObjectReference: {"name": _replace_name},
    ScopeSelectorTerm: {"values": _replace_names},
    ScaleTargetReference: {"name": _replace_name, "kind": _replace_scaled_kind},
    hooks.Webhook: {"name": _replace_name},
    hooks.HookRule: {"api_groups": _replace_groups, "resources": _replace_resources, "resource_names": _replace_names},
    hooks.PolicyBindingSpec: {"policy_name": _replace_name},
}


_OF_CLASS = ".storageclass.storage.k8s.io/"
QUOTA_NAMES = frozenset(
    (
        *("pods", "services", "services.loadbalancers", "services.nodeports", "secrets", "configmaps"),
        *("persistentvolumeclaims", "replicationcontrollers", "resourcequotas", "requests.storage"),
        *(f"{part}.{name}" for part in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")),
    )
)


def replace_quota_names(rewriter: Rewriter, value: JsonObject, obj: object) -> dict[str, object]:
    """Replace the names in the resources that a quota limits."""
    return {_replace_quota_name(rewriter, key): item for key, item in value.items()}


def _replace_quota_name(rewriter: Rewriter, key: str) -> str:
    """Replace the names in one resource of a quota, such as its StorageClass."""
    name, of_class, resource = key.partition(_OF_CLASS)
    if of_class:
        return rewriter.name(name) + of_class + resource
    return key if key.startswith("count/") or key in QUOTA_NAMES else rewriter.resource(key)
