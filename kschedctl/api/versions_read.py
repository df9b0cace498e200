"""Which kinds and API versions of documents kschedctl reads for scheduling."""

from __future__ import annotations

from collections.abc import Callable

from kschedctl.api.api_versions import is_custom_api, is_newer, version_order
from kschedctl.api.kinds import KINDS, LIFECYCLES, ReadFor, describe_lifecycle
from kschedctl.errors import InputError


def is_relevant_kind(kind: str, version: str) -> bool:
    """Return whether scheduling depends on objects of the kind, including in other versions of its API group.

    Kinds of the same name from other vendors' groups do not count. ``version`` may be empty, as in items of a typed
    list.
    """
    api_kind = KINDS.get(kind)
    if api_kind is None:
        return False
    if not version or version in api_kind.versions:
        return True
    if is_newer_version(kind, version):
        return api_kind.read_for is not ReadFor.HISTORY
    return not is_custom_api(version) and api_kind.read_for is ReadFor.SCHEDULING


def is_readable(kind: str, version: str, error: Callable[..., InputError]) -> bool:
    """Return whether kschedctl reads objects of the kind in this version.

    Raises the error that ``error`` builds if the version of a relevant kind is too old to be read.
    """
    if not is_relevant_kind(kind, version):
        return False
    versions = KINDS[kind].versions
    if not version or version in versions or is_newer_version(kind, version):
        return True
    problem = f"{kind} in apiVersion {version} {describe_lifecycle(version, kind) or 'is not known'}"
    raise error(problem, hint=f"{' or '.join(versions)} is what kschedctl reads")


def is_newer_version(kind: str, version: str) -> bool:
    """Return whether the version is newer than every known version of the kind, or than every equally mature one."""
    if kind not in KINDS or (version, kind) in LIFECYCLES or version in KINDS[kind].versions:
        return False
    known_versions = {*KINDS[kind].versions, *(each.name for each in KINDS[kind].lifecycle)}
    equally_mature = {name for name in known_versions if version_order(name)[0] == version_order(version)[0]}
    return is_newer(version, KINDS[kind].versions) or (bool(equally_mature) and is_newer(version, equally_mature))
