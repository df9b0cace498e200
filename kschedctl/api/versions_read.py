"""Which documents scheduling reads, by their kind and version."""

from __future__ import annotations

from collections.abc import Callable

from kschedctl.api.api_versions import age, is_foreign, is_newer
from kschedctl.api.kinds import BY_KIND, KINDS, ReadFor, fate
from kschedctl.errors import InputError


def concerns(kind: str, version: str) -> bool:
    """Whether scheduling reads objects of the kind, be it in another version of its group; those of other vendors not.

    An item of a typed list may leave its version out.
    """
    api_kind = KINDS.get(kind)
    if api_kind is None:
        return False
    if not version or version in api_kind.versions:
        return True
    if is_newer_kind(kind, version):
        return api_kind.read_for is not ReadFor.HISTORY
    return not is_foreign(version) and api_kind.read_for is ReadFor.SCHEDULING


def is_read(kind: str, version: str, error: Callable[..., InputError]) -> bool:
    """Whether scheduling reads such objects. Raises the ``error`` for an older version of what is read."""
    if not concerns(kind, version):
        return False
    known = KINDS[kind].versions
    if not version or version in known or is_newer_kind(kind, version):
        return True
    said = f"{kind} in apiVersion {version} {fate(version, kind) or 'is not known'}"
    raise error(said, hint=f"{' or '.join(known)} is what kschedctl reads")


def is_newer_kind(kind: str, version: str) -> bool:
    """Whether this is a version of what is read that came later than all that are known here, or than all as mature."""
    if kind not in KINDS or (version, kind) in BY_KIND or version in KINDS[kind].versions:
        return False
    known = {*KINDS[kind].versions, *(each.name for each in KINDS[kind].lifecycle)}
    as_mature = {name for name in known if age(name)[0] == age(version)[0]}
    return is_newer(version, KINDS[kind].versions) or (bool(as_mature) and is_newer(version, as_mature))
