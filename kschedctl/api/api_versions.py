"""The versions of the API that come and go: since when a kind is in one, until when, and what takes its place.

Upstream: zz_generated.prerelease-lifecycle.go in staging/src/k8s.io/api (v1.31 to v1.36); of alpha versions, which have
none, the releases that register their types; of kube-scheduler's configuration KEP-785. Alpha versions, and beta ones
that came with 1.24 or later, are not served by default (KEP-3136).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kschedctl.api.kube_version import NEWEST_MINOR

_BETA_OFF_SINCE = 24


class ApiVersion(NamedTuple):
    """``since``, ``deprecated``, ``removed``: minor versions, of these the last two None where that is not known yet.

    ``instead``: the apiVersion to write then. ``gate``: who sets it has switched on what the kinds belong to.
    """

    name: str
    kinds: str
    since: int
    deprecated: int | None = None
    removed: int | None = None
    instead: str = ""
    gate: str = ""

    @property
    def by_default(self) -> bool:
        """Whether an API server serves it that was told nothing."""
        return "alpha" not in self.name and ("beta" not in self.name or self.since < _BETA_OFF_SINCE)

    def is_in(self, minor: int) -> bool:
        """Whether a minor version has it, by default or not."""
        return self.since <= minor and not self.is_gone(minor)

    def is_gone(self, minor: int) -> bool:
        """Whether a minor version has it no more."""
        return self.removed is not None and minor >= self.removed

    def fate(self, minor: int = NEWEST_MINOR) -> str:
        """How it stands with it in a minor version, "" while it is neither deprecated nor gone."""
        if self.is_gone(minor):
            return f"was removed in 1.{self.removed}"
        if self.deprecated is None or minor < self.deprecated:
            return ""
        return f"is deprecated since 1.{self.deprecated}" + (f" and goes with 1.{self.removed}" if self.removed else "")


_WORKLOADS = "DaemonSet Deployment ReplicaSet"
_DEVICES = "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice"
_DRA, _RULES, _GROUPS = "DynamicResourceAllocation", "DRADeviceTaintRules", "GenericWorkload"
_CONFIGURATION, _CURRENT = "KubeSchedulerConfiguration", "kubescheduler.config.k8s.io/v1"
API_VERSIONS = (
    ApiVersion("extensions/v1beta1", _WORKLOADS, 1, 8, 16, "apps/v1"),
    ApiVersion("apps/v1beta1", "Deployment StatefulSet", 6, 8, 16, "apps/v1"),
    ApiVersion("apps/v1beta2", f"{_WORKLOADS} StatefulSet", 8, 9, 16, "apps/v1"),
    ApiVersion("batch/v1beta1", "CronJob", 8, 21, 25, "batch/v1"),
    ApiVersion("policy/v1beta1", "PodDisruptionBudget", 5, 21, 25, "policy/v1"),
    ApiVersion("node.k8s.io/v1beta1", "RuntimeClass", 13, 22, 25, "node.k8s.io/v1"),
    ApiVersion("scheduling.k8s.io/v1beta1", "PriorityClass", 11, 14, 22, "scheduling.k8s.io/v1"),
    ApiVersion("autoscaling/v2beta1", "HorizontalPodAutoscaler", 8, 22, 25, "autoscaling/v2"),
    ApiVersion("autoscaling/v2beta2", "HorizontalPodAutoscaler", 12, 23, 26, "autoscaling/v2"),
    ApiVersion("storage.k8s.io/v1beta1", "CSINode", 14, 17, 22, "storage.k8s.io/v1"),
    ApiVersion("storage.k8s.io/v1beta1", "CSIDriver StorageClass VolumeAttachment", 14, 19, 22, "storage.k8s.io/v1"),
    ApiVersion("storage.k8s.io/v1alpha1", "VolumeAttachment", 9, 21, 24, "storage.k8s.io/v1"),
    ApiVersion("storage.k8s.io/v1alpha1", "CSIStorageCapacity", 19, 21, 24, "storage.k8s.io/v1"),
    ApiVersion("storage.k8s.io/v1beta1", "CSIStorageCapacity", 21, 24, 27, "storage.k8s.io/v1"),
    ApiVersion("storage.k8s.io/v1alpha1", "VolumeAttributesClass", 29, 32, 35, "storage.k8s.io/v1"),
    ApiVersion("storage.k8s.io/v1beta1", "VolumeAttributesClass", 31, 34, 37, "storage.k8s.io/v1"),
    ApiVersion("storage.k8s.io/v1", "VolumeAttributesClass", 34, gate="VolumeAttributesClass"),
    ApiVersion("resource.k8s.io/v1alpha2", "ResourceClaim ResourceClaimTemplate", 27, None, 31, "resource.k8s.io/v1"),
    ApiVersion("resource.k8s.io/v1alpha2", "ResourceClass PodSchedulingContext", 27, None, 31),
    ApiVersion("resource.k8s.io/v1alpha3", _DEVICES, 31, None, 34, "resource.k8s.io/v1", _DRA),
    ApiVersion("resource.k8s.io/v1alpha3", "PodSchedulingContext", 31, None, 32),
    ApiVersion("resource.k8s.io/v1beta1", _DEVICES, 32, 35, 38, "resource.k8s.io/v1", _DRA),
    ApiVersion("resource.k8s.io/v1beta2", _DEVICES, 33, 36, 39, "resource.k8s.io/v1", _DRA),
    ApiVersion("resource.k8s.io/v1", _DEVICES, 34, gate=_DRA),
    ApiVersion("resource.k8s.io/v1alpha3", "DeviceTaintRule", 33, 36, 39, "resource.k8s.io/v1beta2", "DRADeviceTaints"),
    ApiVersion("resource.k8s.io/v1beta2", "DeviceTaintRule", 36, gate=_RULES),
    ApiVersion("scheduling.k8s.io/v1alpha1", "Workload", 35, None, 36, "scheduling.k8s.io/v1alpha2", _GROUPS),
    ApiVersion("scheduling.k8s.io/v1alpha2", "PodGroup Workload", 36, gate=_GROUPS),
    ApiVersion("kubescheduler.config.k8s.io/v1beta1", _CONFIGURATION, 19, None, 23, _CURRENT),
    ApiVersion("kubescheduler.config.k8s.io/v1beta2", _CONFIGURATION, 22, None, 28, _CURRENT),
    ApiVersion("kubescheduler.config.k8s.io/v1beta3", _CONFIGURATION, 23, None, 29, _CURRENT),
)
"""Versions that every release from 1.30 on serves, and means to go on serving, are not among them."""


def _by_kind() -> Iterator[tuple[tuple[str, str], ApiVersion]]:
    for version in API_VERSIONS:
        for kind in version.kinds.split():
            yield (version.name, kind), version


BY_KIND: Mapping[tuple[str, str], ApiVersion] = dict(_by_kind())
"""(apiVersion, kind) -> what is known of it."""


def versions_of(kind: str) -> list[ApiVersion]:
    """All of a kind, oldest first."""
    return [version for (_, name), version in BY_KIND.items() if name == kind]


def first_minor(kind: str) -> int:
    """The first minor version that has a kind at all, of those whose every version is here."""
    return min(version.since for version in versions_of(kind))


def fate(api_version: str, kind: str) -> str:
    """``was removed in 1.25``, or since when it is deprecated, in the newest version; "" where neither is so.

    >>> fate("policy/v1beta1", "PodDisruptionBudget"), fate("policy/v1", "PodDisruptionBudget")
    ('was removed in 1.25', '')
    """
    known = BY_KIND.get((api_version, kind))
    return known.fate() if known else ""


KNOWN_AS: Mapping[tuple[str, str], str] = {
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup"): "CoschedulingPodGroup",
    ("scheduling.volcano.sh/v1beta1", "PodGroup"): "VolcanoPodGroup",
}
"""(apiVersion, kind) -> what the kind is called here, of those that have the name of one of Kubernetes' own."""
_KIND = {known: kind for (_, kind), known in KNOWN_AS.items()}


_KNOWN_IN_GROUP = {(version.rpartition("/")[0], kind): known for (version, kind), known in KNOWN_AS.items()}


def known_as(kind: str, api_version: str) -> str:
    """What a kind is called here, in whichever version of its group.

    >>> known_as("PodGroup", "scheduling.volcano.sh/v1beta1"), known_as("PodGroup", "scheduling.k8s.io/v1alpha2")
    ('VolcanoPodGroup', 'PodGroup')
    """
    return _KNOWN_IN_GROUP.get((api_version.rpartition("/")[0], kind), kind)


def kind_of(document: Mapping[str, Any]) -> str:
    """The kind of a document, as it is called here; empty for one that names none."""
    return known_as(str(document.get("kind", "")), str(document.get("apiVersion", "")))


def kind_in_api(known: str) -> str:
    """What a kind is called in the API."""
    return _KIND.get(known, known)


_VERSION = re.compile(r"v([1-9][0-9]{0,3})(?:(alpha|beta)([1-9][0-9]{0,3}))?")


def is_newer(api_version: str, known: Iterable[str]) -> bool:
    """Whether this is a version of the group of those known, and newer than all of them.

    Upstream: CompareKubeAwareVersionStrings in staging/src/k8s.io/apimachinery/pkg/version (v1.36).

    >>> is_newer("resource.k8s.io/v1", ["resource.k8s.io/v1beta2"]), is_newer("v1beta9", ["v1"])
    (True, False)
    """
    group, _, version = api_version.rpartition("/")
    names = [each.rpartition("/") for each in known]
    return all(group == other for other, _, _ in names) and all(_age(version) > _age(name) for _, _, name in names)


def _age(version: str) -> tuple[int, int, int]:
    """The greater the newer: what is stable after all that is not, beta after alpha."""
    found = _VERSION.fullmatch(version)
    return (("alpha", "beta", None).index(found[2]), int(found[1]), int(found[3] or 0)) if found else (-1, 0, 0)


def is_foreign(api_version: str) -> bool:
    """Whether a kind of it is not Kubernetes' own, whose groups have no dot or end in .k8s.io."""
    group = api_version.rpartition("/")[0]
    return "." in group and (group.endswith(".x-k8s.io") or not group.endswith(".k8s.io"))
