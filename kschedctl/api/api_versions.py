"""Lifecycle of API versions: when each one came, when it is removed, and what replaces it.

Upstream: zz_generated.prerelease-lifecycle.go in staging/src/k8s.io/api (v1.31 to v1.36). Alpha versions have no
lifecycle file, so their dates are the releases that register their types. Versions of kube-scheduler's configuration
follow KEP-785. Alpha versions, and beta versions since 1.24, are not served by default (KEP-3136).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kschedctl.api.kube_version import OLDEST_MINOR, VERIFIED_MINOR

_BETA_OFF_SINCE = 24


class ApiVersion(NamedTuple):
    """An API version of a kind and its lifecycle in minor versions of Kubernetes."""

    name: str
    since: int
    """The first minor version that has it."""
    deprecated: int | None = None
    """None if not deprecated yet."""
    removed: int | None = None
    """None if no removal is known."""
    replacement: str = ""
    """The apiVersion to use instead."""
    gate: str = ""
    """The feature gate of the feature that the kind belongs to."""
    same_fields: bool = True
    """Whether its objects have the fields of the newest version and so can be read."""

    @property
    def is_read(self) -> bool:
        """Return whether kschedctl reads its objects: a supported Kubernetes version serves it with the newest
        fields.
        """
        return self.same_fields and not self.is_removed_in(OLDEST_MINOR)

    @property
    def is_served_by_default(self) -> bool:
        """Return whether an API server with default flags serves it."""
        return "alpha" not in self.name and ("beta" not in self.name or self.since < _BETA_OFF_SINCE)

    def exists_in(self, minor: int) -> bool:
        """Return whether the minor version has it, served by default or not."""
        return self.since <= minor and not self.is_removed_in(minor)

    def is_removed_in(self, minor: int) -> bool:
        """Return whether the minor version no longer has it."""
        return self.removed is not None and minor >= self.removed

    def describe_lifecycle(self, minor: int = VERIFIED_MINOR) -> str:
        """Return that it is deprecated or removed in the minor version, or "" if neither."""
        if self.is_removed_in(minor):
            return f"was removed in 1.{self.removed}"
        if self.deprecated is None or minor < self.deprecated:
            return ""
        return f"is deprecated since 1.{self.deprecated}" + (f" and goes with 1.{self.removed}" if self.removed else "")


_VERSION = re.compile(r"v([1-9][0-9]{0,3})(?:(alpha|beta)([1-9][0-9]{0,3}))?")


OF_SCHEDULER_CONFIGURATION = tuple(
    ApiVersion(f"kubescheduler.config.k8s.io/{name}", since, None, removed, "kubescheduler.config.k8s.io/v1")
    for name, since, removed in (("v1beta1", 19, 23), ("v1beta2", 22, 28), ("v1beta3", 23, 29))
)


def is_newer(api_version: str, known: Iterable[str]) -> bool:
    """Return whether the version belongs to the group of the known versions and is newer than all of them.

    Upstream: CompareKubeAwareVersionStrings in staging/src/k8s.io/apimachinery/pkg/version (v1.36).

    >>> is_newer("resource.k8s.io/v1", ["resource.k8s.io/v1beta2"]), is_newer("v1beta9", ["v1"])
    (True, False)
    """
    return all(
        group_of(api_version) == group_of(name) and version_order(api_version) > version_order(name) for name in known
    )


def version_order(api_version: str) -> tuple[int, int, int]:
    """Return a sort key that grows with maturity: alpha, then beta, then stable, each by number."""
    parts = _VERSION.fullmatch(api_version.rpartition("/")[2])
    return (("alpha", "beta", None).index(parts[2]), int(parts[1]), int(parts[3] or 0)) if parts else (-1, 0, 0)


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion, "" for the core group."""
    return api_version.rpartition("/")[0]


def is_custom_api(api_version: str) -> bool:
    """Return whether the apiVersion is not one of Kubernetes' own, whose groups have no dot or end with .k8s.io."""
    group = group_of(api_version)
    return "." in group and (group.endswith(".x-k8s.io") or not group.endswith(".k8s.io"))
