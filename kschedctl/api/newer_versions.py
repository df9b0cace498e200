"""Objects in API versions that are newer than this program.

An object is read if all of its fields are known. Otherwise it is left out, and its kind counts as not fully read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kschedctl.api.decoding import iter_unknown_fields
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KINDS
from kschedctl.api.kube_version import NEWEST_MINOR

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
    """Return why the object cannot be read: a field that may affect scheduling is unknown. Return "" if it can be.

    ``document`` has no null values.
    """
    return next((f"{path} is not known" for path in iter_unknown_paths(kind, document)), "")


def iter_unknown_paths(kind: str, document: JsonObject) -> Iterator[str]:
    """Yield the paths of fields that may affect scheduling and that the kind's struct does not have."""
    struct = KINDS[kind].struct
    relevant = (
        document if "status" in struct.__struct_fields__ else {k: v for k, v in document.items() if k != "status"}
    )
    paths = (path for path, _ in iter_unknown_fields(relevant, struct, NEWEST_MINOR))
    has_driver_fields = kind in _KINDS_WITH_DRIVER_FIELDS
    return (
        p
        for p in paths
        if not (_INFORMATIONAL_FIELDS.fullmatch(p) or (has_driver_fields and _DRIVER_FIELDS.fullmatch(p)))
    )


def describe_skipped(version: str, why: str) -> str:
    """Return the phrase that follows a kind's plural if some of its objects were left out."""
    return f"in apiVersion {version}, which is newer than this kschedctl, were left out ({why})"


def describe_accepted(kind: str, version: str) -> str:
    """Return the note on objects of a newer version that were read."""
    api_kind = KINDS[kind]
    return f"{api_kind.kind} in apiVersion {version} is newer than this kschedctl: read as {api_kind.versions[0]}"
