"""The flags of kube-apiserver that decide what it makes of a pod that is created, read from its static pod.

Upstream: pkg/kubeapiserver/options/plugins.go, plugin/pkg/admission/defaulttolerationseconds (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject
from kschedctl.api.observed.command_lines import ContainerOwner, iter_flags, may_run

PROGRAM, HOME = "kube-apiserver", "kube-system"
OPTIONAL_PLUGINS = (
    *("AlwaysPullImages", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "PodNodeSelector"),
    "PodTolerationRestriction",
)
"""Replayed admission plugins that are off by default."""
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
"""Admission plugins that are on by default or do not affect any answer."""
ENABLED, DISABLED = "enable-admission-plugins", "disable-admission-plugins"
NOT_READY, UNREACHABLE = "default-not-ready-toleration-seconds", "default-unreachable-toleration-seconds"
FLAGS = frozenset((ENABLED, DISABLED, NOT_READY, UNREACHABLE))
DEFAULT_TOLERATION_SECONDS = 300
"""How long pods stay on a node that is not ready or unreachable by default."""
MOST_PLUGINS = 100


class ApiServerInstance(msgspec.Struct, frozen=True, rename="camel"):
    """The flags of one kube-apiserver."""

    where: str = ""
    """The pod it runs in, or "" if none was read."""
    enabled: tuple[str, ...] = ()
    """Plugins enabled in addition to the defaults."""
    disabled: tuple[str, ...] = ()
    """Default plugins that are disabled."""
    told_by: str = ""
    """Where the list of plugins comes from."""
    not_ready_seconds: int = DEFAULT_TOLERATION_SECONDS
    unreachable_seconds: int = DEFAULT_TOLERATION_SECONDS

    @property
    def enabled_optional_plugins(self) -> tuple[str, ...]:
        """Return the enabled plugins that are off by default."""
        return tuple(name for name in OPTIONAL_PLUGINS if name in self.enabled and name not in self.disabled)

    @property
    def describe(self) -> str:
        """Return the settings that matter and where they come from."""
        plugins = (
            f"admission plugins {', '.join(self.enabled_optional_plugins)} ({self.told_by})"
            if self.enabled_optional_plugins
            else ""
        )
        seconds = f"not-ready tolerated for {self.not_ready_seconds} s, unreachable for {self.unreachable_seconds} s"
        return "; ".join(filter(None, (plugins, f"{seconds} ({self.where})" if self.where else "")))

    def with_plugins(self, names: Iterable[str], told_by: str) -> ApiServerInstance:
        """Return the instance with these plugins enabled, or itself if there are none."""
        enabled = tuple(names)
        return msgspec.structs.replace(self, enabled=enabled, disabled=(), told_by=told_by) if enabled else self


AS_BY_DEFAULT = ApiServerInstance()


def find_api_server(owners: Iterable[ContainerOwner], kind: str = "") -> ApiServerInstance | None:
    """Return the first kube-apiserver with relevant flags among pods of kube-system, or None."""
    for owner in owners:
        for container in owner.containers if owner.metadata.namespace == HOME else ():
            if container.runs(PROGRAM) and any(name in FLAGS for name, _ in iter_flags(container.words)):
                return _parse_instance(owner.describe(kind), container.words)
    return None


def read_api_server(document: JsonObject) -> ApiServerInstance | None:
    """Return the kube-apiserver that a document describes, or None."""
    if document.get("kind") != "Pod" or not may_run(document, PROGRAM):
        return None
    try:
        return find_api_server([convert_builtins(document, ContainerOwner)])
    except msgspec.ValidationError:
        return None  # what is wrong with it is said where it is read as what it is


def anonymize(instance: ApiServerInstance) -> ApiServerInstance:
    """Return the settings without anything that identifies the cluster."""
    known = OTHER_PLUGINS.union(OPTIONAL_PLUGINS)
    enabled, disabled = (tuple(filter(known.__contains__, names)) for names in (instance.enabled, instance.disabled))
    return msgspec.structs.replace(instance, where="", told_by="", enabled=enabled, disabled=disabled)


def _parse_instance(where: str, words: tuple[str, ...]) -> ApiServerInstance:
    """Read the admission flags from the command line of a kube-apiserver."""
    values_by_flag: dict[str, list[str]] = {}
    for name, value in iter_flags(words):
        if name in FLAGS:
            values_by_flag.setdefault(name, []).extend(part.strip() for part in value.split(",")[:MOST_PLUGINS])
    return ApiServerInstance(
        where,
        tuple(values_by_flag.get(ENABLED, ())),
        tuple(values_by_flag.get(DISABLED, ())),
        f"--{ENABLED} of {where}",
        _parse_seconds(values_by_flag.get(NOT_READY)),
        _parse_seconds(values_by_flag.get(UNREACHABLE)),
    )


def _parse_seconds(values: list[str] | None) -> int:
    text = values[-1] if values else ""
    return int(text) if text.isdecimal() and len(text) < 19 else DEFAULT_TOLERATION_SECONDS
