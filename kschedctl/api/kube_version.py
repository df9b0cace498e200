"""Versions of Kubernetes, and rules that differ between them. Each difference is data beside its rule."""

from __future__ import annotations

import re
from functools import cache
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kschedctl.errors import ConfigurationError

T_co = TypeVar("T_co", covariant=True)

OLDEST_MINOR, VERIFIED_MINOR, NEWEST_MINOR = 30, 36, 37
"""The oldest replayed minor version, the newest compared with a real kube-scheduler, and the newest replayed."""
KUBE_VERSION = f"1.{VERIFIED_MINOR}"
NEWEST_PATCH = 999
_VERSION = re.compile(r"v?1\.(\d{1,3})(?:\.(\d{1,3}))?(?:[-+].*)?")


class KubeVersion(NamedTuple):
    """A Kubernetes release. Suffixes of providers do not matter to the scheduler and are dropped.

    >>> KubeVersion.parse("v1.34.1-eks-3abc"), KubeVersion.parse("1.34") >= KubeVersion.parse("1.34.9")
    (KubeVersion(minor=34, patch=1), True)
    """

    minor: int
    patch: int = NEWEST_PATCH

    @classmethod
    def parse(cls, text: str) -> KubeVersion:
        """Parse ``1.34``, ``1.34.1`` or ``v1.34.1-eks-…``. Raises ValueError for any other text.

        A version without a patch stands for the newest patch.
        """
        match = _VERSION.fullmatch(text)
        if not match:
            raise ValueError(text)
        return cls(int(match[1]), NEWEST_PATCH if match[2] is None else int(match[2]))

    @classmethod
    def parse_supported(cls, text: str) -> KubeVersion:
        """Parse a version that kschedctl can replay. Raises ConfigurationError for any other version."""
        try:
            version = cls.parse(text)
        except ValueError:
            version = None
        if version is None or not OLDEST_MINOR <= version.minor <= NEWEST_MINOR:
            hint = f"supported: 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
            raise ConfigurationError(f"Kubernetes version {text!r} is not supported", hint=hint)
        return version

    def __str__(self) -> str:
        return f"1.{self.minor}" if self.patch == NEWEST_PATCH else f"1.{self.minor}.{self.patch}"

    def version_for(self, change: str) -> KubeVersion:
        """Return the version whose rule applies to a change between versions."""
        return self


class VersionMix(NamedTuple):
    """Changes that behave as in another version."""

    version: str
    changes: frozenset[str]
    """Names of ByVersion rules, ``gate X``, or ``plugin Y``."""


class MixedVersion(KubeVersion):
    """A version in which some changes behave as in another version."""

    mix: VersionMix

    @classmethod
    def mix_with(cls, version: KubeVersion, mix: VersionMix) -> MixedVersion:
        """Return the version in which the changes of the mix behave as in another version."""
        mixed = cls(*version)
        mixed.mix = mix
        return mixed

    def version_for(self, change: str) -> KubeVersion:
        """Return the mix's version if it has the change, or else this version."""
        return KubeVersion.parse_supported(self.mix.version) if change in self.mix.changes else self


VERIFIED = KubeVersion(VERIFIED_MINOR)


def clamp_minor(minor: int) -> int:
    """Return the closest supported minor version."""
    return min(max(minor, OLDEST_MINOR), NEWEST_MINOR)


def describe_version_substitute(server_version: str, minor: int) -> str:
    """Return a note that the server's version is not verified, or is replaced by the closest replayed version.

    Returns "" for a verified version.
    """
    closest = clamp_minor(minor)
    if closest == minor and minor <= VERIFIED_MINOR:
        return ""
    if closest == minor:
        unverified = f"the rules of 1.{minor} were not compared with a real kube-scheduler: see kschedctl versions"
        return f"the server is {server_version}: {unverified}"
    order = "newer" if minor > closest else "older"
    return f"the server is {server_version}, {order} than what can be replayed: the rules of 1.{closest} are used"


@cache
def includes_change(version: KubeVersion, first_releases: str) -> bool:
    """Return whether a version includes a change that first came with the given releases.

    Several releases mean that the change was backported to older minor versions.

    >>> versions = map(KubeVersion.parse, ("1.30.6", "1.30.7", "1.31.2", "1.31.3", "1.32.0"))
    >>> [includes_change(version, "1.30.7 1.31.3") for version in versions]
    [False, True, False, True, True]
    """
    releases = [(int(minor), int(patch or 0)) for minor, patch in re.findall(r"1\.(\d+)(?:\.(\d+))?", first_releases)]
    if releases and version >= releases[-1]:  # all later minor versions include the newest release
        return True
    return any(version.minor == minor and version.patch >= patch for minor, patch in releases)


class ByVersion(msgspec.Struct, Generic[T_co], frozen=True):
    """A value that differs between versions."""

    what: str
    """The behavior that differs."""
    steps: tuple[tuple[str, T_co], ...]
    """Pairs of release and value, the oldest first.

    The release "" has the value before the first change. Several releases mean that the change was backported.
    """
    upstream: str = ""
    """The pull request behind the change."""
    from_notes: str = ""
    """The release whose step is known only from release notes, not from source or answers."""
    bool_texts: tuple[str, str] = ("no", "yes")
    """The descriptions of the values False and True."""

    def at(self, version: KubeVersion) -> T_co:
        """Return the value for a version."""
        return self.find_step(version.version_for(self.what))[1]

    def find_step(self, version: KubeVersion) -> tuple[str, T_co]:
        """Return the value for a version and the release that introduced it."""
        return next(step for step in reversed(self.steps) if not step[0] or includes_change(version, step[0]))
