"""The versions of the API that come and go: since when a kind is in one, until when, and what takes its place.

Upstream: zz_generated.prerelease-lifecycle.go in staging/src/k8s.io/api (v1.31 to v1.36); of alpha versions, which have
none, the releases that register their types; of kube-scheduler's configuration KEP-785. Alpha versions, and beta ones
that came with 1.24 or later, are not served by default (KEP-3136).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kschedctl.api.kube_version import OLDEST_MINOR, VERIFIED_MINOR

_BETA_OFF_SINCE = 24


class ApiVersion(NamedTuple):
    """``since``, ``deprecated``, ``removed``: minor versions, of these the last two None where that is not known yet.

    ``instead``: the apiVersion to write then. ``gate``: who sets it has switched on what the kinds belong to.
    ``same_fields``: its objects have the fields of the newest version, so that they can be read.
    """

    name: str
    since: int
    deprecated: int | None = None
    removed: int | None = None
    instead: str = ""
    gate: str = ""
    same_fields: bool = True

    @property
    def is_read(self) -> bool:
        """Whether objects of it are read: some version that is replayed serves it."""
        return self.same_fields and not self.is_gone(OLDEST_MINOR)

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

    def fate(self, minor: int = VERIFIED_MINOR) -> str:
        """How it stands with it in a minor version, "" while it is neither deprecated nor gone."""
        if self.is_gone(minor):
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
    """Whether this is a version of the group of those known, and newer than all of them.

    Upstream: CompareKubeAwareVersionStrings in staging/src/k8s.io/apimachinery/pkg/version (v1.36).

    >>> is_newer("resource.k8s.io/v1", ["resource.k8s.io/v1beta2"]), is_newer("v1beta9", ["v1"])
    (True, False)
    """
    return all(group_of(api_version) == group_of(name) and age(api_version) > age(name) for name in known)


def age(api_version: str) -> tuple[int, int, int]:
    """The greater the newer: what is stable after all that is not, beta after alpha."""
    parts = _VERSION.fullmatch(api_version.rpartition("/")[2])
    return (("alpha", "beta", None).index(parts[2]), int(parts[1]), int(parts[3] or 0)) if parts else (-1, 0, 0)


def group_of(api_version: str) -> str:
    """The group of an apiVersion, "" for Kubernetes' core."""
    return api_version.rpartition("/")[0]


def is_foreign(api_version: str) -> bool:
    """Whether a kind of it is not Kubernetes' own, whose groups have no dot or end in .k8s.io."""
    group = group_of(api_version)
    return "." in group and (group.endswith(".x-k8s.io") or not group.endswith(".k8s.io"))
