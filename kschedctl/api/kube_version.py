"""Versions of Kubernetes, and what changed from one to the next: each change is written once, where its rule lives."""

from __future__ import annotations

import re
from functools import cache
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kschedctl.errors import ConfigurationError

T_co = TypeVar("T_co", covariant=True)

OLDEST_MINOR, VERIFIED_MINOR, NEWEST_MINOR = 30, 36, 37
"""The oldest and the newest that are replayed, and the newest of which a real kube-scheduler computed the answers."""
KUBE_VERSION = f"1.{VERIFIED_MINOR}"
NEWEST_PATCH = 999
_VERSION = re.compile(r"v?1\.(\d{1,3})(?:\.(\d{1,3}))?(?:[-+].*)?")


class KubeVersion(NamedTuple):
    """A release; what follows on the numbers, such as a provider's own suffix, does not change the scheduler.

    >>> KubeVersion.parse("v1.34.1-eks-3abc"), KubeVersion.parse("1.34") >= KubeVersion.parse("1.34.9")
    (KubeVersion(minor=34, patch=1), True)
    """

    minor: int
    patch: int = NEWEST_PATCH

    @classmethod
    def parse(cls, text: str) -> KubeVersion:
        """From ``1.34``, which is its newest patch, ``1.34.1`` or ``v1.34.1-eks-…``. Raises ValueError."""
        match = _VERSION.fullmatch(text)
        if not match:
            raise ValueError(text)
        return cls(int(match[1]), NEWEST_PATCH if match[2] is None else int(match[2]))

    @classmethod
    def supported(cls, text: str) -> KubeVersion:
        """Parse a version as ``parse`` does, if it is one that is replayed. Raises ConfigurationError."""
        try:
            version = cls.parse(text)
        except ValueError:
            version = None
        if version is None or not OLDEST_MINOR <= version.minor <= NEWEST_MINOR:
            hint = f"supported are 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}"
            raise ConfigurationError(f"Kubernetes version {text!r} is not supported", hint=hint)
        return version

    def __str__(self) -> str:
        return f"1.{self.minor}" if self.patch == NEWEST_PATCH else f"1.{self.minor}.{self.patch}"

    def source_of(self, change: str) -> KubeVersion:
        """The version that says how something is that versions changed."""
        return self


class VersionMix(NamedTuple):
    """What is as it is in another ``version``: ``changes`` name what a ByVersion is about, ``gate X``, ``plugin Y``."""

    version: str
    changes: frozenset[str]


class MixedVersion(KubeVersion):
    """A version in which some changes are as they are in another."""

    mix: VersionMix

    @classmethod
    def of(cls, version: KubeVersion, mix: VersionMix) -> MixedVersion:
        mixed = cls(*version)
        mixed.mix = mix
        return mixed

    def source_of(self, change: str) -> KubeVersion:
        return KubeVersion.supported(self.mix.version) if change in self.mix.changes else self


VERIFIED = KubeVersion(VERIFIED_MINOR)


def nearest(minor: int) -> int:
    """The minor version whose rules are used for one that may be older or newer than all that are replayed."""
    return min(max(minor, OLDEST_MINOR), NEWEST_MINOR)


def stands_in(server_version: str, minor: int) -> str:
    """What to say of a server that is not replayed by rules of its own version that were verified; else empty."""
    near = nearest(minor)
    if near == minor:
        unverified = f"the rules of 1.{minor} were not compared with a real kube-scheduler: see kschedctl versions"
        return f"the server is {server_version}: {unverified}" if minor > VERIFIED_MINOR else ""
    order = "newer" if minor > near else "older"
    return f"the server is {server_version}, {order} than what can be replayed: the rules of 1.{near} are used"


@cache
def reaches(version: KubeVersion, since: str) -> bool:
    """Whether a version has what came with a release, or with the first of several that it was brought back to.

    >>> [reaches(KubeVersion.parse(v), "1.30.7 1.31.3") for v in ("1.30.6", "1.30.7", "1.31.2", "1.31.3", "1.32.0")]
    [False, True, False, True, True]
    """
    releases = [(int(minor), int(patch or 0)) for minor, patch in re.findall(r"1\.(\d+)(?:\.(\d+))?", since)]
    return any(version >= release and (version.minor == release[0] or release == releases[-1]) for release in releases)


class ByVersion(msgspec.Struct, Generic[T_co], frozen=True):
    """Something that is not the same in all versions.

    ``steps``: since which release what holds, oldest first; several releases where it was brought back to older minors
    (``1.30.7 1.31.3``), none for what held before. ``upstream``: the change behind it. ``from_notes``: the release of
    which only the release notes tell the step; the others were read in its source, or seen in its answers.
    """

    what: str
    steps: tuple[tuple[str, T_co], ...]
    upstream: str = ""
    from_notes: str = ""

    def at(self, version: KubeVersion) -> T_co:
        """What holds in a version."""
        return self.step(version.source_of(self.what))[1]

    def step(self, version: KubeVersion) -> tuple[str, T_co]:
        """What holds in a version, and since when."""
        return next(step for step in reversed(self.steps) if not step[0] or reaches(version, step[0]))
