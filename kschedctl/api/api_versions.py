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
    """The first minor version that has the API version."""
    deprecated: int | None = None
    """None if not deprecated yet."""
    removed: int | None = None
    """None if no removal is known."""
    replacement: str = ""
    """The apiVersion to use instead."""
    gate: str = ""
    """The feature gate for the kind."""
    same_fields: bool = True
    """True if objects have the fields of the newest version, and so can be read."""

    @property
    def is_read(self) -> bool:
        """Return whether kschedctl reads objects in this version.

        A supported Kubernetes version has to serve it, with the fields of the newest version.
        """
        return self.same_fields and not self.is_removed_in(OLDEST_MINOR)

    @property
    def is_served_by_default(self) -> bool:
        """Return whether an API server with default flags serves the version."""
        return "alpha" not in self.name and ("beta" not in self.name or self.since < _BETA_OFF_SINCE)

    def exists_in(self, minor: int) -> bool:
        """Return whether a minor version of Kubernetes has the API version, served by default or not."""
        return self.since <= minor and not self.is_removed_in(minor)

    def is_removed_in(self, minor: int) -> bool:
        """Return whether a minor version of Kubernetes no longer has the API version."""
        return self.removed is not None and minor >= self.removed

    def is_deprecated_in(self, minor: int) -> bool:
        """Return whether a minor version of Kubernetes has deprecated the API version, or removed it afterwards."""
        return self.deprecated is not None and minor >= self.deprecated

    def describe_lifecycle(self, minor: int = VERIFIED_MINOR) -> str:
        """Return a clause such as "was removed in 1.25" or "is deprecated since 1.24" for a minor version.

        Return "" if the API version is neither removed nor deprecated in the minor version.
        """
        if self.is_removed_in(minor):
            return f"was removed in 1.{self.removed}"
        if not self.is_deprecated_in(minor):
            return ""
        removal = f" and removed in 1.{self.removed}" if self.removed else ""
        return f"is deprecated since 1.{self.deprecated}{removal}"


_VERSION = re.compile(r"v([1-9][0-9]{0,3})(?:(alpha|beta)([1-9][0-9]{0,3}))?")


SCHEDULER_CONFIGURATION_VERSIONS = tuple(
    ApiVersion(f"kubescheduler.config.k8s.io/{name}", since, None, removed, "kubescheduler.config.k8s.io/v1")
    for name, since, removed in (("v1beta1", 19, 23), ("v1beta2", 22, 28), ("v1beta3", 23, 29))
)


def is_newer_api_version(api_version: str, known_versions: Iterable[str]) -> bool:
    """Return whether an API version is in the same group as all known versions and newer than each of them.

    Upstream: CompareKubeAwareVersionStrings in staging/src/k8s.io/apimachinery/pkg/version (v1.36).

    >>> is_newer_api_version("resource.k8s.io/v1", ["resource.k8s.io/v1beta2"]), is_newer_api_version("v1beta9", ["v1"])
    (True, False)
    """
    return all(
        get_group(api_version) == get_group(name) and get_version_sort_key(api_version) > get_version_sort_key(name)
        for name in known_versions
    )


def get_version_sort_key(api_version: str) -> tuple[int, int, int]:
    """Return a sort key for API versions: alpha before beta before stable, each by number.

    A version of another form comes first.
    """
    match = _VERSION.fullmatch(api_version.rpartition("/")[2])
    if match is None:  # such as a date, which sorts before all others
        return -1, 0, 0
    number, maturity, maturity_number = match.groups()
    maturity_rank = ("alpha", "beta", None).index(maturity)  # a stable version states no maturity
    return maturity_rank, int(number), int(maturity_number or 0)


def get_group(api_version: str) -> str:
    """Return the group of an apiVersion, or "" for the core group."""
    return api_version.rpartition("/")[0]


def is_custom_api(api_version: str) -> bool:
    """Return whether the apiVersion does not belong to Kubernetes itself.

    The groups of Kubernetes have no dot or end with .k8s.io, but not with .x-k8s.io.
    """
    group = get_group(api_version)
    return "." in group and (group.endswith(".x-k8s.io") or not group.endswith(".k8s.io"))
