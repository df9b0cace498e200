"""The kinds and API versions that kschedctl reads, and the treatment of objects in newer API versions.

An object in a newer version is read if all of its fields are known. Otherwise it is left out, and its kind counts as
not fully read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kschedctl.api.api_versions import get_version_sort_key, is_custom_api, is_newer_api_version
from kschedctl.api.decoding import iter_unknown_fields
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KINDS, LIFECYCLES, ReadFor, describe_lifecycle
from kschedctl.api.kube_version import NEWEST_MINOR
from kschedctl.errors import InputError


def is_relevant_kind(kind: str, version: str) -> bool:
    """Return whether scheduling depends on objects of the kind, even if this version of it is not read.

    Kinds of the same name from other vendors' groups do not count. ``version`` may be empty, as in items of a typed
    list.
    """
    api_kind = KINDS.get(kind)
    if api_kind is None:
        return False
    if not version or version in api_kind.versions:
        return True
    # Objects in a newer version are read if possible, unless no verdict depends on the kind.
    if is_unknown_newer_version(kind, version):
        return api_kind.read_for is not ReadFor.HISTORY
    # Only for scheduling itself is it an error to have an old version that is not read.
    return not is_custom_api(version) and api_kind.read_for is ReadFor.SCHEDULING


def check_api_version(kind: str, version: str, error: Callable[..., InputError]) -> bool:
    """Return whether kschedctl reads objects of a kind in an API version, and raise an error if the version is too old.

    An irrelevant kind is not read. A version that is missing, or newer than the known versions, counts as readable.
    ``error`` is called with a message and a hint to build the InputError that is raised.
    """
    if not is_relevant_kind(kind, version):
        return False
    versions = KINDS[kind].versions
    if not version or version in versions or is_unknown_newer_version(kind, version):
        return True
    problem = f"{kind} in apiVersion {version} {describe_lifecycle(version, kind) or 'is not known'}"
    raise error(problem, hint=f"kschedctl reads {' or '.join(versions)}")


def is_unknown_newer_version(kind: str, version: str) -> bool:
    """Return whether an API version is unknown and newer than the known versions of the kind.

    A newer version is newer than all versions that are read, or than all known versions of the same maturity. For
    example, v1beta3 is newer if v1beta2 is known.
    """
    if kind not in KINDS or (version, kind) in LIFECYCLES or version in KINDS[kind].versions:
        return False
    if is_newer_api_version(version, KINDS[kind].versions):
        return True
    known_versions = {*KINDS[kind].versions, *(lifecycle.name for lifecycle in KINDS[kind].lifecycle)}
    maturity, *_ = get_version_sort_key(version)
    equally_mature_versions = {name for name in known_versions if get_version_sort_key(name)[0] == maturity}
    return bool(equally_mature_versions) and is_newer_api_version(version, equally_mature_versions)


_INFORMATIONAL_FIELDS = re.compile(r"apiVersion|kind|metadata\..*|status\.conditions\[.*")
"""Fields that every kind has and that scheduling does not depend on."""
_DRIVER_FIELDS = re.compile(
    r"spec\.(spec\.)?(devices\.)?config|status\.(allocation\.devices\.config|devices\[\d+\]\.\w+)"
)
"""Fields of DeviceClasses, claims and devices that only device drivers read.

Upstream: staging/src/k8s.io/api/resource/v1/types.go (v1.37).
"""
_KINDS_WITH_DRIVER_FIELDS = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate"})


def find_unknown_field(kind: str, document: JsonObject) -> str:
    """Return the problem with the first unknown field that may affect scheduling, or "" if there is none.

    An object with such a field cannot be read. ``document`` has no null values.
    """
    return next((f"{path} is not known" for path in iter_unread_relevant_paths(kind, document)), "")


def iter_unread_relevant_paths(kind: str, document: JsonObject) -> Iterator[str]:
    """Yield the paths of the document's fields that are not read but may affect scheduling.

    Informational fields and fields for drivers' own data are left out. If the kind's struct has no status, scheduling
    does not depend on the status, which is then left out as well.
    """
    struct = KINDS[kind].struct
    depends_on_status = "status" in struct.__struct_fields__
    if not depends_on_status:
        document = {key: value for key, value in document.items() if key != "status"}
    paths = (path for path, _ in iter_unknown_fields(document, struct, NEWEST_MINOR))
    has_driver_fields = kind in _KINDS_WITH_DRIVER_FIELDS
    for path in paths:
        is_driver_field = has_driver_fields and _DRIVER_FIELDS.fullmatch(path)
        if not is_driver_field and not _INFORMATIONAL_FIELDS.fullmatch(path):
            yield path


def describe_skipped(version: str, reason: str) -> str:
    """Return the phrase that says, after a kind's plural, that objects of this version were left out."""
    return f"in apiVersion {version}, which is newer than this kschedctl, were left out ({reason})"


def describe_accepted_version(kind: str, version: str) -> str:
    """Return the note that objects of a newer version were read."""
    api_kind = KINDS[kind]
    return f"{api_kind.kind} in apiVersion {version} is newer than this kschedctl: read as {api_kind.versions[0]}"
