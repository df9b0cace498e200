"""Semantic versions.

Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/semverlib.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kschedctl.cel.errors import CelError
from kschedctl.cel.semver import SemanticVersion, parse
from kschedctl.cel.values import INT_MAX, Opaque, Value

SEMVER = "kubernetes.Semver"


def version(text: str, normalize: bool = False) -> Opaque:
    """The version that a text stands for. Raises CelError."""
    try:
        return Opaque(SEMVER, parse(text, normalize))
    except ValueError as error:
        raise CelError(str(error)) from None


def is_version(text: str, normalize: bool = False) -> bool:
    """Whether a text stands for one."""
    try:
        parse(text, normalize)
    except ValueError:
        return False
    return True


def _part(name: str) -> Callable[[Opaque], int]:
    def part(value: Opaque) -> int:
        number: int = getattr(value.held, name)
        return number if number <= INT_MAX else number - 2**64  # as the conversion of Go wraps

    return part


def _compare(left: Opaque, right: Opaque) -> int:
    mine: SemanticVersion = left.held
    return mine.compare(right.held)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "semver(string) kubernetes.Semver": version,
    "semver(string, bool) kubernetes.Semver": version,
    "isSemver(string) bool": is_version,
    "isSemver(string, bool) bool": is_version,
    "{kubernetes.Semver}.isGreaterThan(kubernetes.Semver) bool": lambda a, b: _compare(a, b) > 0,
    "{kubernetes.Semver}.isLessThan(kubernetes.Semver) bool": lambda a, b: _compare(a, b) < 0,
    "{kubernetes.Semver}.compareTo(kubernetes.Semver) int": _compare,
    **{f"{{kubernetes.Semver}}.{name}() int": _part(name) for name in ("major", "minor", "patch")},
}
