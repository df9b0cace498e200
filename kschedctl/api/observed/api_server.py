"""How kube-apiserver runs: the flags of its static pod that decide what it makes of a pod that is created.

Upstream: pkg/kubeapiserver/options/plugins.go, plugin/pkg/admission/defaulttolerationseconds (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.observed.command_lines import ContainerOwner, may_run, spelt

PROGRAM, HOME = "kube-apiserver", "kube-system"
OPTIONAL_PLUGINS = (
    *("AlwaysPullImages", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "PodNodeSelector"),
    "PodTolerationRestriction",
)
"""Plugins that are replayed, and off unless somebody turned them on."""
OTHER_PLUGINS = frozenset(
    (
        *("AlwaysAdmit", "NamespaceAutoProvision", "NamespaceLifecycle", "NamespaceExists", "LimitRanger"),
        *("ServiceAccount", "NodeRestriction", "TaintNodesByCondition", "ImagePolicyWebhook", "PodSecurity"),
        *("DefaultTolerationSeconds", "EventRateLimit", "DefaultStorageClass", "StorageObjectInUseProtection"),
        *("PodGroupProtection", "OwnerReferencesPermissionEnforcement", "PersistentVolumeClaimResize", "RuntimeClass"),
        *("CertificateApproval", "CertificateSigning", "ClusterTrustBundleAttest", "CertificateSubjectRestriction"),
        *("DefaultIngressClass", "DenyServiceExternalIPs", "PodTopologyLabels", "PodGroupWorkloadExists"),
        *("NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator", "MutatingAdmissionPolicy"),
        *("MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook", "ResourceQuota"),
        *("AlwaysDeny", "Priority"),
    )
)
"""Plugins that are on anyway, or that no answer depends on here."""
ENABLED, DISABLED = "enable-admission-plugins", "disable-admission-plugins"
NOT_READY, UNREACHABLE = "default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds"
FLAGS = frozenset((ENABLED, DISABLED, NOT_READY, UNREACHABLE))
PATIENCE = 300
"""Seconds for which pods stay on a node that is not ready or cannot be reached, unless the server is told otherwise."""
MOST_PLUGINS = 100


class ApiServerInstance(msgspec.Struct, frozen=True, rename="camel"):
    """``where``: whose container it is, empty where none was read; ``told_by``: who says which plugins are on.

    ``enabled``, ``disabled``: plugins besides the default ones, and those of the default ones that are off.
    """

    where: str = ""
    enabled: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    told_by: str = ""
    not_ready_seconds: int = PATIENCE
    unreachable_seconds: int = PATIENCE

    @property
    def optional(self) -> tuple[str, ...]:
        """The plugins that are on and would not be of themselves."""
        return tuple(name for name in OPTIONAL_PLUGINS if name in self.enabled and name not in self.disabled)

    @property
    def described(self) -> str:
        """What decides, and who says so."""
        plugins = f"admission plugins {', '.join(self.optional)} ({self.told_by})" if self.optional else ""
        seconds = f"not-ready tolerated for {self.not_ready_seconds} s, unreachable for {self.unreachable_seconds} s"
        return "; ".join(filter(None, (plugins, f"{seconds} ({self.where})" if self.where else "")))

    def with_plugins(self, names: Iterable[str], told_by: str) -> ApiServerInstance:
        """As if it ran with these plugins besides the default ones; itself without any."""
        enabled = tuple(names)
        return msgspec.structs.replace(self, enabled=enabled, disabled=(), told_by=told_by) if enabled else self


AS_BY_DEFAULT = ApiServerInstance()


def api_server_in(owners: Iterable[ContainerOwner], kind: str = "") -> ApiServerInstance | None:
    """The first API server that one of these pods of kube-system runs with such flags."""
    for owner in owners:
        for container in owner.containers if owner.metadata.namespace == HOME else ():
            if container.runs(PROGRAM) and any(name in FLAGS for name, _ in spelt(container.words)):
                return _instance(owner.named(kind), container.words)
    return None


def api_server_of(document: JsonObject) -> ApiServerInstance | None:
    """The API server that a document describes, if it does."""
    if document.get("kind") != "Pod" or not may_run(document, PROGRAM):
        return None
    try:
        return api_server_in([convert_builtins(document, ContainerOwner)])
    except msgspec.ValidationError:
        return None  # what is wrong with it is said where it is read as what it is


def without_place(instance: ApiServerInstance) -> ApiServerInstance:
    """How it runs, less what names somebody's own."""
    known = OTHER_PLUGINS.union(OPTIONAL_PLUGINS)
    enabled, disabled = (tuple(filter(known.__contains__, names)) for names in (instance.enabled, instance.disabled))
    return msgspec.structs.replace(instance, where="", told_by="", enabled=enabled, disabled=disabled)


def _instance(where: str, words: tuple[str, ...]) -> ApiServerInstance:
    given: dict[str, list[str]] = {}
    for name, value in spelt(words):
        if name in FLAGS:
            given.setdefault(name, []).extend(part.strip() for part in value.split(",")[:MOST_PLUGINS])
    return ApiServerInstance(
        where,
        tuple(given.get(ENABLED, ())),
        tuple(given.get(DISABLED, ())),
        f"--{ENABLED} of {where}",
        _seconds(given.get(NOT_READY)),
        _seconds(given.get(UNREACHABLE)),
    )


def _seconds(values: list[str] | None) -> int:
    text = values[-1] if values else ""
    return int(text) if text.isdecimal() and len(text) < 19 else PATIENCE
